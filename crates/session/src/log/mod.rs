//! What a session's log is made of, and the fold that turns a log into a state. It decides nothing and stores nothing.

pub(crate) mod cron;
pub(crate) mod digest;
pub(crate) mod event;
pub(crate) mod fold;
pub(crate) mod header;
pub(crate) mod id;
pub(crate) mod learning;
pub(crate) mod memory;
pub(crate) mod seal;
pub(crate) mod seq;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod time;
