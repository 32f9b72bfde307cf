//! A connection that another program holds now: its next request is refused, and a tunnel is cut.

use super::lab::{Kind, LabConfig, Trust, identifier, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Allowed, Denied};
use crate::identity::{IdentifiedCaller, Identify, IdentityError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Finds the real program until the connection is passed on.
struct HandedOverConnection(Arc<AtomicBool>);

impl Identify for HandedOverConnection {
    fn identify(&self, peer: SocketAddr, local: SocketAddr) -> Result<IdentifiedCaller, IdentityError> {
        let mut caller = identifier().identify(peer, local)?;
        if self.0.load(Ordering::SeqCst) {
            caller.program.path = "/tmp/evil".to_owned();
        }
        Ok(caller)
    }
}

#[tokio::test]
async fn the_next_request_is_refused() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let passed = Arc::new(AtomicBool::new(false));
    config.identifier = Arc::new(HandedOverConnection(Arc::clone(&passed)));
    config.policy =
        rule(server.port, "        protocol: rest\n        enforcement: enforce\n        access: full");
    let lab = start_lab(config).await;
    let request = format!("GET /a HTTP/1.1\r\nHost: api.test:{}\r\n\r\n", server.port);
    let mut stream = lab.inspected(server.port).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 40];
    stream.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    passed.store(true, Ordering::SeqCst);
    let answer = talk(stream, &request).await;
    assert!(answer.contains("HTTP/1.1 403 ") && answer.contains("is held by /tmp/evil now"), "{answer}");
    assert_eq!(lab.decisions(2).await, [Allowed, Denied]);
    assert_eq!(server.heads.lock().unwrap().len(), 1, "the second one never arrived");
}

#[tokio::test]
async fn a_tunnel_is_cut() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let passed = Arc::new(AtomicBool::new(false));
    config.identifier = Arc::new(HandedOverConnection(Arc::clone(&passed)));
    config.policy = rule(server.port, "");
    let lab = start_lab(config).await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    let mut stream = lab.tls(stream, Trust::Server, "api.test").await.unwrap();
    passed.store(true, Ordering::SeqCst);
    let request = format!("GET /a HTTP/1.1\r\nHost: api.test:{}\r\n\r\n", server.port);
    let mut cut = false;
    for _ in 0..600 {
        let mut answer = [0; 1024];
        cut = stream.write_all(request.as_bytes()).await.is_err()
            || matches!(stream.read(&mut answer).await, Ok(0) | Err(_));
        if cut {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(cut, "bytes still move");
    assert_eq!(lab.decisions(1).await, [Denied]);
}
