//! Sessions end to end: messages become bounded runs in real sandboxes, directives become durable progress.

mod directives;
mod memory;
mod pauses;
pub mod stage;
mod troubles;
mod workers;
