//! Where one request of a client connection goes: to the server that the connection was admitted for, or, on the proxy's
//! own port, to the server that its absolute target names.

use super::admission::{AdmittedConnection, ClientSocket, admit, identify_caller};
use super::config::Proxy;
use super::decide::{DecidedRequest, decide, decide_path};
use super::destination::Destination;
use super::outgoing_check;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::stream::GatewayService;
use crate::event::ProxyMode;
use crate::http1::{HeadError, RequestHead, RequestTarget};
use crate::names::MODEL_HOST;
use policy::Host;
use std::net::SocketAddr;
use std::sync::Arc;

const PLAIN_PORT: u16 = 80;

/// A connection to the proxy's own port.
pub(super) struct ForwardConnection {
    pub(super) proxy: Arc<Proxy>,
    pub(super) ends: ClientSocket,
}

/// How the requests of one client connection find their server.
pub(super) enum Routing {
    Fixed(Arc<AdmittedConnection>),
    ByTarget(ForwardConnection),
}

/// The recipient of an allowed request.
pub(super) enum Recipient {
    Server { connection: Arc<AdmittedConnection>, decided: DecidedRequest },
    Gateway(GatewayTarget),
}

/// A request to the model gateway, and whose it is.
pub(super) struct GatewayTarget {
    pub(super) service: GatewayService,
    pub(super) destination: Destination,
    pub(super) path_and_query: String,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

impl Routing {
    pub(super) fn proxy(&self) -> &Arc<Proxy> {
        match self {
            Self::Fixed(connection) => &connection.proxy,
            Self::ByTarget(forward) => &forward.proxy,
        }
    }

    pub(super) fn new_record(&self) -> ConnectionRecord {
        match self {
            Self::Fixed(connection) => connection.new_record(),
            Self::ByTarget(forward) => forward.new_record(),
        }
    }
}

impl ForwardConnection {
    /// The destination is not known yet.
    pub(super) fn new_record(&self) -> ConnectionRecord {
        ConnectionRecord::new(&self.proxy.config.on_event, ProxyMode::Forward, "", 0)
    }
}

pub(super) async fn route(
    routing: &Routing,
    head: &RequestHead,
    record: &mut ConnectionRecord,
) -> Result<Recipient, Refusal> {
    match routing {
        Routing::Fixed(connection) => {
            // The connection may have been passed on since it was admitted.
            connection.check_caller().await?;
            let decided = decide(connection, head, record)?;
            Ok(Recipient::Server { connection: Arc::clone(connection), decided })
        }
        Routing::ByTarget(forward) => route_by_target(forward, head, record).await,
    }
}

async fn route_by_target(
    forward: &ForwardConnection,
    head: &RequestHead,
    record: &mut ConnectionRecord,
) -> Result<Recipient, Refusal> {
    let RequestTarget::Absolute { authority, path, query } = &head.target else {
        return Err(Refusal::head(HeadError::Target));
    };
    let proxy = &forward.proxy;
    let destination = Destination::from_authority(authority, Some(PLAIN_PORT))?;
    record.destination(&destination.host.to_string(), destination.port);
    record.request(&head.method, path);
    let gateway = gateway_at(proxy, &destination);
    // The model may receive the canary token; no one else may.
    if gateway.is_none() {
        outgoing_check::check_head(proxy.config.leak_watcher.as_ref(), &destination, head)?;
    }
    // The absolute target decides; a Host header that disagrees with it is refused.
    proxy.defences.check_host(head, &destination, PLAIN_PORT)?;
    if let Some(service) = gateway {
        let query = query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        return Ok(Recipient::Gateway(GatewayTarget {
            service,
            destination,
            path_and_query: format!("{path}{query}"),
            peer: forward.ends.peer,
            local: forward.ends.local,
        }));
    }
    let connection = admit_forward(forward, destination, ProxyMode::Forward, record).await?;
    let decided = decide_path(&connection, head, path, query.as_deref(), record)?;
    Ok(Recipient::Server { connection: Arc::new(connection), decided })
}

pub(super) async fn admit_forward(
    forward: &ForwardConnection,
    destination: Destination,
    via: ProxyMode,
    record: &mut ConnectionRecord,
) -> Result<AdmittedConnection, Refusal> {
    let caller = identify_caller(&forward.proxy, forward.ends, record).await?;
    admit(&forward.proxy, destination, caller, forward.ends, via).await
}

pub(super) fn gateway_at(proxy: &Proxy, destination: &Destination) -> Option<GatewayService> {
    let is_gateway = destination.host == Host::Name(MODEL_HOST.to_owned()) && destination.port == PLAIN_PORT;
    proxy.config.gateway.clone().filter(|_| is_gateway)
}
