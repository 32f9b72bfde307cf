//! Names inside the sandbox. Every host that the policy names gets its own address in a range that is not routed. A name
//! server inside returns it, and a listener on it leads to the proxy, so that programs without proxy support work too.
//! No question leaves the machine.

mod directory;
mod plan;
mod server;

pub use directory::{NameDirectory, NameLookup};
pub use plan::{NamePlan, NamedService, PlanError, PlannedSocket, SocketPurpose};
pub(crate) use server::{NameServer, serve_stream, serve_udp};

/// Where runtimes find the model.
pub const MODEL_HOST: &str = "model.fullsend.internal";
