//! Connections from the host to servers: resolve, connect to a checked address, and TLS verified against the roots that
//! this machine trusts. What may be dialled is decided by the caller.

mod certificates;
mod host_proxy;
mod host_service;
mod roots;
mod socket;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use certificates::{CertificateError, ClientCertificate};
pub use host_proxy::{HostProxy, ProxyUrlError};
pub use host_service::HostService;
pub use roots::{Roots, RootsError};

use crate::resolver::{Resolve, ResolveError};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, OtherError};
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
    services: Vec<HostService>,
    proxy: Option<HostProxy>,
    /// For one address, and for one handshake.
    pub step_time: Duration,
    /// The address to connect to instead of a checked one. Tests reach public addresses on the loopback with it.
    pub(crate) route: Arc<dyn Fn(IpAddr) -> IpAddr + Send + Sync>,
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
    /// A server of the harness that has ended.
    Ended {
        reason: String,
    },
    /// The proxy of this machine does not connect to the host.
    Proxy {
        proxy: String,
        host: String,
        reason: String,
    },
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::Connect { host, port, source } => write!(f, "cannot connect to {host}:{port}: {source}"),
            Self::Tls { host, source } => {
                write!(f, "no trusted TLS connection to {host}: ")?;
                match unusable_certificate(source) {
                    Some(why) => write!(f, "its certificate cannot be used for a server ({why})"),
                    None => source.fmt(f),
                }
            }
            Self::Timeout { host, port, step } => write!(f, "{host}:{port} did not respond in time ({step})"),
            Self::Ended { reason } => f.write_str(reason),
            Self::Proxy { proxy, host, reason } => {
                write!(f, "the proxy {proxy} of this machine does not connect to {host}: {reason}")
            }
        }
    }
}

/// Reasons for which rustls has no words.
fn unusable_certificate(error: &io::Error) -> Option<&dyn std::error::Error> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(OtherError(why))) => {
            Some(why.as_ref())
        }
        _ => None,
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error) => Some(error),
            Self::Connect { source, .. } | Self::Tls { source, .. } => Some(source),
            Self::Timeout { .. } | Self::Ended { .. } | Self::Proxy { .. } => None,
        }
    }
}

impl Dialer {
    pub fn new(resolver: Arc<dyn Resolve>, roots: Roots) -> Self {
        Self {
            resolver,
            tls: Arc::new(roots.into_client_config()),
            services: Vec::new(),
            proxy: None,
            step_time: Duration::from_secs(10),
            route: Arc::new(|address| address),
        }
    }

    /// Adds servers that the harness starts on the host.
    #[must_use]
    pub fn with_services(self, services: Vec<HostService>) -> Self {
        Self { services, ..self }
    }

    /// Reaches hosts through the proxy that this machine must use.
    #[must_use]
    pub fn with_proxy(self, proxy: Option<HostProxy>) -> Self {
        Self { proxy, ..self }
    }

    /// Shows this certificate to servers that ask for one.
    #[must_use]
    pub fn with_certificate(self, ClientCertificate(certificate): ClientCertificate) -> Self {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.client_auth_cert_resolver = certificate;
        Self { tls: Arc::new(tls), ..self }
    }

    /// Whether the host's own proxy resolves the name and connects to it. Proxies refuse tunnels to plain HTTP.
    pub fn is_proxied(&self, host: &str, port: u16) -> bool {
        port != 80 && self.service(host, port).is_none() && self.proxy_for(host, port).is_some()
    }

    fn proxy_for(&self, host: &str, port: u16) -> Option<&HostProxy> {
        self.proxy.as_ref().filter(|proxy| proxy.serves(host, port))
    }

    pub(crate) fn service(&self, host: &str, port: u16) -> Option<&HostService> {
        self.services.iter().find(|service| service.host == host && service.port == port)
    }

    /// Resolves a name. An address literal is its own address.
    pub async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(vec![address]);
        }
        self.resolver.resolve(host).await.map_err(DialError::Resolve)
    }

    /// Connects to the first of these addresses that accepts. No name is resolved again, unless by the host's proxy, which
    /// gets the name.
    pub async fn connect(&self, host: &str, addresses: &[IpAddr], port: u16) -> Result<TcpStream, DialError> {
        match self.proxy_for(host, port).filter(|_| self.is_proxied(host, port)) {
            // Every connection would need the space of a second handshake, and few hosts have a proxy.
            Some(proxy) => Box::pin(self.connect_through(proxy, host, port)).await,
            None => self.connect_directly(host, addresses, port).await,
        }
    }

    async fn connect_through(
        &self,
        proxy: &HostProxy,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, DialError> {
        let addresses = self.resolve(&proxy.host).await?;
        let stream = self.connect_directly(&proxy.host, &addresses, proxy.port).await?;
        let timeout = |_| DialError::Timeout { host: proxy.host.clone(), port: proxy.port, step: "proxy" };
        if !proxy.is_tls {
            let tunnel = proxy.tunnel(stream, host, port);
            return tokio::time::timeout(self.step_time, tunnel).await.map_err(timeout)?;
        }
        let stream = self.secure(stream, &proxy.host, &[b"http/1.1"]).await?;
        let tunnel = proxy.tunnel(stream, host, port);
        let stream = tokio::time::timeout(self.step_time, tunnel).await.map_err(timeout)??;
        let unconnected = |source| DialError::Connect { host: proxy.host.clone(), port: proxy.port, source };
        socket::of_stream(stream).await.map_err(unconnected)
    }

    async fn connect_directly(
        &self,
        host: &str,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<TcpStream, DialError> {
        let timeout = || DialError::Timeout { host: host.to_owned(), port, step: "connecting" };
        let mut failure = timeout();
        let own = self.service(host, port);
        if let Some(reason) = own.and_then(|service| service.ended.get()) {
            return Err(DialError::Ended { reason: reason.clone() });
        }
        let port = own.map_or(port, |service| service.address.port());
        for address in addresses {
            let connecting = TcpStream::connect(((self.route)(*address), port));
            match tokio::time::timeout(self.step_time, connecting).await {
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
