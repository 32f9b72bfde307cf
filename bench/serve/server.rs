//! A server on the loopback address with a store of its own, and the small client that the benches use.

use std::fs;
use std::io::{BufRead, BufReader as SyncReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const TOKEN: &str = "a-token-of-the-benches";

/// The program to measure: the one of `FULLSEND_BIN`, or the one that was built with this bench.
pub fn program() -> PathBuf {
    std::env::var_os("FULLSEND_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_fullsend").into()).into()
}

pub struct Served {
    place: tempfile::TempDir,
    child: Child,
    pub host: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Served {
    pub fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let files = place.path().join("repo/.fullsend");
        for (name, text) in [
            ("harness/helper.yaml", "agent: agents/helper.md\nruntime: native\nproviders: [model]\n"),
            ("agents/helper.md", "---\nname: helper\ndescription: Helps.\n---\nHelp.\n"),
            ("providers/model.yaml", "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n"),
            ("scenarios/s.json", r#"{"turns":[[{"finish":{}}]]}"#),
        ] {
            let path = files.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (child, host) = spawn(place.path(), "127.0.0.1:0");
        Self { place, child, host }
    }

    /// Kills the server and starts it again at the same address.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, host) = spawn(self.place.path(), &self.host);
        assert_eq!(host, self.host);
        self.child = child;
    }

    /// Kilobytes.
    pub fn memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
    }

    /// The most that it ever had, in kilobytes.
    pub fn most_memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
    }

    pub fn store(&self) -> PathBuf {
        self.place.path().join(".local/state/fullsend/sessions.db")
    }

    pub fn runs(&self) -> PathBuf {
        self.place.path().join(".local/state/fullsend/runs")
    }

    /// Processor time so far, in milliseconds.
    pub fn processor_time(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        // The kernel counts a hundred in a second, whatever it runs at.
        ticks * 10.0
    }

    pub async fn create_session(&self) -> String {
        let answer = post(&self.host, "/v1/sessions", "", &json!({ "agent": "helper" })).await.unwrap();
        answer["id"].as_str().unwrap().to_owned()
    }
}

fn spawn(place: &Path, address: &str) -> (Child, String) {
    let mut command = Command::new(program());
    command.args(["serve", "--listen", address]).current_dir(place.join("repo"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", place).env("FULLSEND_SERVE_TOKEN", TOKEN);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    SyncReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let host = line.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap().0.to_owned();
    (child, host)
}

fn head(method: &str, host: &str, path: &str, more: &str) -> String {
    // Of HTTP/1.0, so that a stream comes as it is, without the sizes of its parts.
    format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n")
}

async fn ask(host: &str, request: &str) -> std::io::Result<Json> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other("no answer"))?;
    if !head.contains(" 200 ") && !head.contains(" 201 ") {
        return Err(std::io::Error::other(body.to_owned()));
    }
    serde_json::from_str(body).map_err(std::io::Error::other)
}

pub async fn get(host: &str, path: &str) -> std::io::Result<Json> {
    ask(host, &head("GET", host, path, "")).await
}

/// With a key, an input that is sent again is stored once.
pub async fn post(host: &str, path: &str, key: &str, body: &Json) -> std::io::Result<Json> {
    let body = body.to_string();
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    let length = body.len();
    let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n{key}");
    ask(host, &format!("{}{body}", head("POST", host, path, &more))).await
}

pub async fn append(host: &str, session: &str, key: &str, message: &str) -> std::io::Result<Json> {
    let body = json!({ "type": "user.message", "message": message });
    post(host, &format!("/v1/sessions/{session}/events"), key, &body).await
}

/// An open stream of a session's events.
pub struct EventStream(BufReader<TcpStream>);

impl EventStream {
    pub async fn open(host: &str, session: &str, after: u64) -> std::io::Result<Self> {
        let more = format!("Accept: text/event-stream\r\nLast-Event-ID: {after}\r\n");
        let mut stream = TcpStream::connect(host).await?;
        stream
            .write_all(head("GET", host, &format!("/v1/sessions/{session}/events"), &more).as_bytes())
            .await?;
        let mut reader = BufReader::with_capacity(4096, stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).await? == 0 {
                return Err(std::io::Error::other("closed"));
            }
        }
        Ok(Self(reader))
    }

    /// The next event: its number and its data.
    pub async fn next(&mut self) -> std::io::Result<(u64, String)> {
        let mut number = 0;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await? == 0 {
                return Err(std::io::Error::other("closed"));
            }
            if let Some(id) = line.strip_prefix("id: ") {
                number = id.trim().parse().map_err(std::io::Error::other)?;
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Ok((number, data.trim().to_owned()));
            }
        }
    }
}

pub async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
