//! A lasting sandbox: one that many commands use, one after another or at once. A small owner process holds each one; there
//! is no central daemon. It ends when it is removed, by its time to live, with its parent, or with its owner; what a dead
//! owner leaves is swept by a later command. Nothing here prints or reads the environment.

pub(crate) mod client;
pub(crate) mod collect;
mod connection;
pub(crate) mod create;
pub(crate) mod directory;
mod owned;
pub(crate) mod owner;
pub(crate) mod protocol;
pub(crate) mod pump;
pub(crate) mod transfer;
