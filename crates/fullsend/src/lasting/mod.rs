//! A lasting sandbox: one that many commands use, one after another or at once. A small owner process holds each one; there
//! is no central daemon. It ends when it is removed, by its time to live, with its parent, or with its owner; what a dead
//! owner leaves is swept by a later command. Nothing here prints or reads the environment.

pub mod archive;
pub mod client;
pub mod collect;
mod connection;
pub mod create;
pub mod directory;
pub mod inside_files;
mod owned;
pub mod owner;
pub mod protocol;
pub mod pump;
pub mod transfer;
