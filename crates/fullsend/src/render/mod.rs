//! Formats events, records and diagnostics for people and programs. It decides nothing and prints nothing.

pub(crate) mod actions;
pub(crate) mod atif;
pub(crate) mod closing;
pub(crate) mod colour;
pub(crate) mod console;
pub mod diagnostics;
pub(crate) mod dry_run;
mod excerpt;
pub(crate) mod figures;
pub(crate) mod findings;
pub mod github;
pub(crate) mod junit;
pub(crate) mod live;
pub(crate) mod otlp;
pub(crate) mod page;
pub(crate) mod patch;
mod refusal;
pub(crate) mod report;
pub(crate) mod result;
pub(crate) mod run_findings;
pub mod sarif;
pub(crate) mod schema;
pub(crate) mod script_lines;
pub(crate) mod session;
pub(crate) mod workflow_commands;
