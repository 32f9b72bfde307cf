//! Sessions end to end: messages become bounded runs in real sandboxes, directives become durable progress.

mod checkouts;
mod confirmations;
mod directives;
mod hanging;
mod ledger;
mod machines;
mod memory;
mod object_stores;
mod ordinary;
mod pauses;
pub mod stage;
mod troubles;
mod workers;
