//! The name server inside the sandbox. It answers from the directory and forwards nothing: a name that no rule allows
//! does not exist, and asking for it is an event.

use super::directory::{NameDirectory, NameLookup};
use crate::dns::{DnsQuestion, QuestionType, ReplyCode, read_question, write_reply};
use crate::event::{EgressEvent, OnEvent};
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Addresses do not change while the sandbox runs.
const TTL_SECONDS: u32 = 60;
const STREAM_IDLE: Duration = Duration::from_secs(10);
/// Names that are reported. A program that keeps asking for new names must not fill the record.
const MAX_REPORTED: usize = 1000;

pub(crate) struct NameServer {
    directory: Arc<NameDirectory>,
    on_event: OnEvent,
    reported: Mutex<HashSet<String>>,
}

impl NameServer {
    pub(crate) fn new(directory: Arc<NameDirectory>, on_event: OnEvent) -> Self {
        Self { directory, on_event, reported: Mutex::default() }
    }

    /// `None`: the message is not a question and gets no answer.
    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let question = read_question(message).ok()?;
        let (code, address) = match self.directory.find(&question.name) {
            NameLookup::Address(address) => (ReplyCode::Fine, Some(address)),
            NameLookup::Unknown => (ReplyCode::NoSuchName, None),
            NameLookup::PoolExhausted => (ReplyCode::Failure(2), None),
        };
        if code != ReplyCode::Fine {
            self.report(&question, code);
        }
        let address = address.filter(|_| question.kind == QuestionType::A);
        Some(write_reply(&question, code, address, TTL_SECONDS))
    }

    fn report(&self, question: &DnsQuestion, code: ReplyCode) {
        // Many programs look up their own address; that is not worth an event.
        if question.name.ends_with(".arpa") {
            return;
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() >= MAX_REPORTED || !reported.insert(question.name.clone()) {
            return;
        }
        drop(reported);
        let reason = match code {
            ReplyCode::Failure(_) => "too many names under the policy's patterns are in use",
            _ => "no rule names this host",
        };
        (self.on_event)(EgressEvent::NameRefused { name: question.name.clone(), reason: reason.to_owned() });
    }
}

pub(crate) async fn serve_udp(socket: UdpSocket, server: Arc<NameServer>) {
    let mut buffer = [0; 1500];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, peer)) => {
                if let Some(reply) = server.answer(&buffer[..length]) {
                    // It does not matter if the client has already gone.
                    drop(socket.send_to(&reply, peer).await);
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

pub(crate) async fn serve_stream(mut stream: TcpStream, server: Arc<NameServer>) {
    while let Ok(Ok(true)) = tokio::time::timeout(STREAM_IDLE, serve_one(&mut stream, &server)).await {}
}

async fn serve_one(stream: &mut TcpStream, server: &NameServer) -> io::Result<bool> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    let Some(reply) = server.answer(&message) else { return Ok(false) };
    let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&reply).await?;
    Ok(true)
}
