//! TLS towards the sandbox, for the connections whose requests a rule must read. The authority exists for one run, in
//! memory alone; only its certificate goes inside.

mod authority;
mod java;

pub use authority::{AuthorityError, RunAuthority};
pub use java::java_trust_store;
