//! The leak watcher sees every part of every kind of message, in portions of any size, and what it refuses does not pass.
//! It does not see requests to the model gateway.

use super::http2::{ask, asked, connected, http2_server};
use super::lab::{Kind, Lab, LabConfig, Server, rule, server, start_lab, talk};
use super::websockets::{close_reason, opened, send_frame, under_with};
use crate::event::ConnectionDecision::Denied;
use crate::proxy::LeakWatcher;
use crate::websocket::Opcode;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

const WORD: &str = "word-of-the-run";
const READ: &str = "        protocol: rest\n        access: full\n        enforcement: enforce";

/// Stops messages with the word, and records where it saw it.
fn looking() -> (LeakWatcher, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&seen);
    let leak_watcher: LeakWatcher = Arc::new(move |place| {
        let kept = Arc::clone(&kept);
        let place = place.to_owned();
        let mut text = Vec::new();
        Box::new(move |portion| {
            text.extend_from_slice(portion);
            let is_in = text.windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD.as_bytes()));
            is_in.then(|| {
                kept.lock().unwrap().push(place.clone());
                "the word was seen".to_owned()
            })
        })
    });
    (leak_watcher, seen)
}

async fn looked_at(keys: &str, secure: bool) -> (Lab, Server, Arc<Mutex<Vec<String>>>) {
    let mut config = LabConfig::new("");
    let kind = if secure { Kind::Tls(config.vendor.clone()) } else { Kind::Plain };
    let server = server(kind).await;
    let (leak_watcher, seen) = looking();
    config.policy = rule(server.port, keys);
    config.leak_watcher = Some(leak_watcher);
    (start_lab(config).await, server, seen)
}

#[tokio::test]
async fn every_part_of_a_request_is_shown() {
    let (lab, server, seen) = looked_at(READ, true).await;
    let port = server.port;
    let head = |line: &str, field: &str| {
        format!("{line} HTTP/1.1\r\nHost: api.test:{port}\r\nConnection: close\r\n{field}\r\n")
    };
    let cases = [
        head(&format!("GET /{WORD}"), ""),
        head(&format!("GET /a?q={WORD}"), ""),
        head("GET /a", &format!("X-Any: {WORD}\r\n")),
        head("GET /a", &format!("{WORD}: x\r\n")),
        format!("{}{WORD}", head("POST /a", &format!("Content-Length: {}\r\n", WORD.len()))),
        format!(
            "{}5\r\n{}\r\na\r\n{}\r\n0\r\n\r\n",
            head("POST /a", "Transfer-Encoding: chunked\r\n"),
            &WORD[..5],
            &WORD[5..]
        ),
    ];
    for (number, text) in cases.iter().enumerate() {
        let answer = talk(lab.inspected(port).await, text).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("guard_denied"), "{text}: {answer}");
        assert_eq!(seen.lock().unwrap().len(), number + 1, "{text}");
    }
    assert_eq!(lab.decisions(cases.len()).await, vec![Denied; cases.len()]);
    assert!(server.heads.lock().unwrap().iter().all(|head| !head.contains(WORD)), "no head arrived");
    let fine = talk(lab.inspected(port).await, &head("GET /a", "")).await;
    assert!(fine.starts_with("HTTP/1.1 200 "), "{fine}");
    assert_eq!(seen.lock().unwrap()[0], format!("api.test:{port}"));
}

/// Sends byte by byte, so that no single read holds the whole.
async fn in_segments(stream: &mut (impl AsyncWrite + Unpin), text: &str) {
    for byte in text.as_bytes() {
        drop(stream.write_all(&[*byte]).await);
        drop(stream.flush().await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn segments_do_not_matter() {
    let (lab, server, seen) = looked_at(READ, true).await;
    let mut stream = lab.inspected(server.port).await;
    let head = format!(
        "POST /a HTTP/1.1\r\nHost: api.test:{}\r\nContent-Length: {}\r\n\r\n",
        server.port,
        WORD.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    in_segments(&mut stream, WORD).await;
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    assert!(String::from_utf8_lossy(&answer).contains("guard_denied"));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn plain_requests_and_tunnels_that_can_be_read_are_shown() {
    // No rule reads requests here.
    let (lab, server, seen) = looked_at("", false).await;
    let port = server.port;
    let forwarded = format!("GET http://api.test:{port}/{WORD} HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n");
    assert!(lab.raw(&forwarded).await.contains("guard_denied"));
    assert_eq!(seen.lock().unwrap().len(), 1);
    let mut tunnel = lab.tunnel(&format!("api.test:{port}")).await.unwrap();
    in_segments(&mut tunnel, &format!("GET /{WORD} HTTP/1.1\r\n\r\n")).await;
    let mut answer = Vec::new();
    drop(tunnel.read_to_end(&mut answer).await);
    assert!(answer.is_empty());
    assert_eq!(lab.decisions(2).await, [Denied, Denied]);
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert!(server.heads.lock().unwrap().iter().all(|head| !head.contains(WORD)));
}

#[tokio::test]
async fn names_of_hosts_are_shown_before_they_are_looked_up() {
    let (lab, _, seen) = looked_at("", false).await;
    let answer = lab.tunnel(&format!("{WORD}.wild.test:443")).await.err().unwrap();
    assert!(answer.contains("guard_denied"), "{answer}");
    assert_eq!(*seen.lock().unwrap(), [format!("{WORD}.wild.test:443")]);
    assert!(lab.dialled().is_empty());
}

#[tokio::test]
async fn streams_of_http2_are_shown() {
    let mut config = LabConfig::new("");
    let (port, arrived) = http2_server(&config).await;
    let (leak_watcher, seen) = looking();
    config.policy = rule(port, READ);
    config.leak_watcher = Some(leak_watcher);
    let lab = start_lab(config).await;
    let base = format!("https://api.test:{port}");
    let mut with_field = asked("GET", &format!("{base}/a"), "");
    with_field.headers_mut().insert("x-any", WORD.parse().unwrap());
    let cases = [
        asked("GET", &format!("{base}/{WORD}"), ""),
        asked("GET", &format!("{base}/a?q={WORD}"), ""),
        with_field,
        asked("POST", &format!("{base}/a"), WORD),
    ];
    let mut sender = connected(&lab, port).await;
    for (number, request) in cases.into_iter().enumerate() {
        let shown = format!("{request:?}");
        let (status, body) = ask(&mut sender, request).await;
        assert!(status == 403 && body.contains("guard_denied"), "{shown}: {status} {body}");
        assert_eq!(seen.lock().unwrap().len(), number + 1, "{shown}");
    }
    assert_eq!(ask(&mut sender, asked("POST", &format!("{base}/a"), "fine")).await.0, 200);
    let heads = format!("{:?}", arrived.lock().unwrap());
    assert!(!heads.contains(WORD), "{heads}");
}

#[tokio::test]
async fn messages_of_websockets_are_shown() {
    let frames = |pieces: &'static [(Opcode, bool, &'static [u8])]| async move {
        let (leak_watcher, seen) = looking();
        let (lab, port, _) =
            under_with("        protocol: websocket\n        access: full", leak_watcher).await;
        let mut socket = opened(&lab, port).await.unwrap();
        for (opcode, last, payload) in pieces {
            send_frame(&mut socket, *opcode, *last, payload).await;
        }
        let (code, reason) = close_reason(&mut socket).await;
        assert!(code == 1008 && reason.contains("the word was seen"), "{code} {reason}");
        assert_eq!(seen.lock().unwrap().len(), 1);
    };
    frames(&[(Opcode::Text, true, b"a word-of-the-run b")]).await;
    frames(&[
        (Opcode::Text, false, b"word-of-"),
        (Opcode::Ping, true, b"x"),
        (Opcode::Continuation, true, b"the-run"),
    ])
    .await;
    frames(&[(Opcode::Binary, true, b"word-of-"), (Opcode::Binary, true, b"the-run")]).await;
    frames(&[(Opcode::Ping, true, b"word-of-the-run")]).await;
}

#[tokio::test]
async fn requests_to_the_gateway_are_not_watched() {
    let (lab, _, seen) = looked_at("", false).await;
    let body = format!(r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"{WORD}"}}]}}"#);
    let request = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: model.fullsend.internal\r\nX-Any: {WORD}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let answer = lab.raw(&request("http://model.fullsend.internal/v1/messages")).await;
    assert!(answer.contains("hello from the gateway"), "{answer}");
    let tunnel = lab.tunnel("model.fullsend.internal:80").await.unwrap();
    assert!(talk(tunnel, &request("/v1/messages")).await.contains("hello from the gateway"));
    // The same name on another port is not the gateway.
    let other = lab.raw(&request("http://model.fullsend.internal:81/v1/messages")).await;
    assert!(other.contains("guard_denied"), "{other}");
    assert_eq!(*seen.lock().unwrap(), ["model.fullsend.internal:81"]);
}
