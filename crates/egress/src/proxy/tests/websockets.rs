//! Websockets through the proxy: opened where the policy says so, and read frame by frame from then on.

use super::lab::{Lab, LabConfig, Trust, bind_credential, read_head, rule, start_lab};
use crate::event::ConnectionDecision::{Allowed, Audited, Denied};
use crate::proxy::LeakWatcher;
use crate::websocket::{FrameHead, Opcode, apply_mask};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(super) type Frames = Arc<Mutex<Vec<(FrameHead, Vec<u8>)>>>;
pub(super) type Socket = TlsStream<TcpStream>;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: [u8; 4] = [7, 99, 250, 1];

/// A server of `api.test` that agrees to websockets, keeps what it gets and sends every message back.
async fn echoing(config: &LabConfig, agreement: &'static str) -> (u16, Frames) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = config.vendor.acceptor("api.test", false, &[b"http/1.1"]);
    let frames = Frames::default();
    let kept = Arc::clone(&frames);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            let frames = Arc::clone(&kept);
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let head = read_head(&mut stream).await;
                assert!(!head.contains("permessage-deflate"), "no extension is agreed on: {head}");
                let answer = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{agreement}\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                while let Some((head, payload)) = read_frame(&mut stream).await {
                    frames.lock().unwrap().push((head, payload.clone()));
                    let back = FrameHead { mask: None, ..head };
                    if write_frame(&mut stream, back, &payload).await.is_err() || head.opcode == Opcode::Close
                    {
                        return;
                    }
                }
            });
        }
    });
    (port, frames)
}

pub(super) async fn read_frame<S: AsyncRead + Unpin>(stream: &mut S) -> Option<(FrameHead, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some((head, _)) = FrameHead::parse(&bytes).unwrap() {
            break head;
        }
        bytes.push(stream.read_u8().await.ok()?);
    };
    let mut payload = vec![0; usize::try_from(head.length).unwrap()];
    stream.read_exact(&mut payload).await.ok()?;
    if let Some(mask) = head.mask {
        apply_mask(&mut payload, mask, 0);
    }
    Some((head, payload))
}

async fn write_frame<S: AsyncWrite + Unpin>(
    stream: &mut S,
    head: FrameHead,
    payload: &[u8],
) -> std::io::Result<()> {
    let mut bytes = head.write();
    let mut payload = payload.to_vec();
    if let Some(mask) = head.mask {
        apply_mask(&mut payload, mask, 0);
    }
    bytes.extend_from_slice(&payload);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

pub(super) async fn send_frame(socket: &mut Socket, opcode: Opcode, last: bool, payload: &[u8]) {
    let head = FrameHead { last, opcode, mask: Some(MASK), length: payload.len() as u64 };
    // A proxy that has refused already may have gone.
    drop(write_frame(socket, head, payload).await);
}

async fn text(socket: &mut Socket, words: &str) {
    send_frame(socket, Opcode::Text, true, words.as_bytes()).await;
}

/// The code and the reason of the proxy's close frame.
pub(super) async fn close_reason(socket: &mut Socket) -> (u16, String) {
    loop {
        let (head, payload) = read_frame(socket).await.expect("a close frame comes");
        if head.opcode == Opcode::Close {
            let code = u16::from_be_bytes([payload[0], payload[1]]);
            return (code, String::from_utf8(payload[2..].to_vec()).unwrap());
        }
    }
}

fn agreement() -> &'static str {
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
}

pub(super) async fn opened(lab: &Lab, port: u16) -> Result<Socket, String> {
    let stream = lab.tunnel(&format!("api.test:{port}")).await.unwrap();
    let mut socket = lab.tls(stream, Trust::Run, "api.test").await.unwrap();
    let head = format!(
        "GET /chat HTTP/1.1\r\nHost: api.test:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {KEY}\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let answer = read_head(&mut socket).await;
    if answer.starts_with("HTTP/1.1 101 ") { Ok(socket) } else { Err(answer) }
}

/// A server with these keys of the endpoint, and a leak watcher.
pub(super) async fn under_with(keys: &str, leak_watcher: LeakWatcher) -> (Lab, u16, Frames) {
    let mut config = LabConfig::new("");
    let (port, frames) = echoing(&config, agreement()).await;
    config.policy = rule(port, &format!("        enforcement: enforce\n{keys}"));
    config.leak_watcher = Some(leak_watcher);
    (start_lab(config).await, port, frames)
}

/// A websocket under these keys of the endpoint.
async fn under(keys: &str) -> (Lab, Socket, Frames) {
    let mut config = LabConfig::new("");
    let (port, frames) = echoing(&config, agreement()).await;
    config.policy = rule(port, &format!("        enforcement: enforce\n{keys}"));
    let lab = start_lab(config).await;
    let socket = opened(&lab, port).await.unwrap();
    (lab, socket, frames)
}

const FULL: &str = "        protocol: websocket\n        access: full";

#[tokio::test]
async fn messages_pass_in_both_directions_until_a_close_frame() {
    let (lab, mut socket, frames) = under(FULL).await;
    text(&mut socket, "hello").await;
    send_frame(&mut socket, Opcode::Text, false, b"in ").await;
    send_frame(&mut socket, Opcode::Ping, true, b"ping").await;
    send_frame(&mut socket, Opcode::Continuation, true, b"pieces").await;
    let large = vec![5; 300_000];
    send_frame(&mut socket, Opcode::Binary, true, &large).await;
    send_frame(&mut socket, Opcode::Close, true, &1000_u16.to_be_bytes()).await;
    let mut back = Vec::new();
    while let Some((head, payload)) = read_frame(&mut socket).await {
        assert_eq!(head.mask, None);
        back.push((head.opcode, head.last, payload));
    }
    assert_eq!(
        back,
        [
            (Opcode::Text, true, b"hello".to_vec()),
            (Opcode::Text, false, b"in ".to_vec()),
            (Opcode::Ping, true, b"ping".to_vec()),
            (Opcode::Continuation, true, b"pieces".to_vec()),
            (Opcode::Binary, true, large),
            (Opcode::Close, true, 1000_u16.to_be_bytes().to_vec()),
        ]
    );
    assert!(frames.lock().unwrap().iter().all(|(head, _)| head.mask.is_some_and(|mask| mask != MASK)));
    assert_eq!(lab.decisions(1).await, [Allowed]);
    let connection = &lab.connections()[0];
    assert_eq!((connection.status, connection.reason.as_ref()), (Some(101), None), "{connection:?}");
    assert!(connection.bytes_out > 300_000 && connection.bytes_in > 300_000, "{connection:?}");
}

#[tokio::test]
async fn text_needs_a_rule_of_its_own() {
    let (lab, mut socket, frames) = under("        protocol: websocket\n        access: read-only").await;
    send_frame(&mut socket, Opcode::Binary, true, b"not read").await;
    text(&mut socket, "hello").await;
    let (code, reason) = close_reason(&mut socket).await;
    assert_eq!(code, 1008);
    assert!(reason.contains("WEBSOCKET_TEXT"), "{reason}");
    assert_eq!(lab.decisions(2).await, [Denied, Allowed]);
    assert_eq!(lab.connections()[0].method.as_deref(), Some("WEBSOCKET_TEXT"));
    assert!(frames.lock().unwrap().iter().all(|(head, _)| head.opcode != Opcode::Text));

    let audited =
        "        protocol: websocket\n        enforcement: audit\n        access: read-only".to_owned();
    let mut config = LabConfig::new("");
    let (port, _) = echoing(&config, agreement()).await;
    config.policy = rule(port, &audited);
    let lab = start_lab(config).await;
    let mut socket = opened(&lab, port).await.unwrap();
    text(&mut socket, "one").await;
    text(&mut socket, "two").await;
    assert_eq!(read_frame(&mut socket).await.unwrap().1, b"one");
    assert_eq!(read_frame(&mut socket).await.unwrap().1, b"two");
    assert_eq!(lab.decisions(1).await, [Audited]);
}

#[tokio::test]
async fn invalid_frame_is_refused() {
    for (bytes, code) in [
        (b"GET /admin HTTP/1.1\r\nHost: api.test\r\n\r\n".to_vec(), 1002),
        (b"\x81\x05hello".to_vec(), 1002),
        (b"\xc1\x80\0\0\0\0".to_vec(), 1002),
        (b"\x80\x80\0\0\0\0".to_vec(), 1002),
        (b"\x89\xfe\x00\x80\0\0\0\0".to_vec(), 1002),
        (b"\x82\xff\x00\x00\x00\x01\x00\x00\x00\x00\0\0\0\0".to_vec(), 1009),
    ] {
        let (lab, mut socket, frames) = under(FULL).await;
        socket.write_all(&bytes).await.unwrap();
        assert_eq!(close_reason(&mut socket).await.0, code, "{bytes:?}");
        assert!(frames.lock().unwrap().is_empty());
        assert_eq!(lab.decisions(2).await, [Denied, Allowed]);
    }
}

#[tokio::test]
async fn a_server_that_did_not_agree_gets_no_stream() {
    for agreement in [
        "Sec-WebSocket-Accept: AAAA",
        "X: 1",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Extensions: permessage-deflate",
    ] {
        let mut config = LabConfig::new("");
        let (port, _) = echoing(&config, agreement).await;
        config.policy = rule(port, &format!("        enforcement: enforce\n{FULL}"));
        let lab = start_lab(config).await;
        let answer = opened(&lab, port).await.err().unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{agreement}: {answer}");
    }
    assert_eq!(STANDARD.decode(ACCEPT).unwrap().len(), 20);
}

pub(super) async fn with_credential(keys: &str) -> (Lab, Socket, Frames, String) {
    with_value("s3\"cret", keys).await
}

pub(super) async fn with_value(value: &str, keys: &str) -> (Lab, Socket, Frames, String) {
    let mut config = LabConfig::new("");
    let (port, frames) = echoing(&config, agreement()).await;
    let placeholder = bind_credential(&mut config, value, Vec::new());
    let binding = "        enforcement: enforce\n        credential_binding: {provider: p}\n";
    config.policy = rule(port, &format!("{binding}{keys}"));
    let lab = start_lab(config).await;
    let socket = opened(&lab, port).await.unwrap();
    (lab, socket, frames, placeholder)
}

#[tokio::test]
async fn credentials_are_put_into_text_where_the_endpoint_says_so() {
    let keys = format!("{FULL}\n        websocket_credential_rewrite: true");
    let (_scene, mut socket, frames, placeholder) = with_credential(&keys).await;
    let (left, right) = placeholder.split_at(10);
    send_frame(&mut socket, Opcode::Text, false, format!(r#"{{"token":"{left}"#).as_bytes()).await;
    send_frame(&mut socket, Opcode::Ping, true, b"between").await;
    send_frame(&mut socket, Opcode::Continuation, true, format!(r#"{right}"}}"#).as_bytes()).await;
    read_frame(&mut socket).await.unwrap();
    read_frame(&mut socket).await.unwrap();
    let seen: Vec<Vec<u8>> = frames.lock().unwrap().iter().map(|(_, payload)| payload.clone()).collect();
    assert_eq!(seen, [b"between".to_vec(), br#"{"token":"s3\"cret"}"#.to_vec()]);
    text(&mut socket, "openshell:resolve:env:v1_OTHER").await;
    let (code, reason) = close_reason(&mut socket).await;
    assert!(code == 1008 && reason.contains("no credential of this run"), "{code} {reason}");
    assert_eq!(frames.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn placeholders_that_are_not_replaced_end_the_websocket() {
    for opcode in [Opcode::Text, Opcode::Binary] {
        let (lab, mut socket, frames, placeholder) = with_credential(FULL).await;
        send_frame(&mut socket, opcode, true, format!("my {placeholder}").as_bytes()).await;
        let (code, reason) = close_reason(&mut socket).await;
        assert!(code == 1008 && reason.contains("placeholder"), "{code} {reason}");
        assert_eq!(lab.decisions(2).await, [Denied, Allowed]);
        assert!(frames.lock().unwrap().is_empty());
    }
}
