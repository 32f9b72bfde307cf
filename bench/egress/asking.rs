//! The client of the bench: TLS over a proxy or directly, HTTP/1.1 on kept connections.

use super::{ADDRESS, HOST, upstream};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const WARM_UP: usize = 50;
const REQUESTS: usize = 500;
const CONNECTIONS: usize = 8;
const RATE_TIME: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
pub(super) struct Route {
    proxy: Option<u16>,
    port: u16,
}

impl Route {
    pub(super) fn direct(port: u16) -> Self {
        Self { proxy: None, port }
    }

    pub(super) fn through(proxy: u16, port: u16) -> Self {
        Self { proxy: Some(proxy), port }
    }
}

pub(super) struct Client {
    connector: TlsConnector,
}

pub(super) struct Connection {
    stream: BufStream<TlsStream<TcpStream>>,
    authority: String,
}

impl Client {
    /// Trusts every authority of the bench.
    pub(super) fn new(directory: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        for name in ["upstream", "ours", "squid", "mitmproxy"] {
            if let Ok(certificate) = CertificateDer::from_pem_file(directory.join(format!("{name}.pem"))) {
                roots.add(certificate).unwrap();
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Self { connector: TlsConnector::from(Arc::new(config)) }
    }

    async fn connect(&self, route: Route) -> Connection {
        let mut stream = TcpStream::connect((ADDRESS, route.proxy.unwrap_or(route.port))).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let authority = format!("{HOST}:{}", route.port);
        if route.proxy.is_some() {
            let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(stream.read_u8().await.unwrap());
            }
            assert!(answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200"), "{answer:?}");
        }
        let stream = self.connector.connect(ServerName::try_from(HOST).unwrap(), stream).await.unwrap();
        Connection { stream: BufStream::new(stream), authority }
    }

    /// The median of many requests, in microseconds.
    pub(super) async fn latency(&self, route: Route) -> f64 {
        let mut connection = self.connect(route).await;
        let mut times = Vec::new();
        for number in 0..WARM_UP + REQUESTS {
            let started = Instant::now();
            connection.small().await;
            if number >= WARM_UP {
                times.push(started.elapsed());
            }
        }
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    }

    pub(super) async fn rate(&self, route: Route) -> f64 {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut connection = self.connect(route).await;
            connection.small().await;
            connections.push(connection);
        }
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for mut connection in connections {
            tasks.spawn(async move {
                let mut count = 0_u32;
                while started.elapsed() < RATE_TIME {
                    connection.small().await;
                    count += 1;
                }
                count
            });
        }
        let total: u32 = tasks.join_all().await.into_iter().sum();
        f64::from(total) / started.elapsed().as_secs_f64()
    }

    /// Megabytes in a second.
    pub(super) async fn bulk(&self, route: Route) -> f64 {
        let mut connection = self.connect(route).await;
        connection.small().await;
        let started = Instant::now();
        connection.bulk().await;
        upstream::BULK_BYTES as f64 / 1e6 / started.elapsed().as_secs_f64()
    }

    /// Connections that have all been used once and stay open.
    pub(super) async fn hold(&self, route: Route, count: usize) -> Vec<Connection> {
        let mut held = Vec::new();
        for _ in 0..count {
            let mut connection = self.connect(route).await;
            connection.small().await;
            held.push(connection);
        }
        held
    }
}

impl Connection {
    async fn small(&mut self) {
        let request = format!("GET /small HTTP/1.1\r\nHost: {}\r\n\r\n", self.authority);
        assert!(self.ask(&request).await > 0);
    }

    async fn bulk(&mut self) {
        let request = format!("GET /bulk HTTP/1.1\r\nHost: {}\r\n\r\n", self.authority);
        assert_eq!(self.ask(&request).await, upstream::BULK_BYTES);
    }

    async fn ask(&mut self, request: &str) -> usize {
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
        let head = upstream::read_head(&mut self.stream).await.unwrap();
        assert!(head.contains(" 200 "), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        let length: usize = length.trim().parse().unwrap();
        let mut portion = vec![0; 64 << 10];
        let mut taken = 0;
        while taken < length {
            let most = portion.len().min(length - taken);
            let read = self.stream.read(&mut portion[..most]).await.unwrap();
            assert!(read > 0);
            taken += read;
        }
        taken
    }
}
