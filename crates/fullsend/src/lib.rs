//! One agent, one YAML file, one sandbox, and a record of what happened.
//!
//! Read `run/mod.rs` first: it is the sequence. The modules are its stages, in the order of `ARCHITECTURE.md`.

pub mod check;
pub mod cli;
pub mod defaults;
pub mod event;
pub mod harness;
pub mod render;
pub mod resolve;
