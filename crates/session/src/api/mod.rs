//! The calls of those who use sessions (`sessions`), of workers (`worker`), and what they read for a wake (`context`) or
//! carry to another store (`bundle`), and where objects are (`object_store`). Each call makes one decision and lets the store write it in one step.

pub(crate) mod bundle;
pub(crate) mod context;
pub(crate) mod object_store;
pub(crate) mod objects;
pub(crate) mod sessions;
pub(crate) mod worker;
