//! A proxy, servers behind it and clients before it.

use crate::credentials::CredentialStore;
use crate::dial::testing::Authority as Vendor;
use crate::dial::{Detour, Dialer};
use crate::event::{AttemptDecision, AttemptEvent, EgressEvent, OnEvent};
use crate::identity::Identifier;
use crate::names::{Directory, NamePlan, PlannedSocket, Purpose};
use crate::proxy::defence::Defence;
use crate::proxy::{BoxStream, Lookout, Proxy, ProxyConfig, ProxyLimits, ServedSocket, Serving, start};
use crate::resolver::{FixedResolver, Resolve};
use crate::tls::Authority;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// An address that every policy may reach; the detour leads it to the loopback.
pub(super) const PUBLIC: &str = "93.184.216.34";

pub(super) struct Scene {
    pub(super) proxy: SocketAddr,
    pub(super) resolver: SocketAddr,
    pub(super) direct: SocketAddr,
    pub(super) authority: Arc<Authority>,
    pub(super) vendor: Arc<Vendor>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) events: Arc<Mutex<Vec<EgressEvent>>>,
    pub(super) serving: Option<Serving>,
}

pub(super) struct Setting {
    pub(super) policy: String,
    pub(super) names: Vec<(&'static str, Vec<IpAddr>)>,
    pub(super) limits: ProxyLimits,
    /// The name that the direct listener stands for, and its port.
    pub(super) direct: (&'static str, u16),
    pub(super) vendor: Arc<Vendor>,
    pub(super) credentials: Arc<CredentialStore>,
    /// Instead of `names`.
    pub(super) resolver: Option<Arc<dyn Resolve>>,
    pub(super) lookout: Option<Lookout>,
    pub(super) without: Vec<Defence>,
    /// A path at which the proxy's own code panics.
    pub(super) panics_at: Option<&'static str>,
}

impl Setting {
    pub(super) fn new(policy: impl Into<String>) -> Self {
        let public = vec![PUBLIC.parse().unwrap()];
        Self {
            policy: policy.into(),
            names: vec![
                ("api.test", public.clone()),
                ("other.test", public.clone()),
                ("x.wild.test", public),
            ],
            limits: ProxyLimits {
                head_time: Duration::from_millis(500),
                idle: Duration::from_secs(2),
                ..ProxyLimits::default()
            },
            direct: ("api.test", 0),
            vendor: Arc::new(Vendor::new()),
            credentials: Arc::default(),
            resolver: None,
            lookout: None,
            without: Vec::new(),
            panics_at: None,
        }
    }
}

/// Rules for `host: api.test` with everything after `port:` given.
pub(super) fn rule(port: u16, rest: &str) -> String {
    format!(
        "version: 1\nnetwork_policies:\n  api:\n    endpoints:\n      - host: api.test\n        port: {port}\n{rest}\n    \
         binaries:\n      - path: \"/**\"\n"
    )
}

fn parsed(text: &str) -> policy::Policy {
    let mut sources = yaml::Sources::default();
    let source = sources.add("policy.yaml", text);
    match policy::Policy::parse(&sources, source) {
        Ok(parsed) => parsed.policy,
        Err(problems) => panic!("{problems:?}\n{text}"),
    }
}

pub(super) fn endpoints(text: &str) -> Vec<policy::model::Endpoint> {
    parsed(text).networks.into_iter().flat_map(|network| network.endpoints).collect()
}

pub(super) async fn scene(setting: Setting) -> Scene {
    let Setting { policy, names, limits, direct, vendor, credentials, resolver, lookout, without, panics_at } =
        setting;
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let on_event: OnEvent = Arc::new(move |event| seen.lock().unwrap().push(event));
    let resolver = resolver.unwrap_or_else(|| Arc::new(FixedResolver::new(names)));
    let mut dialer = Dialer::new(resolver, vendor.roots());
    dialer.step_time = Duration::from_millis(500);
    dialer.detour = Some(Detour { to: Ipv4Addr::LOCALHOST.into(), dialled: Mutex::default() });
    let dialer = Arc::new(dialer);
    let direct_listener = bind_direct(direct.1);
    let direct_address = direct_listener.local_addr().unwrap();
    let IpAddr::V4(stands_for) = direct_address.ip() else { panic!("IPv4") };
    let plan = NamePlan::with_names(&[(direct.0, stands_for)], &[Ipv4Addr::new(127, 0, 9, 1)]);
    let policy = policy::Compiled::new(&parsed(&policy));
    let directory = Arc::new(Directory::new(&plan, policy.clone()));
    let authority = Arc::new(Authority::new().unwrap());
    let config = ProxyConfig {
        policy: Arc::new(policy),
        directory,
        dialer: Arc::clone(&dialer),
        identifier: identifier(),
        authority: Arc::clone(&authority),
        credentials,
        gateway: Some(Arc::new(|stream| Box::pin(answer_as_gateway(stream)))),
        lookout,
        locate: Arc::new(|cause| format!("rule {}", cause.rule)),
        on_event,
        limits,
    };
    let proxy = Arc::new(Proxy::weakened(config, without, panics_at));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (proxy_address, resolver_address) = (listener.local_addr().unwrap(), resolver.local_addr().unwrap());
    let planned = |purpose, address| PlannedSocket { purpose, address };
    let serving = start(
        &proxy,
        vec![
            (planned(Purpose::Proxy, proxy_address), ServedSocket::Tcp(listener)),
            (planned(Purpose::Direct, direct_address), ServedSocket::Tcp(direct_listener)),
            (planned(Purpose::ResolverUdp, resolver_address), ServedSocket::Udp(resolver)),
        ],
    )
    .unwrap();
    Scene {
        proxy: proxy_address,
        resolver: resolver_address,
        direct: direct_address,
        authority,
        vendor,
        dialer,
        events,
        serving: Some(serving),
    }
}

/// A gateway that answers every request in the same way.
async fn answer_as_gateway(mut stream: BoxStream) {
    while !read_head(&mut stream).await.is_empty() {
        let text = "hello from the gateway";
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// One for all tests: hashing this program takes longer than most of them.
fn identifier() -> Arc<Identifier> {
    static SHARED: std::sync::OnceLock<Arc<Identifier>> = std::sync::OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(Identifier::new(std::process::id()))))
}

/// Every test gets a loopback address of its own, so that the port of the server can be listened on as well.
fn bind_direct(port: u16) -> TcpListener {
    static NEXT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
    let last = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    TcpListener::bind((Ipv4Addr::new(127, 0, 7, last), port)).unwrap()
}

impl Scene {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// Sends `text` to the proxy and gives all that comes back.
    pub(super) async fn raw(&self, text: &str) -> String {
        talk(self.connect().await, text).await
    }

    pub(super) async fn tunnel(&self, authority: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect().await;
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        if answer.starts_with("HTTP/1.1 200 ") {
            return Ok(stream);
        }
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        Err(answer + &rest)
    }

    pub(super) async fn tls(
        &self,
        stream: TcpStream,
        trust: Trust,
        name: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.tls_speaking(stream, trust, name, &[b"http/1.1"]).await
    }

    pub(super) async fn tls_speaking(
        &self,
        stream: TcpStream,
        trust: Trust,
        name: &str,
        protocols: &[&[u8]],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let roots = match trust {
            Trust::Vendor => self.vendor.roots(),
            Trust::Run => crate::dial::Roots::only([self.authority.certificate().clone()]),
        };
        let mut config = roots.client_config();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// An inspected TLS connection to `api.test`.
    pub(super) async fn inspected(&self, port: u16) -> TlsStream<TcpStream> {
        let stream = self.tunnel(&format!("api.test:{port}")).await.unwrap();
        self.tls(stream, Trust::Run, "api.test").await.unwrap()
    }

    pub(super) fn attempts(&self) -> Vec<AttemptEvent> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .filter_map(|event| match event {
                EgressEvent::Attempt(attempt) => Some(attempt.clone()),
                _ => None,
            })
            .collect()
    }

    /// Events come when an attempt is over, which is after its client has its answer.
    pub(super) async fn decisions(&self, count: usize) -> Vec<AttemptDecision> {
        for _ in 0..200 {
            if self.attempts().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.attempts().iter().map(|attempt| attempt.decision).collect()
    }

    pub(super) fn dialled(&self) -> Vec<IpAddr> {
        self.dialer.detour.as_ref().unwrap().dialled.lock().unwrap().clone()
    }
}

#[derive(Clone, Copy)]
pub(super) enum Trust {
    /// What the real server shows.
    Vendor,
    /// What the proxy shows.
    Run,
}

pub(super) async fn talk<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A peer that closes without a goodbye has still said what it said.
    let reading = stream.read_to_end(&mut answer);
    drop(tokio::time::timeout(Duration::from_secs(5), reading).await);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(super) async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(bytes).unwrap()
}

pub(super) type Heads = Arc<Mutex<Vec<String>>>;

/// A server of `api.test` that answers every request with the request's own first line.
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) heads: Heads,
}

pub(super) enum Kind {
    Plain,
    Tls(Arc<Vendor>),
    Expired(Arc<Vendor>),
    WrongHost(Arc<Vendor>),
}

pub(super) async fn server(kind: Kind) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Heads::default();
    let kept = Arc::clone(&heads);
    let acceptor = match kind {
        Kind::Plain => None,
        Kind::Tls(vendor) => Some(vendor.acceptor("api.test", false, &[b"http/1.1"])),
        Kind::WrongHost(vendor) => Some(vendor.acceptor("bank.test", false, &[b"http/1.1"])),
        Kind::Expired(vendor) => Some(vendor.acceptor("api.test", true, &[b"http/1.1"])),
    };
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (heads, acceptor) = (Arc::clone(&kept), acceptor.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => echo(stream, heads).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            echo(stream, heads).await;
                        }
                    }
                }
            });
        }
    });
    Server { port, heads }
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, heads: Heads) {
    loop {
        let head = read_head(&mut stream).await;
        if head.is_empty() {
            return;
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let closes = head.contains("Connection: close");
        let said = format!("{} [{}]", head.lines().next().unwrap(), String::from_utf8_lossy(&body));
        heads.lock().unwrap().push(head);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len());
        if stream.write_all(answer.as_bytes()).await.is_err() || closes {
            return;
        }
    }
}
