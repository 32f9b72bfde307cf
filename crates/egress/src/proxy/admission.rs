//! Whether a connection may be made: which program asks, what the policy says, where the name leads. In this order: a
//! name is resolved only after the policy has allowed it.

use super::config::Proxy;
use super::destination::Destination;
use super::leak_watcher;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use crate::event::Via;
use crate::identity::{IdentifiedCaller, IdentityError};
use policy::{Admitted, Host};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A connection that the policy allowed.
#[derive(Clone)]
pub(super) struct AdmittedConnection {
    pub(super) proxy: Arc<Proxy>,
    pub(super) destination: Destination,
    pub(super) admitted: Admitted,
    /// Resolved and checked; only these are dialled.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) caller: IdentifiedCaller,
    pub(super) via: Via,
    /// Whether the client speaks TLS; the connection to the server then does too.
    pub(super) tls: bool,
}

impl AdmittedConnection {
    /// The record of one request on this connection.
    pub(super) fn new_record(&self) -> ConnectionRecord {
        let Destination { host, port } = &self.destination;
        let on_event = &self.proxy.config.on_event;
        let mut record = ConnectionRecord::new(on_event, self.via, &host.to_string(), *port);
        record.caller(&self.caller);
        record
    }

    /// The port that a Host header without one means.
    pub(super) fn default_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }

    /// The Host header for the server: with the port where it is not the default.
    pub(super) fn host_header(&self) -> String {
        if self.destination.port == self.default_port() {
            self.destination.host_text()
        } else {
            self.destination.to_string()
        }
    }
}

pub(super) async fn identify_caller(
    proxy: &Proxy,
    peer: SocketAddr,
    local: SocketAddr,
    record: &mut ConnectionRecord,
) -> Result<IdentifiedCaller, Refusal> {
    let identifier = Arc::clone(&proxy.config.identifier);
    // Reading the proc filesystem and hashing programs would block the reactor.
    let identified = tokio::task::spawn_blocking(move || identifier.identify(peer, local)).await;
    let identified = identified.unwrap_or_else(|error| {
        Err(IdentityError::Proc { what: "the calling program", source: io::Error::other(error) })
    });
    let caller = identified.map_err(|error| Refusal::identity(&error))?;
    record.caller(&caller);
    Ok(caller)
}

pub(super) async fn admit(
    proxy: &Arc<Proxy>,
    destination: Destination,
    caller: IdentifiedCaller,
    via: Via,
) -> Result<AdmittedConnection, Refusal> {
    let config = &proxy.config;
    leak_watcher::check_host(config.leak_watcher.as_ref(), &destination)?;
    let ancestors: Vec<PathBuf> =
        caller.ancestors.iter().map(|program| PathBuf::from(&program.path)).collect();
    let connection = policy::ConnectionRequest {
        host: &destination.host,
        port: destination.port,
        caller: policy::CallingProgram { binary: Path::new(&caller.program.path), ancestors: &ancestors },
    };
    let admitted = config
        .policy
        .admit(&connection)
        .map_err(|denial| Refusal::policy(&denial, &config.locate, &destination.to_string()))?;
    let addresses = resolve(proxy, &destination, &admitted).await?;
    Ok(AdmittedConnection {
        proxy: Arc::clone(proxy),
        destination,
        admitted,
        addresses,
        caller,
        via,
        tls: false,
    })
}

/// Takes the policy's decision, so that no name is resolved without one.
async fn resolve(
    proxy: &Proxy,
    destination: &Destination,
    admitted: &Admitted,
) -> Result<Vec<IpAddr>, Refusal> {
    let dialer = &proxy.config.dialer;
    // The operator's own servers are not checked: the harness set their addresses.
    if let Some(service) = dialer.service(&destination.host.to_string(), destination.port) {
        return Ok(vec![service.address.ip()]);
    }
    let addresses = match &destination.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => dialer.resolve(name).await.map_err(|error| Refusal::dial(&error))?,
    };
    proxy
        .defences
        .check_addresses(&admitted.reach(), destination.port, &addresses)
        .map_err(|denied| Refusal::address(&denied, &destination.host))?;
    Ok(addresses)
}
