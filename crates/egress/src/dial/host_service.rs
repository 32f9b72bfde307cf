//! Servers that the harness starts on the host, which the sandbox reaches by name. Their addresses are not checked,
//! because the harness set them. A server that has ended is not dialled: another program may have its port by then.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

#[derive(Debug, Clone)]
pub struct HostService {
    /// The name inside the sandbox.
    pub host: String,
    pub port: u16,
    /// The address on the host.
    pub address: SocketAddr,
    /// Set once it has ended, with the reason.
    pub ended: Arc<OnceLock<String>>,
}
