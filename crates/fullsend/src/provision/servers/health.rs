//! Checks that a server is ready and that it requires its token. Without a token, every program of this host could use the
//! server, so such a server is refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use egress::credentials::Secret;
use egress::dial::HostService;

use crate::harness::ApiServer;

/// For one question.
const ANSWER_TIME: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(20);

const MAX_LINE: u64 = 4096;

pub(super) fn wait(
    server: &ApiServer,
    service: &HostService,
    token: &Secret,
    deadline: Instant,
) -> Result<(), String> {
    loop {
        if service.ended.get().is_some() {
            return Err(ended(service));
        }
        match ready(server, service, token) {
            Ok(()) => return asks_for_its_token(service),
            Err(why) if Instant::now() >= deadline => return Err(format!("is not ready in time: {why}")),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn ended(service: &HostService) -> String {
    let message = service.ended.get().map_or("", String::as_str);
    // The error already starts with the server's name.
    message.split_once("` ").map_or(message, |(_, rest)| rest).to_owned()
}

fn ready(server: &ApiServer, service: &HostService, token: &Secret) -> Result<(), String> {
    let Some(path) = &server.health else {
        return connect(service).map(drop).map_err(|error| format!("it accepts no connection ({error})"));
    };
    match ask(service, path.as_str(), token.reveal()) {
        Ok(200..=299) => Ok(()),
        Ok(status) => Err(format!("{} answers {status}", path.value)),
        Err(error) => Err(format!("{} is not answered ({error})", path.value)),
    }
}

/// Asks with a wrong token, on a random path: only a server that checks the token first refuses it.
fn asks_for_its_token(service: &HostService) -> Result<(), String> {
    let path = format!("/fullsend-asks-{}", uuid::Uuid::new_v4().simple());
    match ask(service, &path, "a-wrong-token") {
        Ok(401 | 403) => Ok(()),
        Ok(status) => Err(format!(
            "answers a wrong token with {status}: it must answer 401 or 403 unless the request has \
             `Authorization: Bearer` and the value of {}, or every program on this host could use it",
            super::TOKEN
        )),
        Err(error) => Err(format!("does not answer a wrong token ({error}): it must answer 401 or 403")),
    }
}

fn connect(service: &HostService) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&service.address, ANSWER_TIME)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    Ok(stream)
}

/// The status of the answer; its body is not read.
fn ask(service: &HostService, path: &str, token: &str) -> std::io::Result<u16> {
    let mut stream = connect(service)?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}:{}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n",
        service.host, service.port
    );
    stream.write_all(head.as_bytes())?;
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let status =
        line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    status.ok_or_else(|| std::io::Error::other("the answer is not HTTP"))
}
