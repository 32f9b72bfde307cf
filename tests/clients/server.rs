//! The server that real clients talk to: TLS with HTTP/2 and HTTP/1.1, event streams, git over HTTP, and websockets. It
//! keeps the requests that arrived, so that a refusal can be shown to have stopped one.

use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use egress::websocket::{FrameHead, Opcode, apply_mask};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Requests, and websocket texts, in the order in which they came.
pub type Arrived = Arc<Mutex<Vec<String>>>;

pub struct Lab {
    pub certificate: String,
    acceptor: TlsAcceptor,
    websockets: TlsAcceptor,
    pub arrived: Arrived,
    repositories: PathBuf,
}

type Stream = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

impl Lab {
    pub fn new(names: &[&str], repositories: PathBuf) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "lab authority");
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let leaf_key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&leaf_key, &issuer).unwrap();
        let acceptor = |protocols: &[&[u8]]| {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
            let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![leaf.der().clone()], key)
                .unwrap();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            TlsAcceptor::from(Arc::new(config))
        };
        Self {
            certificate: authority.pem(),
            acceptor: acceptor(&[b"h2", b"http/1.1"]),
            websockets: acceptor(&[b"http/1.1"]),
            arrived: Arrived::default(),
            repositories,
        }
    }

    /// Serves requests on one port and websockets on the other, for as long as the runtime lives.
    pub async fn serve(self: Arc<Self>, requests: std::net::SocketAddr, websockets: std::net::SocketAddr) {
        let requests = tokio::net::TcpListener::bind(requests).await.unwrap();
        let websockets = tokio::net::TcpListener::bind(websockets).await.unwrap();
        let lab = Arc::clone(&self);
        tokio::spawn(async move {
            while let Ok((stream, _)) = requests.accept().await {
                let lab = Arc::clone(&lab);
                tokio::spawn(async move {
                    if let Ok(stream) = lab.acceptor.accept(stream).await {
                        lab.requests(stream).await;
                    }
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = websockets.accept().await {
                let lab = Arc::clone(&self);
                tokio::spawn(async move {
                    if let Ok(stream) = lab.websockets.accept(stream).await {
                        lab.websocket(stream).await;
                    }
                });
            }
        });
    }

    async fn requests(self: Arc<Self>, stream: Stream) {
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let service = service_fn(move |request| Arc::clone(&self).answer(request));
        if http2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        } else {
            let builder = hyper::server::conn::http1::Builder::new();
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Fed>, Infallible> {
        let (parts, body) = request.into_parts();
        let method = parts.method.to_string();
        let path = parts.uri.path().to_owned();
        self.arrived.lock().unwrap().push(format!("{method} {path}"));
        if path == "/events" {
            return Ok(events());
        }
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        if let Some(inside) = path.strip_prefix("/git") {
            let inside = inside.to_owned();
            let query = parts.uri.query().unwrap_or_default().to_owned();
            let lab = Arc::clone(&self);
            let backend = move || lab.backend(&method, &inside, &query, &parts.headers, &body);
            return Ok(tokio::task::spawn_blocking(backend).await.unwrap());
        }
        Ok(said(format!("reached {method} {path} by {:?}\n", parts.version)))
    }

    /// git's own server, by the rules of CGI.
    fn backend(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &hyper::HeaderMap,
        body: &[u8],
    ) -> Response<Fed> {
        let header = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let mut child = Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.repositories)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .env("GIT_PROTOCOL", header("git-protocol"))
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("REMOTE_USER", "lab")
            .env("REQUEST_METHOD", method)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let body = body.to_vec();
        let writing = std::thread::spawn(move || drop(input.write_all(&body)));
        let output = child.wait_with_output().unwrap().stdout;
        writing.join().unwrap();
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let mut response = Response::builder();
        for line in String::from_utf8_lossy(&output[..end]).lines() {
            let (name, value) = line.split_once(": ").unwrap();
            response = match name {
                "Status" => response.status(value[..3].parse::<u16>().unwrap()),
                _ => response.header(name, value),
            };
        }
        response.body(Fed::whole(output[end + 4..].to_vec())).unwrap()
    }

    async fn websocket(&self, mut stream: Stream) {
        let head = read_head(&mut stream).await;
        let key = head.lines().find_map(|line| line.split_once("ey: ").map(|(_, key)| key.trim()));
        let Some(key) = key else { return };
        self.arrived.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
        let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
        let digest = ::ring::digest::digest(&::ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            base64(digest.as_ref())
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        while let Some((head, payload)) = read_frame(&mut stream).await {
            if head.opcode == Opcode::Text {
                let text = String::from_utf8_lossy(&payload).into_owned();
                self.arrived.lock().unwrap().push(format!("text {text}"));
            }
            let mut back = FrameHead { mask: None, ..head }.write();
            back.extend_from_slice(&payload);
            if stream.write_all(&back).await.is_err() || head.opcode == Opcode::Close {
                return;
            }
        }
    }
}

async fn read_head(stream: &mut Stream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return String::new(),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn read_frame(stream: &mut Stream) -> Option<(FrameHead, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some((head, _)) = FrameHead::parse(&bytes).ok()? {
            break head;
        }
        bytes.push(stream.read_u8().await.ok()?);
    };
    let mut payload = vec![0; usize::try_from(head.length).ok()?];
    stream.read_exact(&mut payload).await.ok()?;
    if let Some(mask) = head.mask {
        apply_mask(&mut payload, mask, 0);
    }
    Some((head, payload))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let number =
            three.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// Three events with a pause between them.
fn events() -> Response<Fed> {
    let (feed, body) = Fed::new();
    tokio::spawn(async move {
        for number in 1..=3 {
            if feed.send(Bytes::from(format!("data: event {number}\n\n"))).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

fn said(text: String) -> Response<Fed> {
    Response::new(Fed::whole(text.into_bytes()))
}

/// A body that a task feeds.
pub struct Fed(mpsc::Receiver<Bytes>);

impl Fed {
    fn new() -> (mpsc::Sender<Bytes>, Self) {
        let (feed, receiver) = mpsc::channel(4);
        (feed, Self(receiver))
    }

    fn whole(bytes: Vec<u8>) -> Self {
        let (feed, body) = Self::new();
        feed.try_send(Bytes::from(bytes)).unwrap();
        body
    }
}

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|portion| portion.map(|portion| Ok(Frame::data(portion))))
    }
}
