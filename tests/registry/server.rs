//! The registries of these tests: Debian's own, and one that says whatever a test wants.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::cluster::free_port;
use crate::image_builder::sha256;
use crate::support::{has_program, wait_for};

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

/// What to answer; the body may be shorter than it says.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub said_length: Option<usize>,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// A server that answers as a function says, and keeps every request.
pub struct FakeRegistry {
    pub host: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeRegistry {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let answer = Arc::new(answer);
        let kept = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = Arc::clone(&answer);
                let kept = Arc::clone(&kept);
                let Ok(stream) = stream else { return };
                std::thread::spawn(move || drop(serve(stream, &*answer, &kept)));
            }
        });
        Self { host, asked }
    }

    /// An honest one with these documents and blobs, by their paths.
    pub fn of(parts: HashMap<String, Reply>) -> Self {
        Self::start(move |asked| parts.get(&asked.path).cloned().unwrap_or_else(|| Reply::new(404, "")))
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    answer: &dyn Fn(&Asked) -> Reply,
    kept: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    let asked = Asked { path, headers, body };
    kept.lock().unwrap().push(asked.clone());
    let reply = answer(&asked);
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
    head.push_str(&format!("content-length: {}\r\n", reply.said_length.unwrap_or(reply.body.len())));
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = stream;
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&reply.body)
}

/// The parts of an image of these blobs, which are as they are.
pub struct ImageParts {
    pub manifest: Vec<u8>,
    pub config: Vec<u8>,
    pub blobs: Vec<Vec<u8>>,
}

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";

impl ImageParts {
    pub fn new(plain: &[Vec<u8>], blobs: Vec<Vec<u8>>) -> Self {
        let digests: Vec<String> = plain.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
        let config = json!({
            "os": "linux", "architecture": crate::image_builder::architecture(),
            "config": { "Env": ["PATH=/bin", "LD_PRELOAD=/evil.so"], "User": "0:0" },
            "rootfs": { "type": "layers", "diff_ids": digests },
        });
        let config = config.to_string().into_bytes();
        let put = |bytes: &[u8], kind: &str| json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() });
        let layers: Vec<_> =
            blobs.iter().map(|blob| put(blob, "application/vnd.oci.image.layer.v1.tar+gzip")).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": put(&config, "application/vnd.oci.image.config.v1+json"), "layers": layers,
        });
        Self { manifest: manifest.to_string().into_bytes(), config, blobs }
    }

    /// What an honest registry answers for `acme/tool:1`.
    pub fn replies(&self) -> HashMap<String, Reply> {
        let manifest = || Reply::new(200, self.manifest.clone()).with("content-type", MANIFEST);
        let mut replies = HashMap::new();
        replies.insert("/v2/acme/tool/manifests/1".to_owned(), manifest());
        replies.insert(format!("/v2/acme/tool/manifests/{}", digest(&self.manifest)), manifest());
        for blob in self.blobs.iter().chain([&self.config]) {
            replies.insert(blob_path(blob), Reply::new(200, blob.clone()));
        }
        replies
    }
}

pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

pub fn blob_path(bytes: &[u8]) -> String {
    format!("/v2/acme/tool/blobs/{}", digest(bytes))
}

/// Debian's registry on a free port, until it is dropped.
pub struct RealRegistry {
    pub host: String,
    child: Child,
    _place: tempfile::TempDir,
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The one user of a registry that asks for a password, and the hash of it.
pub const USER: &str = "reader:open-sesame";
const HTPASSWD: &str = "reader:$2y$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO\n";

impl RealRegistry {
    pub fn start(asks_for_password: bool) -> Option<Self> {
        if !has_program("docker-registry", "registry") {
            return None;
        }
        let place = tempfile::Builder::new().prefix("fullsend-registry-").tempdir().unwrap();
        let host = format!("127.0.0.1:{}", free_port());
        std::fs::write(place.path().join("htpasswd"), HTPASSWD).unwrap();
        let root = place.path().display();
        let auth = format!("auth: {{htpasswd: {{realm: test, path: {root}/htpasswd}}}}\n");
        let auth = if asks_for_password { auth.as_str() } else { "" };
        let settings = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {root}/data}}}}\nhttp: {{addr: '{host}'}}\n{auth}"
        );
        let file = place.path().join("config.yml");
        std::fs::write(&file, settings).unwrap();
        let child = start(&file);
        let registry = Self { host, child, _place: place };
        wait_for(|| TcpStream::connect(&registry.host).ok());
        assert!(
            matches!(registry.send("GET", "/v2/", "", b""), (200, _)),
            "it is the registry that listens there"
        );
        Some(registry)
    }

    /// Pushes an image as `acme/tool:TAG`.
    pub fn push(&self, image: &ImageParts, tag: &str) {
        for blob in image.blobs.iter().chain([&image.config]) {
            let (status, location) = self.send("POST", "/v2/acme/tool/blobs/uploads/", "", b"");
            assert_eq!(status, 202);
            let path = location.split_once(&self.host).map_or(location.as_str(), |(_, path)| path).to_owned();
            let path = format!("{path}&digest={}", digest(blob).replace(':', "%3A"));
            assert_eq!(self.send("PUT", &path, "application/octet-stream", blob).0, 201);
        }
        self.push_document(&image.manifest, MANIFEST, tag);
    }

    pub fn push_document(&self, bytes: &[u8], kind: &str, tag: &str) {
        assert_eq!(self.send("PUT", &format!("/v2/acme/tool/manifests/{tag}"), kind, bytes).0, 201);
    }

    /// The status and the location of the answer.
    fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        use base64::Engine as _;
        let login = base64::engine::general_purpose::STANDARD.encode(USER);
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nauthorization: Basic {login}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        (status, location.unwrap_or_default().to_owned())
    }
}

fn start(settings: &Path) -> Child {
    let mut command = Command::new("docker-registry");
    command.arg("serve").arg(settings).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}
