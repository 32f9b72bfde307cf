//! Durable sessions of agents that last: an append-only event log per session, the state it folds to, wakes, leases,
//! memory and learnings, over a store. The crate knows nothing of runs, harnesses or models; it asks no clock and
//! no source of randomness; it has no async in its API.
//!
//! The inside is pure: `fold` says what a log means, `ingress` what may come in, `claim` how a wake begins, `commit` how
//! it ends, `control` what else may happen. Each drafts events; a store writes a draft in one atomic step.

pub mod approval;
pub mod bundle;
mod claim;
pub mod commit;
pub mod context;
mod control;
pub mod digest;
pub mod directive;
mod draft;
pub mod event;
pub mod fold;
pub mod header;
pub mod id;
pub mod ingress;
pub mod learning;
pub mod lease;
pub mod limits;
pub mod memory;
pub mod moment;
pub mod refusal;
mod retry;
mod seal;
pub mod sequence;
pub mod sessions;
pub mod state;
pub mod status;
pub mod store;
