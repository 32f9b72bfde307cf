//! The upstream over real TLS sockets, against servers that behave and servers that do not.

use super::*;
use crate::wire::{ModelRequest, Wire};
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::dial::testing::TestAuthority;
use egress::resolver::FixedResolver;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

type Heads = Arc<Mutex<Vec<String>>>;

/// Serves each request of each connection with `serve`; the heads it got are kept.
async fn server<F, S>(authority: &TestAuthority, expired: bool, serve: F) -> (u16, Heads)
where
    F: Fn(TlsStream<TcpStream>, Heads) -> S + Send + Sync + 'static,
    S: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Heads::default();
    let acceptor = authority.acceptor("api.test", expired, &[b"http/1.1"]);
    let kept = Arc::clone(&heads);
    let serve = Arc::new(serve);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            let heads = Arc::clone(&kept);
            let serve = Arc::clone(&serve);
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, heads).await;
                }
            });
        }
    });
    (port, heads)
}

async fn read_request(stream: &mut TlsStream<TcpStream>, heads: &Heads) -> bool {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return false;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        stream.read_buf(&mut bytes).await.unwrap();
    }
    heads.lock().unwrap().push(head);
    true
}

async fn well_behaved(mut stream: TlsStream<TcpStream>, heads: Heads) {
    while read_request(&mut stream, &heads).await {
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nrequest-id: r1\r\nset-cookie: no\r\n\
                      content-length: 5\r\n\r\nhello";
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

fn service(name: &str) -> &'static Service {
    SERVICES.iter().find(|service| service.name == name).unwrap()
}

fn settings(credential: &str, base_url: &str, config: &[(&str, &str)]) -> ServiceSettings {
    let source = CredentialSource::fixed(Secret::new("sk-real".to_owned()));
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let base_url = [("base_url", base_url)];
    ServiceSettings {
        config: config.iter().chain(&base_url).map(entry).collect(),
        credentials: vec![NamedCredential { name: credential.to_owned(), source }],
        learn: None,
    }
}

fn upstream(authority: &TestAuthority, host: &str, port: u16, path: &str) -> HttpUpstream {
    let loopback = vec!["127.0.0.1".parse().unwrap()];
    let resolver = FixedResolver::new([("api.test", loopback.clone()), ("other.test", loopback)]);
    let mut dialer = Dialer::new(Arc::new(resolver), authority.roots());
    dialer.step_time = Duration::from_millis(500);
    let settings = settings("ANTHROPIC_API_KEY", &format!("https://{host}:{port}{path}"), &[]);
    HttpUpstream::new(service("anthropic"), &settings, Arc::new(dialer)).unwrap()
}

async fn send(upstream: &HttpUpstream) -> Result<(UpstreamResponse, Vec<u8>), UpstreamError> {
    send_as(Wire::Messages, upstream).await
}

async fn send_as(wire: Wire, upstream: &HttpUpstream) -> Result<(UpstreamResponse, Vec<u8>), UpstreamError> {
    let body = Bytes::from_static(b"{}");
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_static("placeholder"));
    headers.insert("authorization", HeaderValue::from_static("Bearer placeholder"));
    headers.insert("cookie", HeaderValue::from_static("a=b"));
    headers.insert("anthropic-beta", HeaderValue::from_static("x-1"));
    let request = ModelRequest::default();
    let outgoing = UpstreamRequest {
        wire,
        operation: Operation::Answer,
        request: &request,
        body: &body,
        headers: &headers,
        query: Some("beta=true"),
    };
    let mut reply = upstream.send(outgoing).await?;
    let mut all = Vec::new();
    while let Some(portion) = reply.body.next().await {
        all.extend_from_slice(&portion?);
        if all.len() > 1 << 20 {
            break;
        }
    }
    Ok((reply, all))
}

#[tokio::test]
async fn the_key_goes_out_and_the_clients_own_does_not() {
    let authority = TestAuthority::new();
    let (port, heads) = server(&authority, false, well_behaved).await;
    let upstream = upstream(&authority, "api.test", port, "/gateway");
    let (reply, body) = send(&upstream).await.unwrap();
    assert_eq!((reply.status, body.as_slice()), (200, &b"hello"[..]));
    assert!(reply.headers.contains_key("request-id") && !reply.headers.contains_key("set-cookie"));
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST /gateway/v1/messages?beta=true HTTP/1.1\r\n"), "{head}");
    for wanted in ["x-api-key: sk-real", "anthropic-beta: x-1", &format!("host: api.test:{port}")] {
        assert!(head.contains(wanted), "{head}");
    }
    assert!(!head.contains("placeholder") && !head.contains("cookie"), "{head}");
}

#[tokio::test]
async fn a_connection_is_used_again_and_a_closed_one_is_replaced() {
    let authority = TestAuthority::new();
    let once = |mut stream: TlsStream<TcpStream>, heads: Heads| async move {
        for _ in 0..2 {
            read_request(&mut stream, &heads).await;
            heads.lock().unwrap().push(format!("by {:?}", stream.get_ref().0.peer_addr().unwrap()));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    };
    let (port, heads) = server(&authority, false, once).await;
    let upstream = upstream(&authority, "api.test", port, "/v1");
    for _ in 0..3 {
        send(&upstream).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("POST /v1/messages?"), "the version is not doubled: {}", heads[0]);
    assert!(heads[1] == heads[3] && heads[3] != heads[5], "{heads:?}");
}

#[tokio::test]
async fn untrusted_servers_are_refused() {
    let authority = TestAuthority::new();
    let stranger = TestAuthority::new();
    let (good, _) = server(&authority, false, well_behaved).await;
    let (expired, _) = server(&authority, true, well_behaved).await;
    for (roots, host, port, reason) in [
        (&authority, "other.test", good, "not valid for name"),
        (&authority, "api.test", expired, "expired"),
        (&stranger, "api.test", good, "invalid peer certificate"),
        (&authority, "gone.test", good, "has no address"),
    ] {
        let error = send(&upstream(roots, host, port, "")).await.err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn broken_answers_are_errors_and_stay_bounded() {
    let authority = TestAuthority::new();
    let silent = |stream: TlsStream<TcpStream>, _| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    };
    let closing = |mut stream: TlsStream<TcpStream>, heads: Heads| async move {
        read_request(&mut stream, &heads).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
    };
    let endless_head = |mut stream: TlsStream<TcpStream>, heads: Heads| async move {
        read_request(&mut stream, &heads).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await.unwrap();
        while stream.write_all(&[b'a'; 8192]).await.is_ok() {}
    };
    let compressed = |mut stream: TlsStream<TcpStream>, heads: Heads| async move {
        read_request(&mut stream, &heads).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx")
            .await
            .unwrap();
    };
    let ports = [
        (server(&authority, false, closing).await.0, "broken"),
        (server(&authority, false, endless_head).await.0, "broken"),
        (server(&authority, false, compressed).await.0, "compressed"),
    ];
    for (port, reason) in ports {
        let error = send(&upstream(&authority, "api.test", port, "")).await.err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let (port, _) = server(&authority, false, silent).await;
    let upstream = upstream(&authority, "api.test", port, "");
    assert!(tokio::time::timeout(Duration::from_millis(100), send(&upstream)).await.is_err());
}

/// The head that a service sends for this credential.
async fn sent_head(name: &str, credential: &str, path: &str, config: &[(&str, &str)]) -> String {
    let authority = TestAuthority::new();
    let (port, heads) = server(&authority, false, well_behaved).await;
    let resolver = FixedResolver::new([("api.test", vec!["127.0.0.1".parse().unwrap()])]);
    let dialer = Dialer::new(Arc::new(resolver), authority.roots());
    let settings = settings(credential, &format!("https://api.test:{port}{path}"), config);
    let upstream = HttpUpstream::new(service(name), &settings, Arc::new(dialer)).unwrap();
    let wire = service(name).wires.last().unwrap();
    send_as(*wire, &upstream).await.unwrap();
    heads.lock().unwrap()[0].clone()
}

#[tokio::test]
async fn the_credentials_name_chooses_its_header() {
    for (name, credential, wanted) in [
        ("anthropic", "ANTHROPIC_API_KEY", "x-api-key: sk-real"),
        ("anthropic", "ANTHROPIC_AUTH_TOKEN", "authorization: Bearer sk-real"),
        ("anthropic", "CLAUDE_CODE_OAUTH_TOKEN", "authorization: Bearer sk-real"),
        ("openai", "OPENAI_API_KEY", "authorization: Bearer sk-real"),
        ("azure-openai", "AZURE_OPENAI_API_KEY", "api-key: sk-real"),
        ("azure-openai", "AZURE_OPENAI_AD_TOKEN", "authorization: Bearer sk-real"),
    ] {
        let head = sent_head(name, credential, "", &[]).await;
        assert!(head.lines().any(|line| line == wanted), "{name} {credential}: {head}");
        assert_eq!(head.matches("sk-real").count(), 1, "{head}");
        let subscription = head.contains("anthropic-beta: oauth-2025-04-20");
        assert_eq!(subscription, credential == "CLAUDE_CODE_OAUTH_TOKEN", "{head}");
    }
}

#[tokio::test]
async fn settings_of_the_provider_reach_the_service() {
    let head =
        sent_head("openai", "OPENAI_API_KEY", "", &[("organization", "org-1"), ("project", "proj_2")]).await;
    assert!(head.contains("openai-organization: org-1") && head.contains("openai-project: proj_2"), "{head}");
    let azure = &[("api_version", "2024-10-21"), ("deployment", "d")];
    let head = sent_head("azure-openai", "AZURE_OPENAI_API_KEY", "/openai", azure).await;
    assert!(
        head.starts_with("POST /openai/deployments/d/chat/completions?api-version=2024-10-21 "),
        "{head}"
    );
}

#[test]
fn wrong_settings_are_refused() {
    let dialer = Arc::new(Dialer::new(Arc::new(FixedResolver::default()), TestAuthority::new().roots()));
    let open = |name: &str, settings: &ServiceSettings| {
        HttpUpstream::new(service(name), settings, Arc::clone(&dialer)).err().map(|error| error.to_string())
    };
    let missing = open("azure-openai", &ServiceSettings::default()).unwrap();
    assert!(missing.contains("`config.base_url` is missing"), "{missing}");
    let plain = settings("K", "http://10.0.0.1", &[("plain_http", "always")]);
    assert!(open("openai", &plain).unwrap().contains("`loopback` or `private`"));
    let split = settings("K", "https://api.test", &[("api_version", "1/../x")]);
    assert!(open("azure-openai", &split).unwrap().contains("letters, digits"));
}

/// A proxy that answers CONNECT with these words, and connects what it accepts to the port.
async fn connect_proxy(port: u16, says: &'static str) -> (u16, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().port();
    let heads = Heads::default();
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.unwrap());
            }
            kept.lock().unwrap().push(String::from_utf8(head).unwrap());
            client.write_all(format!("HTTP/1.1 {says}\r\nvia: test\r\n\r\n").as_bytes()).await.unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    (place, heads)
}

#[tokio::test]
async fn the_hosts_proxy_is_used_and_resolves_names_itself() {
    let authority = TestAuthority::new();
    let (port, _) = server(&authority, false, well_behaved).await;
    for (says, bypass, expected) in [
        ("200 Connection established", "other.test", "hello"),
        ("407 Proxy Authentication Required", "", "HTTP/1.1 407 Proxy Authentication Required"),
        ("200 OK", "api.test", "api.test"),
    ] {
        let (proxy_port, asked) = connect_proxy(port, says).await;
        let variable = |name: &str| match name {
            "HTTPS_PROXY" => Some(format!("http://me:secret@127.0.0.1:{proxy_port}")),
            "NO_PROXY" => Some(bypass.to_owned()),
            _ => None,
        };
        let proxy = egress::dial::HostProxy::from_variables(&variable).unwrap();
        let nothing = FixedResolver::new([("nothing.test", Vec::new())]);
        let dialer = Dialer::new(Arc::new(nothing), authority.roots()).with_proxy(proxy);
        let settings = settings("ANTHROPIC_API_KEY", "https://api.test", &[]);
        let upstream = HttpUpstream::new(service("anthropic"), &settings, Arc::new(dialer)).unwrap();
        let said = match send(&upstream).await {
            Ok((_, body)) => String::from_utf8(body).unwrap(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(expected) && !said.contains("secret"), "{says}: {said}");
        let asked = asked.lock().unwrap().clone();
        let connect = "CONNECT api.test:443 HTTP/1.1\r\nhost: api.test:443\r\nproxy-authorization: Basic bWU6c2VjcmV0\r\n\r\n";
        assert_eq!(asked.first().map(String::as_str), (bypass != "api.test").then_some(connect));
    }
}

#[test]
fn a_wait_is_read_in_every_form_that_vendors_send() {
    let now = std::time::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let wait = |pairs: &[(&'static str, &'static str)]| {
        let pairs = pairs.iter();
        let headers = pairs.map(|(name, value)| {
            (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        let headers = HeaderMap::from_iter(headers);
        UpstreamResponse { status: 429, headers, body: ResponseBody::whole(Bytes::new()) }.retry_after(now)
    };
    let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    for (headers, expected) in [
        (&[("retry-after", "12")][..], seconds(12.0)),
        (&[("retry-after", " 1.5 ")], seconds(1.5)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")], seconds(10.0)),
        (&[("retry-after", "Sunday, 06-Nov-94 08:49:47 GMT")], seconds(10.0)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:27 GMT")], seconds(0.0)),
        (&[("retry-after-ms", "250"), ("retry-after", "9")], seconds(0.25)),
        (&[("retry-after", "1e300")], seconds(604_800.0)),
        (&[("retry-after", "inf")], seconds(604_800.0)),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "-1")], None),
        (&[("retry-after", "NaN")], None),
        (&[], None),
    ] {
        assert_eq!(wait(headers), expected, "{headers:?}");
    }
}
