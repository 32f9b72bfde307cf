//! Whether a connection may be made: which program connects, what the policy says, what the name resolves to. In this order: a
//! name is resolved only after the policy has allowed it.

use super::config::Proxy;
use super::destination::Destination;
use super::outgoing_check;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::tunnel::ByteCounts;
use crate::event::ProxyMode;
use crate::identity::{IdentifiedCaller, Identify, IdentityError};
use policy::{Admitted, Host};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the program that holds a tunnel is checked.
const CALLER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The two ends of a client's connection, as the proxy sees them.
#[derive(Clone, Copy)]
pub(super) struct ClientSocket {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

/// A connection that the policy allowed.
#[derive(Clone)]
pub(super) struct AdmittedConnection {
    pub(super) proxy: Arc<Proxy>,
    pub(super) destination: Destination,
    pub(super) admitted: Admitted,
    /// Resolved and checked; only these are dialled.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) caller: IdentifiedCaller,
    pub(super) ends: ClientSocket,
    pub(super) via: ProxyMode,
    /// Whether the client speaks TLS; the connection to the server then does too.
    pub(super) tls: bool,
}

impl AdmittedConnection {
    /// The record of one request on this connection.
    pub(super) fn new_record(&self) -> ConnectionRecord {
        let Destination { host, port } = &self.destination;
        let on_event = &self.proxy.config.on_event;
        let mut record = ConnectionRecord::new(on_event, self.via, &host.to_string(), *port);
        record.set_caller(&self.caller);
        record
    }

    /// Checks that only the admitted program, or one that it started, holds the connection.
    pub(super) async fn check_caller(&self) -> Result<(), Refusal> {
        self.check_holder().await.map_err(|error| Refusal::identity(&error))
    }

    /// Returns when a program that the opener did not start holds the connection. Checks only while bytes move. A
    /// connection without any holder closes by itself.
    pub(super) async fn watch_caller(&self, counts: &ByteCounts) -> Refusal {
        let mut seen = counts.sum();
        loop {
            tokio::time::sleep(CALLER_CHECK_INTERVAL).await;
            if std::mem::replace(&mut seen, counts.sum()) == counts.sum() {
                continue;
            }
            match self.check_holder().await {
                Ok(()) | Err(IdentityError::NoSocket | IdentityError::NoOwner) => {}
                Err(error) => return Refusal::identity(&error),
            }
        }
    }

    async fn check_holder(&self) -> Result<(), IdentityError> {
        let opener = self.caller.program.clone();
        let ClientSocket { peer, local } = self.ends;
        ask(&self.proxy, move |identifier| identifier.check_holder(&opener, peer, local)).await
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

async fn ask<T: Send + 'static>(
    proxy: &Proxy,
    question: impl FnOnce(&dyn Identify) -> Result<T, IdentityError> + Send + 'static,
) -> Result<T, IdentityError> {
    let identifier = Arc::clone(&proxy.config.identifier);
    // Reading the proc filesystem and hashing programs would block the reactor.
    let answer = tokio::task::spawn_blocking(move || question(identifier.as_ref())).await;
    answer.unwrap_or_else(|error| {
        Err(IdentityError::Proc { what: "the calling program", source: io::Error::other(error) })
    })
}

pub(super) async fn identify_caller(
    proxy: &Proxy,
    ends: ClientSocket,
    record: &mut ConnectionRecord,
) -> Result<IdentifiedCaller, Refusal> {
    let ClientSocket { peer, local } = ends;
    let caller = ask(proxy, move |identifier| identifier.identify(peer, local))
        .await
        .map_err(|error| Refusal::identity(&error))?;
    record.set_caller(&caller);
    Ok(caller)
}

pub(super) async fn admit(
    proxy: &Arc<Proxy>,
    destination: Destination,
    caller: IdentifiedCaller,
    ends: ClientSocket,
    via: ProxyMode,
) -> Result<AdmittedConnection, Refusal> {
    let config = &proxy.config;
    outgoing_check::check_host(config.leak_watcher.as_ref(), &destination)?;
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
        ends,
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
