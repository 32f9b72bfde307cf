//! One request and its answer between two HTTP/1.1 connections. Body and answer flow at the same time, because servers
//! may answer before they have read everything.

use super::attempt::Attempt;
use super::lookout::Look;
use super::outgoing::{Outgoing, OutgoingBody};
use super::refusal::Refusal;
use super::upstream::{BoxStream, Upstream};
use super::watch::Watch;
use crate::http1::{BodyError, Framing, HeadReader, RequestHead, ResponseHead, relay_message};
use crate::websocket::agreed;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

/// Interim answers to one request; more is a server that never comes to its point.
const MAX_INTERIM: usize = 16;

/// The sandbox's side of a connection.
pub(super) struct Client {
    pub(super) reader: HeadReader<ReadHalf<BoxStream>>,
    pub(super) writer: WriteHalf<BoxStream>,
}

pub(super) enum After {
    /// Both connections may carry another request.
    KeepAlive,
    Close,
    /// Both sides speak another protocol from here on.
    Upgraded,
}

/// Why an exchange ended early.
pub(super) struct Broken {
    pub(super) refusal: Refusal,
    /// The client has seen the beginning of an answer.
    pub(super) answered: bool,
}

impl Client {
    pub(super) fn new(stream: BoxStream, prefix: &[u8]) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader: HeadReader::with_prefix(reader, prefix), writer }
    }

    /// A client that has gone hears nothing.
    pub(super) async fn say(&mut self, bytes: &[u8]) {
        if self.writer.write_all(bytes).await.is_ok() {
            drop(self.writer.flush().await);
        }
    }

    pub(super) fn into_stream(self) -> (BoxStream, bytes::BytesMut) {
        let (reader, prefix) = self.reader.into_parts();
        (reader.unsplit(self.writer), prefix)
    }
}

/// A request that was decided, with the head as it goes out.
pub(super) struct Passed<'a> {
    pub(super) head: &'a RequestHead,
    pub(super) outgoing: &'a Outgoing,
    pub(super) idle: Duration,
}

pub(super) async fn exchange(
    client: &mut Client,
    upstream: &mut Upstream,
    passed: &Passed<'_>,
    look: Look,
    attempt: &mut Attempt,
) -> Result<After, Broken> {
    let head = passed.head;
    let mut answered = false;
    let mut leak = None;
    let uploaded = AtomicU64::new(0);
    let (sent, received) = {
        let upload = send(&mut client.reader, &mut upstream.writer, passed, look, &uploaded);
        let download = answer(&mut upstream.reader, &mut client.writer, passed, &uploaded, &mut answered);
        tokio::pin!(upload, download);
        tokio::select! {
            sent = &mut upload => match sent {
                Ok(sent) => (Some(sent), download.await),
                // The server may have stopped reading because it has answered already.
                Err(Unsent { error: BodyError::Write(_), .. }) => (None, download.await),
                Err(Unsent { error, leak: seen }) => {
                    leak = seen;
                    (None, Err(format!("the request's body: {error}")))
                }
            },
            received = &mut download => (None, received),
        }
    };
    let received = received
        .map_err(|reason| Broken { refusal: leak.unwrap_or_else(|| Refusal::upstream(reason)), answered })?;
    attempt.status(received.status);
    attempt.moved(sent.unwrap_or(0), received.bytes);
    if received.status == 101 {
        return Ok(After::Upgraded);
    }
    let whole = sent.is_some() || head.framing == Framing::None;
    Ok(if whole && received.keeps_alive && !head.wants_close() { After::KeepAlive } else { After::Close })
}

/// A request that did not leave whole, and what was seen in it if that is why.
struct Unsent {
    error: BodyError,
    leak: Option<Refusal>,
}

impl From<BodyError> for Unsent {
    fn from(error: BodyError) -> Self {
        Self { error, leak: None }
    }
}

/// Head and body; gives the bytes of both.
async fn send(
    from: &mut HeadReader<ReadHalf<BoxStream>>,
    to: &mut WriteHalf<BoxStream>,
    passed: &Passed<'_>,
    look: Look,
    uploaded: &AtomicU64,
) -> Result<u64, Unsent> {
    let Passed { head: request, outgoing, idle } = *passed;
    let length = outgoing.head.len() as u64;
    match &outgoing.body {
        OutgoingBody::Filled(body) => {
            to.write_all(&outgoing.head).await.map_err(BodyError::Write)?;
            to.write_all(body).await.map_err(BodyError::Write)?;
            to.flush().await.map_err(BodyError::Write)?;
            Ok(length + body.len() as u64)
        }
        OutgoingBody::Relayed => {
            let mut watch = Watch::new("body", look);
            let mut leak = None;
            let mut sees = |portion: &[u8]| {
                uploaded.fetch_add(portion.len() as u64, Ordering::Relaxed);
                leak = watch.sees(portion);
                leak.is_some()
            };
            let relayed = relay_message(&outgoing.head, from, to, request.framing, idle, &mut sees).await;
            Ok(length + relayed.map_err(|error| Unsent { error, leak })?)
        }
    }
}

/// Waits for the server's answer for as long as the request's body moves.
async fn first_byte(
    from: &mut HeadReader<ReadHalf<BoxStream>>,
    idle: Duration,
    uploaded: &AtomicU64,
) -> Result<(), String> {
    loop {
        let before = uploaded.load(Ordering::Relaxed);
        match tokio::time::timeout(idle, from.peek_any()).await {
            Ok(Ok(Some(_))) => return Ok(()),
            Ok(Ok(None)) => return Err("the server closed the connection without an answer".to_owned()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) if uploaded.load(Ordering::Relaxed) != before => {}
            Err(_) => return Err("the server did not answer in time".to_owned()),
        }
    }
}

struct Received {
    status: u16,
    bytes: u64,
    keeps_alive: bool,
}

async fn answer(
    from: &mut HeadReader<ReadHalf<BoxStream>>,
    to: &mut WriteHalf<BoxStream>,
    passed: &Passed<'_>,
    uploaded: &AtomicU64,
    answered: &mut bool,
) -> Result<Received, String> {
    let Passed { head: request, outgoing: _, idle } = *passed;
    for _ in 0..MAX_INTERIM {
        first_byte(from, idle, uploaded).await?;
        let bytes = from.read_head(idle, idle).await.map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or("the server closed the connection without an answer")?;
        let head = ResponseHead::parse(&bytes).map_err(|error| error.reason().to_owned())?;
        let framing = head.framing(&request.method).map_err(|error| error.reason().to_owned())?;
        if head.status == 101 && !request.is_websocket() {
            return Err("the server switched protocols unasked".to_owned());
        }
        if head.status == 101 && !agreed(request, &head) {
            return Err("the server switched protocols without agreeing to this websocket".to_owned());
        }
        let keeps_alive = !head.wants_close() && framing != Framing::UntilClose && !request.wants_close();
        let written = head.write_downstream(framing, keeps_alive);
        *answered = head.status >= 200 || head.status == 101;
        let relayed = relay_message(&written, from, to, framing, idle, &mut |_| false).await;
        let length = relayed.map_err(|error| error.to_string())?;
        if *answered {
            return Ok(Received { status: head.status, bytes: bytes.len() as u64 + length, keeps_alive });
        }
    }
    Err("the server sent interim answers without end".to_owned())
}
