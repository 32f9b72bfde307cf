//! Which program sends a request. Every program inside can reach the gateway, but only the runtime may use the run's key
//! and budget.

use crate::allowlist::AllowedFeatures;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Finds the program behind a connection: `Ok` if it is the runtime, else the program's path.
pub type CheckClient = Arc<dyn Fn(SocketAddr, SocketAddr) -> Result<(), String> + Send + Sync>;

/// The other end of a connection.
#[derive(Clone)]
pub(super) struct GatewayClient {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) check: Option<CheckClient>,
}

/// A program that is not the runtime.
#[derive(Debug)]
pub(super) struct ForeignClient {
    program: String,
}

impl fmt::Display for ForeignClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        write!(
            f,
            "fullsend: only the agent's runtime may use the model gateway; this request came from {program}. A person can \
             allow it in the harness: gateway: {{allow: [\"client:{program}\"]}}"
        )
    }
}

impl std::error::Error for ForeignClient {}

impl GatewayClient {
    /// Checked for each request: another process may hold the socket by then.
    pub(super) async fn check(&self, allowed: &AllowedFeatures) -> Result<(), ForeignClient> {
        let Some(check) = self.check.clone() else { return Ok(()) };
        let peer = self.peer;
        let local = self.local;
        // Reading the proc filesystem would block the reactor.
        let checked = tokio::task::spawn_blocking(move || check(peer, local)).await;
        match checked.unwrap_or_else(|error| Err(error.to_string())) {
            Err(program) if !allowed.allows(&format!("client:{program}")) => Err(ForeignClient { program }),
            _ => Ok(()),
        }
    }
}
