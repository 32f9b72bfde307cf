//! Connections from the host outwards: resolve, connect to a checked address, and TLS verified against the roots that
//! this machine trusts. It dials what it is told; what may be dialled is decided before.

mod roots;
mod service;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use roots::{Roots, RootsError};
pub use service::Service;

use crate::resolver::{Resolve, ResolveError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub struct Dialer {
    resolver: Arc<dyn Resolve>,
    tls: Arc<ClientConfig>,
    services: Vec<Service>,
    /// For one address, and for one handshake.
    pub step_time: Duration,
    /// Tests reach public addresses here, and see which were dialled.
    #[cfg(test)]
    pub(crate) detour: Option<Detour>,
}

#[cfg(test)]
pub(crate) struct Detour {
    pub(crate) to: IpAddr,
    pub(crate) dialled: std::sync::Mutex<Vec<IpAddr>>,
}

#[derive(Debug)]
pub enum DialError {
    Resolve(ResolveError),
    Connect {
        host: String,
        port: u16,
        source: io::Error,
    },
    Tls {
        host: String,
        source: io::Error,
    },
    Timeout {
        host: String,
        port: u16,
        step: &'static str,
    },
    /// A server of the host's own that is no more.
    Ended {
        reason: String,
    },
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::Connect { host, port, source } => write!(f, "cannot connect to {host}:{port}: {source}"),
            Self::Tls { host, source } => write!(f, "no trusted TLS connection to {host}: {source}"),
            Self::Timeout { host, port, step } => write!(f, "{host}:{port} did not answer in time ({step})"),
            Self::Ended { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error) => Some(error),
            Self::Connect { source, .. } | Self::Tls { source, .. } => Some(source),
            Self::Timeout { .. } | Self::Ended { .. } => None,
        }
    }
}

impl Dialer {
    pub fn new(resolver: Arc<dyn Resolve>, roots: Roots) -> Self {
        Self {
            resolver,
            tls: Arc::new(roots.into_client_config()),
            services: Vec::new(),
            step_time: Duration::from_secs(10),
            #[cfg(test)]
            detour: None,
        }
    }

    /// With servers of the host, which nobody else names.
    #[must_use]
    pub fn with_services(self, services: Vec<Service>) -> Self {
        Self { services, ..self }
    }

    pub(crate) fn service(&self, host: &str, port: u16) -> Option<&Service> {
        self.services.iter().find(|service| service.host == host && service.port == port)
    }

    /// An address literal is its own address.
    pub async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(vec![address]);
        }
        self.resolver.resolve(host).await.map_err(DialError::Resolve)
    }

    /// The first of these addresses that accepts; none is looked up again.
    pub async fn connect(&self, host: &str, addresses: &[IpAddr], port: u16) -> Result<TcpStream, DialError> {
        let timeout = || DialError::Timeout { host: host.to_owned(), port, step: "connecting" };
        let mut failure = timeout();
        let own = self.service(host, port);
        if let Some(reason) = own.and_then(|service| service.ended.get()) {
            return Err(DialError::Ended { reason: reason.clone() });
        }
        let port = own.map_or(port, |service| service.address.port());
        for address in addresses {
            #[cfg(test)]
            let address = &self.detoured(*address);
            match tokio::time::timeout(self.step_time, TcpStream::connect((*address, port))).await {
                Ok(Ok(stream)) => {
                    let set = stream.set_nodelay(true);
                    return set.map(|()| stream).map_err(|source| DialError::Connect {
                        host: host.to_owned(),
                        port,
                        source,
                    });
                }
                Ok(Err(source)) => failure = DialError::Connect { host: host.to_owned(), port, source },
                Err(_) => failure = timeout(),
            }
        }
        Err(failure)
    }

    #[cfg(test)]
    fn detoured(&self, address: IpAddr) -> IpAddr {
        self.detour.as_ref().map_or(address, |detour| {
            detour.dialled.lock().unwrap().push(address);
            detour.to
        })
    }

    pub async fn secure(
        &self,
        stream: TcpStream,
        host: &str,
        protocols: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>, DialError> {
        let port = stream.peer_addr().map_or(0, |peer| peer.port());
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|error| DialError::Tls { host: host.to_owned(), source: io::Error::other(error) })?;
        let mut config = ClientConfig::clone(&self.tls);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let shaking = TlsConnector::from(Arc::new(config)).connect(name, stream);
        match tokio::time::timeout(self.step_time, shaking).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(source)) => Err(DialError::Tls { host: host.to_owned(), source }),
            Err(_) => Err(DialError::Timeout { host: host.to_owned(), port, step: "TLS handshake" }),
        }
    }
}
