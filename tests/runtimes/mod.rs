//! The runtimes, as they are: real Claude Code, Codex and opencode, and our own loop in real sandboxes, before a model that follows
//! a script and shares no code with ours. `stage` sets the scene; each other file shows one promise of the contract.

mod acp;
mod added;
mod budget;
mod dead_hooks;
mod guarded;
mod hostile;
pub mod in_image;
mod installing;
mod matrix;
mod model_choice;
mod opencode;
mod options;
mod own;
mod polled;
pub mod programs;
mod same;
mod service_table;
pub mod stage;
mod streams;
mod tried;
mod upstreams;
