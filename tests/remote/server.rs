//! An https server with a certificate of its own authority: files that a test may change, redirects, and git repositories.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::image_builder::sha256;
use crate::support::{Ran, World, program};

/// What a path answers.
#[derive(Clone)]
pub enum Page {
    Bytes(Vec<u8>),
    Redirect(String),
}

/// The server. It ends with the test.
pub struct Site {
    pub host: String,
    pub certificate: String,
    pages: Arc<Mutex<HashMap<String, Page>>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// The last `Authorization` header.
    authorization: Arc<Mutex<Option<String>>>,
    is_open: Arc<Mutex<bool>>,
}

impl Site {
    pub fn start(repositories: &Path) -> Self {
        let (certificate, config) = identity();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = format!("localhost:{}", listener.local_addr().unwrap().port());
        let site = Self {
            host,
            certificate,
            pages: Arc::default(),
            asked: Arc::default(),
            authorization: Arc::default(),
            is_open: Arc::new(Mutex::new(true)),
        };
        let pages = Arc::clone(&site.pages);
        let asked = Arc::clone(&site.asked);
        let authorization = Arc::clone(&site.authorization);
        let is_open = Arc::clone(&site.is_open);
        let repositories = repositories.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if !*is_open.lock().unwrap() {
                    return;
                }
                let Ok(stream) = stream else { return };
                let served = Served {
                    pages: Arc::clone(&pages),
                    asked: Arc::clone(&asked),
                    authorization: Arc::clone(&authorization),
                    repositories: repositories.clone(),
                };
                let config = Arc::clone(&config);
                std::thread::spawn(move || drop(served.answer(stream, config)));
            }
        });
        site
    }

    /// A world whose programs trust this server, whose organisation lists it and allows everything on it.
    pub fn allow(&self, world: World) -> World {
        world.write("ca.pem", &self.certificate);
        world.write(
            "org/config.yaml",
            format!("internal_hosts: ['{}']\nallowed_remote_resources: ['{}']\n", self.host, self.url("")),
        );
        let roots = world.path("ca.pem");
        world.env("SSL_CERT_FILE", roots.to_str().unwrap()).env("FULLSEND_ORG_DIR", "../org")
    }

    /// Runs the program in a world that belongs to somebody else, as `allow` sets it up.
    pub fn trusted_by(&self, world: &World, arguments: &[&str]) -> Ran {
        world.write("ca.pem", &self.certificate);
        world.write("org/config.yaml", format!("internal_hosts: ['{}']\n", self.host));
        let roots = format!("SSL_CERT_FILE={}", world.path("ca.pem").display());
        let mut words = vec![roots, "FULLSEND_ORG_DIR=../org".to_owned()];
        words.push(program().to_string_lossy().into_owned());
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        let words: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
        world.run_program(Path::new("/usr/bin/env"), &words)
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.host)
    }

    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        self.pages.lock().unwrap().insert(format!("/{path}"), Page::Bytes(bytes.as_ref().to_vec()));
    }

    /// Puts a file there, and says how a harness names it.
    pub fn pinned(&self, path: &str, bytes: impl AsRef<[u8]>) -> String {
        self.put(path, &bytes);
        format!("{}#sha256={}", self.url(path), sha256(bytes.as_ref()))
    }

    pub fn redirect(&self, path: &str, to: &str) {
        self.pages.lock().unwrap().insert(format!("/{path}"), Page::Redirect(to.to_owned()));
    }

    /// The paths that were asked for since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// The `Authorization` header of the last request.
    pub fn authorization(&self) -> Option<String> {
        self.authorization.lock().unwrap().clone()
    }

    pub fn close(&self) {
        *self.is_open.lock().unwrap() = false;
        drop(TcpStream::connect(self.host.replace("localhost", "127.0.0.1")));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.close();
    }
}

fn identity() -> (String, Arc<ServerConfig>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "site authority");
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let leaf = CertificateParams::new(names).unwrap().signed_by(&leaf_key, &issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (authority.pem(), Arc::new(config))
}

/// What one connection needs.
struct Served {
    pages: Arc<Mutex<HashMap<String, Page>>>,
    asked: Arc<Mutex<Vec<String>>>,
    authorization: Arc<Mutex<Option<String>>>,
    repositories: PathBuf,
}

impl Served {
    fn answer(&self, stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
        let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
        let mut reader = BufReader::new(StreamOwned::new(connection, stream));
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = Vec::new();
        (&mut reader).take(length).read_to_end(&mut body)?;
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(path.clone());
        *self.authorization.lock().unwrap() = headers.get("authorization").cloned();
        let method = line.split(' ').next().unwrap_or_default();
        let page = self.pages.lock().unwrap().get(&path).cloned();
        let (head, body) = match page {
            Some(Page::Bytes(bytes)) => ("200 OK".to_owned(), bytes),
            Some(Page::Redirect(to)) => (format!("302 Found\r\nlocation: {to}"), Vec::new()),
            None if path.starts_with("/git/") => self.git(method, &path["/git".len()..], &headers, &body),
            None => ("404 Not Found".to_owned(), Vec::new()),
        };
        let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut stream = reader.into_inner();
        stream.write_all(head.as_bytes())?;
        stream.write_all(&body)?;
        stream.conn.send_close_notify();
        stream.flush()
    }

    /// git's own server, by the rules of CGI.
    fn git(
        &self,
        method: &str,
        path: &str,
        headers: &HashMap<String, String>,
        body: &[u8],
    ) -> (String, Vec<u8>) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
        let mut child = Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.repositories)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .env("GIT_PROTOCOL", header("git-protocol"))
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("REQUEST_METHOD", method)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdin.take().unwrap().write_all(body));
        let output = child.wait_with_output().unwrap().stdout;
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&output[..end]).into_owned();
        let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
        let kind = head.lines().find(|line| line.starts_with("Content-Type: ")).unwrap_or_default();
        (format!("{status}\r\n{kind}"), output[end + 4..].to_vec())
    }
}
