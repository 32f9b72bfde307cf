//! Names inside the sandbox. Every host that the policy names gets an address of its own in a range that means nothing
//! elsewhere, a resolver inside answers with it, and a listener there leads to the proxy: so programs that know nothing
//! of proxies are served too. No question ever leaves the machine.

mod directory;
mod plan;
mod server;

pub use directory::{NameDirectory, NameLookup};
pub use plan::{NamePlan, NamedService, PlanError, PlannedSocket, SocketPurpose};
pub(crate) use server::{NameServer, serve_stream, serve_udp};

/// Where runtimes find the model.
pub const MODEL_HOST: &str = "model.fullsend.internal";

/// Where an api server of the harness is found inside.
pub fn api_host(name: &str) -> String {
    format!("{name}.api.fullsend.internal")
}
