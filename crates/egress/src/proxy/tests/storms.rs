//! Hostile upstreams and clients: their cost is bounded, the events say what happened, and other connections continue.

use super::lab::{Kind, Lab, LabConfig, Trust, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Allowed, Denied, Failed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const READ: &str = "        protocol: rest\n        enforcement: enforce\n        access: full";

/// A server that does this with every connection; what it wrote is counted.
async fn doing<F, Fut>(work: F) -> (u16, Arc<AtomicU64>)
where
    F: Fn(TcpStream, Arc<AtomicU64>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(work(stream, Arc::clone(&count)));
        }
    });
    (port, written)
}

/// Writes the same bytes until the reader stops, at most a gigabyte.
async fn pour(mut stream: TcpStream, beginning: &[u8], portion: Vec<u8>, written: Arc<AtomicU64>) {
    drop(stream.read(&mut [0; 1024]).await);
    drop(stream.write_all(beginning).await);
    while written.load(Ordering::Relaxed) < 1 << 30 && stream.write_all(&portion).await.is_ok() {
        written.fetch_add(portion.len() as u64, Ordering::Relaxed);
    }
}

fn get(port: u16) -> String {
    format!("GET http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n")
}

async fn goes_on(lab: &Lab) {
    let answer = tokio::time::timeout(
        Duration::from_secs(20),
        lab.raw("GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"),
    );
    assert!(answer.await.unwrap().contains("policy_denied"), "others are still served");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let (port, _) = doing(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let lab = start_lab(LabConfig::new(rule(port, READ))).await;
    let answer = lab.raw(&get(port)).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("did not respond in time"), "{answer}");
    assert_eq!(lab.decisions(1).await, [Failed]);
}

#[tokio::test]
async fn a_long_upload_is_not_mistaken_for_silence() {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, READ));
    config.limits.idle = Duration::from_millis(800);
    let lab = start_lab(config).await;
    let mut stream = lab.connect().await;
    let head = format!(
        "POST http://api.test:{0}/ HTTP/1.1\r\nHost: api.test:{0}\r\nContent-Length: 12\r\nConnection: close\r\n\r\n",
        server.port
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stream.write_all(b"x").await.unwrap();
    }
    let answer = talk(stream, "").await;
    assert!(answer.contains("[xxxxxxxxxxxx]"), "{answer}");
}

#[tokio::test]
async fn a_gigabyte_of_headers_is_cut_off_at_once() {
    let (port, written) = doing(|stream, written| async move {
        pour(
            stream,
            b"HTTP/1.1 200 OK\r\n",
            b"X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(200),
            written,
        )
        .await;
    })
    .await;
    let lab = start_lab(LabConfig::new(rule(port, READ))).await;
    let answer = lab.raw(&get(port)).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("larger than"), "{answer}");
    assert!(written.load(Ordering::Relaxed) < 16 << 20, "{written:?}");
    assert_eq!(lab.decisions(1).await, [Failed]);
    goes_on(&lab).await;
}

#[tokio::test]
async fn an_endless_body_waits_for_its_reader() {
    let (port, written) = doing(|stream, written| async move {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n";
        pour(stream, head, vec![b'x'; 64 << 10], written).await;
    })
    .await;
    let lab = start_lab(LabConfig::new(rule(port, READ))).await;
    let mut stream = lab.connect().await;
    stream.write_all(get(port).as_bytes()).await.unwrap();
    let mut taken = vec![0; 1 << 20];
    stream.read_exact(&mut taken).await.unwrap();
    // The kernel's buffers fill, and ours are small: nothing grows while the client does not read.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = written.load(Ordering::Relaxed);
    assert!(before < 64 << 20, "{before}");
    goes_on(&lab).await;
    drop(stream);
    assert_eq!(lab.decisions(2).await.len(), 2);
    let recorded = lab.connections().iter().any(|connection| {
        connection.decision == Allowed && connection.status == Some(200) || connection.reason.is_some()
    });
    assert!(recorded, "{:?}", lab.connections());
}

#[tokio::test]
async fn servers_that_cannot_be_trusted_are_distinguished() {
    let mut config = LabConfig::new("");
    let (garbage, _) = doing(|mut stream, _| async move {
        drop(stream.write_all(b"\x15\x03\x03\x00\x02not tls at all").await);
        drop(stream.read(&mut [0; 64]).await);
    })
    .await;
    let wrong = server(Kind::WrongHost(config.vendor.clone())).await.port;
    let expired = server(Kind::Expired(config.vendor.clone())).await.port;
    let all = format!("ports: [{garbage}, {wrong}, {expired}]");
    config.policy = rule(1, READ).replace("port: 1", &all);
    let lab = start_lab(config).await;
    for (port, word) in [(garbage, ""), (wrong, "not valid for name"), (expired, "expired")] {
        let stream = lab.tunnel(&format!("api.test:{port}")).await.unwrap();
        let stream = lab.tls(stream, Trust::Run, "api.test").await.unwrap();
        let answer = talk(stream, &format!("GET / HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("no trusted TLS"), "{port}: {answer}");
        assert!(answer.contains(word), "{port}: {answer}");
    }
    assert_eq!(lab.decisions(3).await, [Failed; 3]);
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn five_thousand_connections_are_bounded_and_others_go_on() {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, ""));
    config.limits.connections = 32;
    config.limits.head_time = Duration::from_millis(20);
    let lab = start_lab(config).await;
    let before = open_descriptors();
    for wave in 0..50 {
        let mut held = Vec::new();
        for _ in 0..100 {
            held.push(TcpStream::connect(lab.proxy).await.unwrap());
        }
        // Ours, those with a slot, and one that waits for a slot.
        assert!(open_descriptors() < before + 100 + 32 + 32, "wave {wave}: {}", open_descriptors());
    }
    let authority = format!("api.test:{}", server.port);
    assert!(tokio::time::timeout(Duration::from_secs(30), lab.tunnel(&authority)).await.unwrap().is_ok());
}

#[tokio::test]
async fn one_byte_at_a_time_takes_one_place_and_ends() {
    let server = server(Kind::Plain).await;
    let lab = start_lab(LabConfig::new(rule(server.port, READ))).await;
    let started = Instant::now();
    let mut slow = lab.connect().await;
    let mut ended = false;
    for byte in get(server.port).bytes() {
        ended |= slow.write_all(&[byte]).await.is_err();
        tokio::time::sleep(Duration::from_millis(30)).await;
        if ended || started.elapsed() > Duration::from_secs(5) {
            break;
        }
    }
    goes_on(&lab).await;
    let recorded = lab.connections().iter().any(|connection| {
        connection.decision == Denied
            && connection.reason.as_deref().is_some_and(|reason| reason.contains("in time"))
    });
    assert!(recorded, "{:?}", lab.connections());
    assert!(server.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_task_that_panics_ends_alone_and_is_recorded() {
    let server = server(Kind::Plain).await;
    let mut config = LabConfig::new(rule(server.port, READ));
    config.leak_watcher = Some(Arc::new(|_| {
        Box::new(|bytes| {
            assert!(!String::from_utf8_lossy(bytes).contains("/panic"), "asked for");
            None
        })
    }));
    let lab = start_lab(config).await;
    let ask = |path: &str| {
        format!(
            "GET http://api.test:{0}{path} HTTP/1.1\r\nHost: api.test:{0}\r\nConnection: close\r\n\r\n",
            server.port
        )
    };
    assert_eq!(lab.raw(&ask("/panic")).await, "");
    assert!(lab.raw(&ask("/fine")).await.contains("GET /fine"));
    assert_eq!(lab.decisions(2).await, [Failed, Allowed]);
    assert!(lab.connections()[0].reason.as_deref().unwrap().contains("panicked"));
}
