//! Servers on the host that the sandbox reaches under names of their own. The operator sets them, so that their addresses
//! are not checked; a server that has ended is not dialled, because somebody else may have its port by then.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

#[derive(Debug, Clone)]
pub struct HostService {
    /// As the sandbox names it.
    pub host: String,
    pub port: u16,
    /// Where it is.
    pub address: SocketAddr,
    /// Why it cannot be reached any more, once it cannot.
    pub ended: Arc<OnceLock<String>>,
}
