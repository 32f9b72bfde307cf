//! The OpenShell policy model: parse, validate, compare, decide, address classes.
//!
//! Everything here is a pure function over data: no I/O, no clock, no threads. Whatever enforces a policy (the sandbox,
//! egress) asks here and acts elsewhere.
//!
//! ```
//! use policy::{CallingProgram, Compiled, ConnectionRequest, Host, Policy};
//! use std::path::Path;
//!
//! let text = "version: 1
//! network_policies:
//!   api:
//!     binaries: [{path: /usr/bin/curl}]
//!     endpoints: [{host: api.example.com, port: 443}]
//! ";
//! let mut sources = yaml::Sources::default();
//! let id = sources.add("policy.yaml", text);
//! let policy = Compiled::new(&Policy::parse(&sources, id).unwrap().policy);
//! let is_allowed = |program: &str, host: &str| {
//!     let host = Host::parse(host).unwrap();
//!     let caller = CallingProgram { binary: Path::new(program), ancestors: &[] };
//!     policy.admit(&ConnectionRequest { host: &host, port: 443, caller }).is_ok()
//! };
//! assert!(is_allowed("/usr/bin/curl", "api.example.com"));
//! assert!(!is_allowed("/usr/bin/curl", "elsewhere.example"));
//! assert!(!is_allowed("/usr/bin/python3", "api.example.com"));
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod baseline;
mod canonical;
mod decide;
pub mod file;
pub mod glob;
mod host;
mod message;
pub mod model;
mod query;
mod read;
mod schema;
mod subset;
mod suggest;
mod uninspected;

pub use baseline::baseline;
pub use canonical::{CanonicalPath, EncodedSlash, MAX_PATH_BYTES, PathError};
pub use decide::{
    AccessBody, AccessRequest, Admitted, CallingProgram, Compiled, ConnectionRequest, DecidingRule, Denial,
    Fix, InspectedRequest, PolicyDecision, Reason, RequestAction, decide,
};
pub use host::{Host, HostError};
pub use message::{
    BodyRequest, GraphqlOperation, MessageError, Operation, Operations, ParamValue, RpcCall, RpcIds, rpc_ids,
    too_large,
};
pub use model::{HostPattern, NetworkRule, Policy};
pub use query::{Query, QueryStringError};
pub use read::{Parsed, ambiguities};
pub use schema::schema;
pub use subset::{Widening, subset};
pub use suggest::{RefusedAccess, Suggestion, suggest};
pub use uninspected::uninspected;
