//! The OpenShell policy model: parse, validate, compare, decide, address classes.
//!
//! Everything here is a pure function over data: no I/O, no clock, no threads. Whoever enforces a policy (the sandbox,
//! egress) asks here and acts elsewhere.

#![forbid(unsafe_code)]

pub mod address;
mod canonical;
pub mod glob;

pub use canonical::{CanonicalPath, EncodedSlash, MAX_PATH_BYTES, PathError};
