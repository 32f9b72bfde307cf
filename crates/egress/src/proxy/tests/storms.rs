//! Upstreams and clients at their worst: what they take is bounded, what happened is told, and others go on.

use super::scene::{Kind, Scene, Setting, Trust, rule, scene, server, talk};
use crate::event::AttemptDecision::{Allowed, Denied, Failed};
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

/// Writes the same bytes until nobody takes them, at most a gigabyte.
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

async fn goes_on(scene: &Scene) {
    let answer = tokio::time::timeout(
        Duration::from_secs(20),
        scene.raw("GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"),
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
    let scene = scene(Setting::new(rule(port, READ))).await;
    let answer = scene.raw(&get(port)).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("did not answer in time"), "{answer}");
    assert_eq!(scene.decisions(1).await, [Failed]);
}

#[tokio::test]
async fn a_long_upload_is_not_mistaken_for_silence() {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, READ));
    setting.limits.idle = Duration::from_millis(800);
    let scene = scene(setting).await;
    let mut stream = scene.connect().await;
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
    let scene = scene(Setting::new(rule(port, READ))).await;
    let answer = scene.raw(&get(port)).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("larger than"), "{answer}");
    assert!(written.load(Ordering::Relaxed) < 16 << 20, "{written:?}");
    assert_eq!(scene.decisions(1).await, [Failed]);
    goes_on(&scene).await;
}

#[tokio::test]
async fn an_endless_body_waits_for_its_reader() {
    let (port, written) = doing(|stream, written| async move {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n";
        pour(stream, head, vec![b'x'; 64 << 10], written).await;
    })
    .await;
    let scene = scene(Setting::new(rule(port, READ))).await;
    let mut stream = scene.connect().await;
    stream.write_all(get(port).as_bytes()).await.unwrap();
    let mut taken = vec![0; 1 << 20];
    stream.read_exact(&mut taken).await.unwrap();
    // The kernel's buffers fill, and ours are small: nothing grows while nobody reads.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = written.load(Ordering::Relaxed);
    assert!(before < 64 << 20, "{before}");
    goes_on(&scene).await;
    drop(stream);
    assert_eq!(scene.decisions(2).await.len(), 2);
    let told = scene.attempts().iter().any(|attempt| {
        attempt.decision == Allowed && attempt.status == Some(200) || attempt.reason.is_some()
    });
    assert!(told, "{:?}", scene.attempts());
}

#[tokio::test]
async fn servers_that_cannot_be_trusted_are_told_apart() {
    let mut setting = Setting::new("");
    let (garbage, _) = doing(|mut stream, _| async move {
        drop(stream.write_all(b"\x15\x03\x03\x00\x02not tls at all").await);
        drop(stream.read(&mut [0; 64]).await);
    })
    .await;
    let wrong = server(Kind::WrongHost(setting.vendor.clone())).await.port;
    let expired = server(Kind::Expired(setting.vendor.clone())).await.port;
    let all = format!("ports: [{garbage}, {wrong}, {expired}]");
    setting.policy = rule(1, READ).replace("port: 1", &all);
    let scene = scene(setting).await;
    for (port, word) in [(garbage, ""), (wrong, "not valid for name"), (expired, "expired")] {
        let stream = scene.tunnel(&format!("api.test:{port}")).await.unwrap();
        let stream = scene.tls(stream, Trust::Run, "api.test").await.unwrap();
        let answer = talk(stream, &format!("GET / HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("no trusted TLS"), "{port}: {answer}");
        assert!(answer.contains(word), "{port}: {answer}");
    }
    assert_eq!(scene.decisions(3).await, [Failed; 3]);
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn five_thousand_connections_are_bounded_and_others_go_on() {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, ""));
    setting.limits.connections = 32;
    setting.limits.head_time = Duration::from_millis(20);
    let scene = scene(setting).await;
    let before = open_descriptors();
    for wave in 0..50 {
        let mut held = Vec::new();
        for _ in 0..100 {
            held.push(TcpStream::connect(scene.proxy).await.unwrap());
        }
        // Ours, those that were given a place, and one that waits for it.
        assert!(open_descriptors() < before + 100 + 32 + 32, "wave {wave}: {}", open_descriptors());
    }
    let authority = format!("api.test:{}", server.port);
    assert!(tokio::time::timeout(Duration::from_secs(30), scene.tunnel(&authority)).await.unwrap().is_ok());
}

#[tokio::test]
async fn one_byte_at_a_time_takes_one_place_and_ends() {
    let server = server(Kind::Plain).await;
    let scene = scene(Setting::new(rule(server.port, READ))).await;
    let started = Instant::now();
    let mut slow = scene.connect().await;
    let mut ended = false;
    for byte in get(server.port).bytes() {
        ended |= slow.write_all(&[byte]).await.is_err();
        tokio::time::sleep(Duration::from_millis(30)).await;
        if ended || started.elapsed() > Duration::from_secs(5) {
            break;
        }
    }
    goes_on(&scene).await;
    let told = scene.attempts().iter().any(|attempt| {
        attempt.decision == Denied
            && attempt.reason.as_deref().is_some_and(|reason| reason.contains("in time"))
    });
    assert!(told, "{:?}", scene.attempts());
    assert!(server.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_task_that_panics_ends_alone_and_is_told() {
    let server = server(Kind::Plain).await;
    let mut setting = Setting::new(rule(server.port, READ));
    setting.panics_at = Some("/panic");
    let scene = scene(setting).await;
    let ask = |path: &str| {
        format!(
            "GET http://api.test:{0}{path} HTTP/1.1\r\nHost: api.test:{0}\r\nConnection: close\r\n\r\n",
            server.port
        )
    };
    assert_eq!(scene.raw(&ask("/panic")).await, "");
    assert!(scene.raw(&ask("/fine")).await.contains("GET /fine"));
    assert_eq!(scene.decisions(2).await, [Failed, Allowed]);
    assert!(scene.attempts()[0].reason.as_deref().unwrap().contains("panicked"));
}
