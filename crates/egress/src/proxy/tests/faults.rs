//! Servers that break, and many connections at once.

use super::lab::{Kind, LabConfig, Trust, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Allowed, Failed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const READ: &str = "        protocol: rest\n        enforcement: enforce\n        access: full";

/// A server that answers every connection with these bytes and closes it.
async fn saying(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                drop(stream.read(&mut buffer).await);
                drop(stream.write_all(bytes).await);
            });
        }
    });
    port
}

#[tokio::test]
async fn broken_responses_are_reported_as_what_they_are() {
    for (bytes, expected) in [
        (&b""[..], "closed the connection without a response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "ended within a head"),
        (b"nonsense\r\n\r\n", "malformed_request"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "upstream_broken"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "sent an unexpected 101 Switching Protocols"),
    ] {
        let port = saying(bytes).await;
        let lab = start_lab(LabConfig::new(rule(port, READ))).await;
        let answer =
            lab.raw(&format!("GET http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{bytes:?}: {answer}");
        let expected = if expected == "malformed_request" { "upstream_broken" } else { expected };
        assert!(answer.contains(expected), "{answer}");
        assert_eq!(lab.decisions(1).await, [Failed]);
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_is_cut_for_the_client_too() {
    let port = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await;
    let lab = start_lab(LabConfig::new(rule(port, READ))).await;
    let answer =
        lab.raw(&format!("GET http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n")).await;
    assert!(answer.ends_with("\r\n\r\nhalf"), "{answer}");
    assert_eq!(lab.decisions(1).await, [Allowed]);
    assert!(lab.connections()[0].reason.as_deref().unwrap().contains("cut off"));
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_is_explained_inside_tls() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Expired(config.vendor.clone())).await;
    config.policy = rule(server.port, READ);
    let lab = start_lab(config).await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    let stream = lab.tls(stream, Trust::Run, "api.test").await.unwrap();
    let answer = talk(stream, &format!("GET / HTTP/1.1\r\nHost: api.test:{}\r\n\r\n", server.port)).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("expired"), "{answer}");
    assert_eq!(lab.decisions(1).await, [Failed]);
}

#[tokio::test]
async fn an_unreachable_server_is_reported_before_the_tunnel_is_established() {
    let port = {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
        gone.local_addr().unwrap().port()
    };
    let lab = start_lab(LabConfig::new(rule(port, ""))).await;
    let answer = lab.tunnel(&format!("api.test:{port}")).await.err().unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("upstream_unreachable"), "{answer}");
}

#[tokio::test]
async fn more_connections_than_there_are_places_wait_and_pass() {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, ""));
    config.limits.connections = 4;
    config.limits.head_time = Duration::from_millis(50);
    let lab = start_lab(config).await;
    // Idle connections hold every slot until they time out.
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(lab.proxy).await.unwrap());
    }
    let authority = format!("api.test:{}", server.port);
    let ask = lab.tunnel(&authority);
    assert!(tokio::time::timeout(Duration::from_secs(30), ask).await.unwrap().is_ok());
    drop(idle);
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions() {
    let server = server(Kind::Plain).await;
    let lab = start_lab(LabConfig::new(rule(server.port, READ))).await;
    let body = "x".repeat(3 << 20);
    let head = format!(
        "POST http://api.test:{0}/ HTTP/1.1\r\nHost: api.test:{0}\r\nContent-Length: {1}\r\nConnection: close\r\n\r\n",
        server.port,
        body.len()
    );
    let answer = lab.raw(&(head + &body)).await;
    assert_eq!(answer.matches('x').count(), body.len());
    assert_eq!(lab.decisions(1).await, [Allowed]);
}
