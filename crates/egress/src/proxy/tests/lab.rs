//! A proxy, servers behind it and clients before it.

use crate::credentials::{Credential, CredentialPlacement, CredentialSource, CredentialStore, Secret};
use crate::dial::Dialer;
use crate::dial::testing::TestAuthority;
use crate::event::{ConnectionDecision, ConnectionEvent, EgressEvent, OnEvent};
use crate::identity::{Identify, ProcIdentifier};
use crate::names::{NameDirectory, NamePlan, PlannedSocket, SocketPurpose};
use crate::proxy::defences::{AllDefences, Defences};
use crate::proxy::{
    BoxStream, LeakWatcher, Proxy, ProxyConfig, ProxyLimits, RunningProxy, ServedSocket, start,
};
use crate::resolver::{FixedResolver, Resolve};
use crate::tls::RunAuthority;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// An address that every policy may reach; the dialer's route leads it to the loopback.
pub(super) const PUBLIC: &str = "93.184.216.34";

pub(super) struct Lab {
    pub(super) proxy: SocketAddr,
    pub(super) resolver: SocketAddr,
    pub(super) direct: SocketAddr,
    pub(super) authority: Arc<RunAuthority>,
    pub(super) vendor: Arc<TestAuthority>,
    pub(super) dialled: Arc<Mutex<Vec<IpAddr>>>,
    pub(super) events: Arc<Mutex<Vec<EgressEvent>>>,
    pub(super) serving: Option<RunningProxy>,
    pub(super) served: Arc<Proxy>,
}

pub(super) struct LabConfig {
    pub(super) policy: String,
    pub(super) names: Vec<(&'static str, Vec<IpAddr>)>,
    pub(super) limits: ProxyLimits,
    /// The name and the port of the direct listener.
    pub(super) direct: (&'static str, u16),
    pub(super) vendor: Arc<TestAuthority>,
    pub(super) credentials: Arc<CredentialStore>,
    /// Instead of `names`.
    pub(super) resolver: Option<Arc<dyn Resolve>>,
    pub(super) leak_watcher: Option<LeakWatcher>,
    pub(super) defences: Arc<dyn Defences>,
    pub(super) identifier: Arc<dyn Identify>,
    /// The address to dial instead of the checked one.
    pub(super) dials: Dials,
}

impl LabConfig {
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
            vendor: Arc::new(TestAuthority::new()),
            credentials: Arc::default(),
            resolver: None,
            leak_watcher: None,
            defences: Arc::new(AllDefences),
            identifier: identifier(),
            dials: None,
        }
    }
}

/// What a profile that names nothing allows.
/// Gives the lab one credential that goes into `Authorization`. Returns its placeholder.
pub(super) fn bind_credential(
    config: &mut LabConfig,
    value: &str,
    endpoints: Vec<policy::model::Endpoint>,
) -> String {
    let credential = Credential {
        provider: "p".into(),
        key: "TOKEN".into(),
        source: CredentialSource::fixed(Secret::new(value.to_owned())),
        endpoints,
        placements: authorization(),
        plain: false,
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    config.credentials = Arc::new(store);
    placeholder
}

pub(super) fn authorization() -> Vec<CredentialPlacement> {
    vec![CredentialPlacement::Header("Authorization".to_owned())]
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

type Dials = Option<Arc<dyn Fn() -> IpAddr + Send + Sync>>;

/// Leads every connection to the loopback, and records the address that it was for.
fn to_loopback(dialer: &mut Dialer, dials: Dials) -> Arc<Mutex<Vec<IpAddr>>> {
    let dialled = Arc::<Mutex<Vec<IpAddr>>>::default();
    let recorded = Arc::clone(&dialled);
    dialer.route = Arc::new(move |checked| {
        recorded.lock().unwrap().push(dials.as_ref().map_or(checked, |dials| dials()));
        Ipv4Addr::LOCALHOST.into()
    });
    dialled
}

pub(super) async fn start_lab(config: LabConfig) -> Lab {
    let LabConfig {
        policy,
        names,
        limits,
        direct,
        vendor,
        credentials,
        resolver,
        leak_watcher,
        defences,
        identifier,
        dials,
    } = config;
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let on_event: OnEvent = Arc::new(move |event| seen.lock().unwrap().push(event));
    let resolver = resolver.unwrap_or_else(|| Arc::new(FixedResolver::new(names)));
    let mut dialer = Dialer::new(resolver, vendor.roots());
    dialer.step_time = Duration::from_millis(500);
    let dialled = to_loopback(&mut dialer, dials);
    let direct_listener = bind_direct(direct.1);
    let direct_address = direct_listener.local_addr().unwrap();
    let IpAddr::V4(address) = direct_address.ip() else { panic!("IPv4") };
    let plan = NamePlan::with_names(&[(direct.0, address)], &[Ipv4Addr::new(127, 0, 9, 1)]);
    let policy = policy::Compiled::new(&parsed(&policy));
    let directory = Arc::new(NameDirectory::new(&plan, policy.clone()));
    let authority = Arc::new(RunAuthority::new().unwrap());
    let config = ProxyConfig {
        policy: Arc::new(policy),
        directory,
        dialer: Arc::new(dialer),
        identifier,
        authority: Some(Arc::clone(&authority)),
        credentials,
        gateway: Some(Arc::new(|connection| Box::pin(answer_as_gateway(connection.stream)))),
        leak_watcher,
        locate: Arc::new(|cause| format!("rule {}", cause.rule)),
        on_event,
        limits,
    };
    let proxy = Arc::new(Proxy { defences, ..Proxy::new(config) });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let proxy_address = listener.local_addr().unwrap();
    let resolver_address = resolver.local_addr().unwrap();
    let planned = |purpose, address| PlannedSocket { purpose, address };
    let serving = start(
        &proxy,
        vec![
            (planned(SocketPurpose::Proxy, proxy_address), ServedSocket::Tcp(listener)),
            (planned(SocketPurpose::Direct, direct_address), ServedSocket::Tcp(direct_listener)),
            (planned(SocketPurpose::ResolverUdp, resolver_address), ServedSocket::Udp(resolver)),
        ],
    )
    .unwrap();
    Lab {
        proxy: proxy_address,
        resolver: resolver_address,
        direct: direct_address,
        authority,
        vendor,
        dialled,
        events,
        serving: Some(serving),
        served: proxy,
    }
}

/// A gateway that answers every request in the same way.
async fn answer_as_gateway(mut stream: BoxStream) {
    while !read_head(&mut stream).await.is_empty() {
        let text = "hello from the gateway";
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// One for all tests: hashing this program takes longer than most of them.
pub(super) fn identifier() -> Arc<ProcIdentifier> {
    static SHARED: std::sync::OnceLock<Arc<ProcIdentifier>> = std::sync::OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(ProcIdentifier::new(std::process::id()))))
}

/// Every test gets a loopback address of its own, so that the port of the server can be listened on as well.
fn bind_direct(port: u16) -> TcpListener {
    static NEXT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
    let last = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    TcpListener::bind((Ipv4Addr::new(127, 0, 7, last), port)).unwrap()
}

impl Lab {
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
            Trust::Server => self.vendor.roots(),
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

    pub(super) fn connections(&self) -> Vec<ConnectionEvent> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .filter_map(|event| match event {
                EgressEvent::Connection(connection) => Some(connection.clone()),
                _ => None,
            })
            .collect()
    }

    /// Events come when an connection is over, which is after its client has its answer.
    pub(super) async fn decisions(&self, count: usize) -> Vec<ConnectionDecision> {
        for _ in 0..200 {
            if self.connections().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.connections().iter().map(|connection| connection.decision).collect()
    }

    pub(super) fn dialled(&self) -> Vec<IpAddr> {
        self.dialled.lock().unwrap().clone()
    }
}

#[derive(Clone, Copy)]
pub(super) enum Trust {
    /// The certificate of the real server.
    Server,
    /// The certificate of the proxy.
    Run,
}

pub(super) async fn talk<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The bytes count even if the peer closes without a TLS close.
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
    pub(super) bodies: Heads,
}

pub(super) enum Kind {
    Plain,
    Tls(Arc<TestAuthority>),
    Expired(Arc<TestAuthority>),
    WrongHost(Arc<TestAuthority>),
}

pub(super) async fn server(kind: Kind) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Heads::default();
    let bodies = Heads::default();
    let kept = Arc::clone(&heads);
    let kept_bodies = Arc::clone(&bodies);
    let acceptor = match kind {
        Kind::Plain => None,
        Kind::Tls(vendor) => Some(vendor.acceptor("api.test", false, &[b"http/1.1"])),
        Kind::WrongHost(vendor) => Some(vendor.acceptor("bank.test", false, &[b"http/1.1"])),
        Kind::Expired(vendor) => Some(vendor.acceptor("api.test", true, &[b"http/1.1"])),
    };
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let heads = Arc::clone(&kept);
            let bodies = Arc::clone(&kept_bodies);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                match acceptor {
                    None => echo(stream, heads, bodies).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            echo(stream, heads, bodies).await;
                        }
                    }
                }
            });
        }
    });
    Server { port, heads, bodies }
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, heads: Heads, bodies: Heads) {
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
        let text = format!("{} [{}]", head.lines().next().unwrap(), String::from_utf8_lossy(&body));
        heads.lock().unwrap().push(head);
        bodies.lock().unwrap().push(String::from_utf8_lossy(&body).into_owned());
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        if stream.write_all(answer.as_bytes()).await.is_err() || closes {
            return;
        }
    }
}
