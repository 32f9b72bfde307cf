//! Shell commands and the tool calls that carry them: parses a command line, finds what is harmful in it, checks a tool
//! call and its result, and shortens long logs. The only crate that uses tree-sitter's C code. It runs nothing.

mod allowlist;
mod command;
mod harm;
mod isolation;
mod parse;
mod parsed;
mod rules;
mod script;
mod shorten;
mod simple;
mod split;
mod steps;
mod target;
mod tool;
mod unwrap;
mod word;

#[cfg(test)]
mod everyday_tests;

pub use allowlist::{Allowlist, EmptyAllowlist};
pub use command::{scan_command, scan_command_in};
pub use isolation::Isolation;
pub use shorten::shorten;
pub use tool::{CleanedResult, ProposedCall, ScanContext, after_tool, before_tool, denies};
