//! `fullsend serve`, asked over plain TCP: what is answered, what is refused, and what is streamed.

mod browser;
mod outgoing;
mod outside;
mod refused;
mod runs;
mod sessions;
mod started;
mod webhooks;
mod workers;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use serde_json::Value as Json;

use crate::support::World;

const TOKEN: &str = "a-token-of-the-tests";

/// A server on a free port. It ends with this value.
struct Served {
    child: Child,
    host: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn is_problem(&self, status: u16, name: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.json()["type"], format!("urn:fullsend:problem:{name}"), "{}", self.body);
        assert_eq!(self.json()["status"], status);
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
    }
}

fn with_token(world: World) -> World {
    world.env("FULLSEND_SERVE_TOKEN", TOKEN)
}

impl Served {
    fn start(world: &World) -> Self {
        Self::start_with(world, &[])
    }

    fn start_with(world: &World, more: &[&str]) -> Self {
        let mut child = world.spawn_piped(&[&["serve", "--listen", "127.0.0.1:0"], more].concat());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let host = line.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap().0.to_owned();
        assert_eq!(line, format!("http://{host}/#token={TOKEN}\n"));
        Self { child, host }
    }

    /// Sends a request and leaves the answer to the caller.
    fn open(&self, first: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        write!(stream, "{first} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n{body}").unwrap();
        stream
    }

    /// Sends these lines after the first, and reads until the server closes.
    fn ask(&self, first: &str, headers: &[&str]) -> Reply {
        self.ask_with(first, headers, "")
    }

    fn ask_with(&self, first: &str, headers: &[&str], body: &str) -> Reply {
        let mut text = Vec::new();
        self.open(first, headers, body).read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_lowercase();
        let body =
            if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        Reply { status, head, body }
    }

    fn post(&self, path: &str, body: &Json) -> Reply {
        self.post_as(TOKEN, path, body, &[])
    }

    fn post_as(&self, token: &str, path: &str, body: &Json, more: &[&str]) -> Reply {
        let body = body.to_string();
        let own = [
            self.own_host(),
            format!("Authorization: Bearer {token}"),
            format!("Content-Length: {}", body.len()),
            "Content-Type: application/json".to_owned(),
        ];
        let headers: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.ask_with(&format!("POST {path}"), &headers, &body)
    }

    fn own_host(&self) -> String {
        format!("Host: {}", self.host)
    }

    fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[])
    }

    fn get_with(&self, path: &str, more: &[&str]) -> Reply {
        let host = self.own_host();
        let bearer = bearer();
        let headers: Vec<&str> = [host.as_str(), &bearer].into_iter().chain(more.iter().copied()).collect();
        self.ask(&format!("GET {path}"), &headers)
    }
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

/// The content of a chunked body. No chunk here ends within a character.
fn unchunked(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&tail[..size]);
        rest = &tail[size + 2..];
    }
    whole
}
