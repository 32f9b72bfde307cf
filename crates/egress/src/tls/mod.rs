//! TLS towards the sandbox, for connections whose requests are inspected. The authority's key exists for one run and only
//! in memory; only its certificate is given to the sandbox.

mod authority;
mod java;

pub use authority::{AuthorityError, RunAuthority};
pub use java::java_trust_store;
