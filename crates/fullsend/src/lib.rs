//! One agent, one YAML file, one sandbox, and a record of what happened.
//!
//! Read `run/mod.rs` first: it is the sequence. The modules are its stages, in the order of `ARCHITECTURE.md`.

pub mod bootstrap;
pub mod cancel;
pub mod check;
pub mod cli;
pub mod credentials;
pub mod defaults;
pub mod event;
pub mod git;
pub mod guard;
pub mod harness;
pub mod image;
pub mod inputs;
pub mod preflight;
pub mod provision;
pub mod publish;
pub mod quarantine;
pub mod record;
pub mod render;
pub mod resolve;
pub mod run;
pub mod runtime;
mod runtimes;
pub mod scripts;
pub mod validate;
pub mod wake;
pub mod worker;
