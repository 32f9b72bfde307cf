//! HTTP/2 through the proxy: each stream decided by itself, on a connection that speaks what the server speaks.

use super::lab::{Kind, Lab, LabConfig, Trust, bind_credential, rule, server, start_lab};
use crate::event::ConnectionDecision::{Allowed, Denied, Failed};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(super) type AnyBody = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

const ENFORCED: &str = "        protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {method: \"*\", path: \"/open/**\"}\n        deny_rules:\n          - {method: \"*\", path: \"/open/secret\"}";

fn whole(text: &str) -> AnyBody {
    Full::new(Bytes::from(text.to_owned())).boxed_unsync()
}

/// A server of `api.test` that echoes requests, and counts the bytes of bodies. It hangs on `/open/hang`.
pub(super) async fn http2_server(config: &LabConfig) -> (u16, Seen) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = config.vendor.acceptor("api.test", false, &[b"h2", b"http/1.1"]);
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            let seen = Arc::clone(&kept);
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let gone = Arc::new(tokio::sync::Notify::new());
                let goes = Arc::clone(&gone);
                let service = service_fn(move |request| tell(request, Arc::clone(&seen), Arc::clone(&goes)));
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let serving = builder.serve_connection(TokioIo::new(stream), service);
                // It closes without a GOAWAY frame.
                tokio::select! {
                    _ = serving => {}
                    () = gone.notified() => {}
                }
            });
        }
    });
    (port, seen)
}

async fn tell(
    request: Request<Incoming>,
    seen: Seen,
    goes: Arc<tokio::sync::Notify>,
) -> Result<Response<AnyBody>, Infallible> {
    let (parts, body) = request.into_parts();
    let target = format!("{} {}", parts.method, parts.uri);
    let hangs = ["/open/hang", "/open/goaway"].contains(&parts.uri.path());
    let authorization = parts.headers.get("authorization").cloned();
    seen.lock().unwrap().push((target.clone(), parts.headers));
    if target.ends_with("/open/goaway") {
        goes.notify_one();
    }
    if hangs {
        std::future::pending::<()>().await;
    }
    if parts.uri.path() == "/encoded" {
        let encoded = Response::builder().header("content-encoding", "br").body(whole("abc"));
        return Ok(encoded.unwrap());
    }
    let Ok(got) = body.collect().await else { return Ok(Response::new(whole("cut"))) };
    let got = got.to_bytes();
    let text =
        if got.len() > 1000 { got.len().to_string() } else { String::from_utf8_lossy(&got).into_owned() };
    let mut trailers = HeaderMap::new();
    trailers.insert("x-status", "0".parse().unwrap());
    if let (true, Some(echo)) = (parts.uri.path() == "/lines", &authorization) {
        let lines: Vec<String> =
            echo.as_bytes().chunks(5).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        return Ok(Response::new(whole(&lines.join("\n"))));
    }
    if let (true, Some(echo)) = (parts.uri.path() == "/reflect", authorization) {
        trailers.insert("x-echo", echo.clone());
        let text = format!("[{}]", echo.to_str().unwrap());
        let body = Full::new(Bytes::from(text)).with_trailers(async move { Some(Ok(trailers)) });
        let response = Response::builder().header("x-echo", echo).body(body.boxed_unsync());
        return Ok(response.unwrap());
    }
    let body = Full::new(Bytes::from(format!("{target} [{text}]")));
    Ok(Response::new(body.with_trailers(async move { Some(Ok(trailers)) }).boxed_unsync()))
}

/// An HTTP/2 connection to `api.test` through the proxy.
pub(super) async fn connected(lab: &Lab, port: u16) -> SendRequest<AnyBody> {
    let stream = lab.tunnel(&format!("api.test:{port}")).await.unwrap();
    let stream = lab.tls_speaking(stream, Trust::Run, "api.test", &[b"h2"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(super) fn asked(method: &str, uri: &str, body: &str) -> Request<AnyBody> {
    Request::builder().method(method).uri(uri).body(whole(body)).unwrap()
}

pub(super) async fn ask(sender: &mut SendRequest<AnyBody>, request: Request<AnyBody>) -> (u16, String) {
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap();
    (status, String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

async fn enforced() -> (Lab, u16, Seen) {
    let mut config = LabConfig::new("");
    let (port, seen) = http2_server(&config).await;
    config.policy = rule(port, ENFORCED);
    (start_lab(config).await, port, seen)
}

#[tokio::test]
async fn each_stream_is_decided_by_itself() {
    let (lab, port, seen) = enforced().await;
    let mut sender = connected(&lab, port).await;
    let base = format!("https://api.test:{port}");
    let (status, body) = ask(&mut sender, asked("GET", &format!("{base}/open/x/../a//b?q=1"), "")).await;
    assert_eq!((status, body.as_str()), (200, &*format!("GET {base}/open/a/b?q=1 []")));
    for path in ["/closed", "/open/secret", "/open/%73ecret", "/open/../closed"] {
        let (status, body) = ask(&mut sender, asked("GET", &format!("{base}{path}"), "")).await;
        assert!(status == 403 && body.contains("policy_denied"), "{path}: {status} {body}");
    }
    let (status, body) = ask(&mut sender, asked("POST", &format!("{base}/open/a"), "body")).await;
    assert!(status == 200 && body.ends_with("[body]"), "{body}");
    assert_eq!(lab.decisions(6).await, [Allowed, Denied, Denied, Denied, Denied, Allowed]);
    assert_eq!(seen.lock().unwrap().len(), 2, "what was refused never arrived");
    let last = lab.connections().pop().unwrap();
    assert_eq!((last.status, last.bytes_out, last.path.as_deref()), (Some(200), 4, Some("/open/a")));
}

#[tokio::test]
async fn authority_and_host_must_name_the_connection() {
    let (lab, port, seen) = enforced().await;
    let mut sender = connected(&lab, port).await;
    let elsewhere = asked("GET", &format!("https://other.test:{port}/open/a"), "");
    let another_port = asked("GET", "https://api.test:1/open/a", "");
    let unsafe_scheme = asked("GET", &format!("http://api.test:{port}/open/a"), "");
    let mut two_hosts = asked("GET", &format!("https://api.test:{port}/open/a"), "");
    two_hosts.headers_mut().insert("host", "other.test".parse().unwrap());
    let mut two_lengths = asked("POST", &format!("https://api.test:{port}/open/a"), "abcd");
    two_lengths.headers_mut().append("content-length", "4".parse().unwrap());
    two_lengths.headers_mut().append("content-length", "4".parse().unwrap());
    let requests = [elsewhere, another_port, unsafe_scheme, two_hosts, two_lengths];
    let count = requests.len();
    for request in requests {
        let shown = format!("{request:?}");
        let (status, body) = ask(&mut sender, request).await;
        assert!(status == 400 && body.contains("malformed_request"), "{shown}: {status} {body}");
    }
    assert_eq!(lab.decisions(count).await, vec![Denied; count]);
    assert!(seen.lock().unwrap().is_empty());
}

/// A request of a client that follows no rule: every field a literal, nothing checked.
fn raw_request(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    out.extend_from_slice(&[0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    out.extend_from_slice(&block);
    out
}

#[tokio::test]
async fn smuggled_fields_never_arrive() {
    let (lab, port, seen) = enforced().await;
    let host = format!("api.test:{port}");
    let good = [(":method", "GET"), (":scheme", "https"), (":path", "/open/a"), (":authority", &*host)];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut fields = good.to_vec();
        fields.extend_from_slice(more);
        fields
    };
    let path = |path: &'static str| {
        let mut fields = good.to_vec();
        fields[2].1 = path;
        fields
    };
    let requests = [
        path("/open/a HTTP/1.1\r\nHost: x\r\n\r\nGET /open/secret"),
        path("/open/a b"),
        path("open/a"),
        path("https://api.test/open/a"),
        with(&[("x", "1\r\ny: 2")]),
        with(&[("x", "\0")]),
        with(&[("x\r\ny", "1")]),
        with(&[("Upper", "1")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("connection", "close")]),
        with(&[("upgrade", "websocket")]),
        with(&[(":path", "/open/secret")]),
        with(&[("host", "other.test")]),
        with(&[("content-length", "5")]),
        good[..3].to_vec(),
    ];
    for fields in requests {
        let stream = lab.tunnel(&host).await.unwrap();
        let mut stream = lab.tls_speaking(stream, Trust::Run, "api.test", &[b"h2"]).await.unwrap();
        stream.write_all(&raw_request(&fields)).await.unwrap();
        drop(tokio::time::timeout(Duration::from_millis(300), stream.read_to_end(&mut Vec::new())).await);
        assert!(seen.lock().unwrap().is_empty(), "{fields:?}");
    }
    // The same writer, with nothing wrong.
    let stream = lab.tunnel(&host).await.unwrap();
    let mut stream = lab.tls_speaking(stream, Trust::Run, "api.test", &[b"h2"]).await.unwrap();
    stream.write_all(&raw_request(&good)).await.unwrap();
    drop(tokio::time::timeout(Duration::from_secs(1), stream.read_to_end(&mut Vec::new())).await);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_client_is_offered_what_the_server_speaks() {
    let mut config = LabConfig::new("");
    let (new, _) = http2_server(&config).await;
    let old = server(Kind::Tls(config.vendor.clone())).await.port;
    config.policy = rule(new, ENFORCED).replace(&format!("port: {new}"), &format!("ports: [{new}, {old}]"));
    let lab = start_lab(config).await;
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    for (port, offered, chosen) in
        [(new, both, &b"h2"[..]), (old, both, b"http/1.1"), (new, &[b"http/1.1"], b"http/1.1")]
    {
        let stream = lab.tunnel(&format!("api.test:{port}")).await.unwrap();
        let stream = lab.tls_speaking(stream, Trust::Run, "api.test", offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen));
    }
}

#[tokio::test]
async fn bodies_and_trailers_pass_while_other_streams_hang() {
    let (lab, port, _) = enforced().await;
    let mut sender = connected(&lab, port).await;
    let base = format!("https://api.test:{port}");
    let hanging = tokio::spawn(sender.send_request(asked("GET", &format!("{base}/open/hang"), "")));
    let large = "x".repeat(3 << 20);
    let response = sender.send_request(asked("POST", &format!("{base}/open/a"), &large)).await.unwrap();
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-status"], "0");
    assert!(body.to_bytes().ends_with(format!("[{}]", large.len()).as_bytes()));
    // The proxy answers the one that hangs after the idle time.
    let response = hanging.await.unwrap().unwrap();
    assert_eq!(response.status(), 502);
    // On a busy machine either may end first.
    let decisions = lab.decisions(2).await;
    assert!(decisions.contains(&Allowed) && decisions.contains(&Failed), "{decisions:?}");
}

#[tokio::test]
async fn credentials_are_put_in_and_never_leak_through_bodies() {
    let mut config = LabConfig::new("");
    let (port, seen) = http2_server(&config).await;
    let placeholder = bind_credential(&mut config, "s3cret", Vec::new());
    let keys = "        protocol: rest\n        enforcement: enforce\n        access: full\n        credential_binding: {provider: p}";
    config.policy = rule(port, keys);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, port).await;
    let url = format!("https://api.test:{port}/a");
    let mut request = asked("POST", &url, "plain");
    request.headers_mut().insert("authorization", format!("Bearer {placeholder}").parse().unwrap());
    assert_eq!(ask(&mut sender, request).await.0, 200);
    assert_eq!(seen.lock().unwrap()[0].1["authorization"], "Bearer s3cret");
    let (status, body) = ask(&mut sender, asked("POST", &url, &placeholder)).await;
    assert!(status == 403 && body.contains("credential_injection_failed"), "{status} {body}");
    assert_eq!(lab.decisions(2).await, [Allowed, Denied]);
}

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_and_no_other() {
    let mut config = LabConfig::new("");
    let (port, _) = http2_server(&config).await;
    config.policy = rule(port, ENFORCED);
    config.limits.idle = Duration::from_secs(60);
    let lab = start_lab(config).await;
    let url = format!("https://api.test:{port}/open/hang");
    let mut sender = connected(&lab, port).await;
    let mut other = connected(&lab, port).await;
    for _ in 0..5000 {
        let Ok(()) = sender.ready().await else { break };
        let sending = sender.send_request(asked("GET", &url, ""));
        // Long enough to be sent, not long enough to be answered.
        drop(tokio::time::timeout(Duration::from_millis(1), sending).await);
    }
    assert!(sender.ready().await.is_err() || sender.is_closed());
    let (status, _) = ask(&mut other, asked("GET", &format!("https://api.test:{port}/open/a"), "")).await;
    assert_eq!(status, 200);
    let expected = |reason: &Option<String>| {
        reason.as_deref().is_some_and(|reason| reason.contains("resets its streams"))
    };
    assert!(lab.connections().iter().any(|connection| expected(&connection.reason)));
}

#[tokio::test]
async fn heads_are_bounded_and_idle_connections_end() {
    let (lab, port, seen) = enforced().await;
    let mut sender = connected(&lab, port).await;
    let mut request = asked("GET", &format!("https://api.test:{port}/open/a"), "");
    for number in 0..40 {
        let name: hyper::header::HeaderName = format!("x-{number}").parse().unwrap();
        request.headers_mut().insert(name, "y".repeat(1000).parse().unwrap());
    }
    let answered = sender.send_request(request).await;
    assert!(answered.map_or(true, |answer| answer.status() == 431));
    assert!(seen.lock().unwrap().is_empty());
    let idle = async {
        while !sender.is_closed() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), idle).await.expect("an idle connection is closed");
}

#[tokio::test]
async fn a_client_that_speaks_only_http2_reads_why_the_server_cannot_be_trusted() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Expired(config.vendor.clone())).await;
    config.policy = rule(server.port, ENFORCED);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, server.port).await;
    let (status, body) =
        ask(&mut sender, asked("GET", &format!("https://api.test:{}/open/a", server.port), "")).await;
    assert!(status == 502 && body.contains("no trusted TLS connection"), "{status} {body}");
}

#[tokio::test]
async fn a_server_that_went_away_is_dialled_again() {
    let mut config = LabConfig::new("");
    let (port, seen) = http2_server(&config).await;
    config.policy = rule(port, ENFORCED);
    config.limits.idle = Duration::from_secs(20);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, port).await;
    let url = format!("https://api.test:{port}/open/a");
    assert_eq!(ask(&mut sender, asked("GET", &url, "")).await.0, 200);
    assert_eq!(
        ask(&mut sender, asked("GET", &format!("https://api.test:{port}/open/goaway"), "")).await.0,
        502
    );
    assert_eq!(ask(&mut sender, asked("GET", &url, "")).await.0, 200);
    assert_eq!(seen.lock().unwrap().len(), 3);
    assert_eq!(lab.dialled().len(), 2);
}
