//! The calls of users (`sessions`) and workers (`worker`), the rows of a wake's prompt (`context`), bundles for other
//! stores (`bundle`), and objects (`objects`, `object_store`). Each call makes one decision and lets the store write it
//! in one step.

pub(crate) mod bundle;
pub(crate) mod context;
pub(crate) mod object_store;
pub(crate) mod objects;
pub(crate) mod sessions;
pub(crate) mod worker;
