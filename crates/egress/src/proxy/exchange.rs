//! One request and its response between two HTTP/1.1 connections. Request body and response flow at the same time,
//! because servers may respond before they have read everything.

use super::client::ClientConnection;
use super::outgoing_check::MessageCheck;
use super::outgoing_request::{OutgoingBody, OutgoingRequest};
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::response_mask::ResponseMask;
use super::stream::BoxStream;
use super::upstream::Upstream;
use crate::http1::{BodyError, Framing, HeadReader, RequestHead, ResponseHead, relay_message};
use crate::websocket::is_accepted;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

/// Interim responses to one request; more is a server that never finishes.
const MAX_INTERIM: usize = 16;

pub(super) enum AfterExchange {
    /// Both connections may carry another request.
    KeepAlive,
    Close,
    /// Both sides speak the websocket protocol now.
    Upgraded,
    /// It broke after the client had received the start of a response.
    Broken(String),
}

/// A request that may pass, as it came and as it is sent.
pub(super) struct SentRequest<'a> {
    pub(super) head: &'a RequestHead,
    pub(super) outgoing: &'a OutgoingRequest,
    pub(super) idle: Duration,
}

pub(super) async fn exchange(
    client: &mut ClientConnection,
    upstream: &mut Upstream,
    request: &SentRequest<'_>,
    check: MessageCheck,
    mask: ResponseMask,
    record: &mut ConnectionRecord,
) -> Result<AfterExchange, Refusal> {
    let mut response_started = false;
    let mut leak = None;
    let uploaded = AtomicU64::new(0);
    let (sent, received) = {
        let upload = send(&mut client.reader, &mut upstream.writer, request, check, &uploaded);
        let download = receive(
            &mut upstream.reader,
            &mut client.writer,
            request,
            mask,
            &uploaded,
            &mut response_started,
        );
        tokio::pin!(upload, download);
        tokio::select! {
            sent = &mut upload => match sent {
                Ok(sent) => (Some(sent), download.await),
                // The server may have stopped reading because it has responded already.
                Err(SendError { error: BodyError::Write(_), .. }) => (None, download.await),
                Err(SendError { error, leak: found }) => {
                    leak = found;
                    (None, Err(format!("the request's body: {error}")))
                }
            },
            received = &mut download => (None, received),
        }
    };
    let received = match received {
        Ok(received) => received,
        Err(reason) => {
            let refusal = leak.unwrap_or_else(|| Refusal::upstream(reason));
            // A refusal cannot follow the start of another response.
            return if response_started { Ok(AfterExchange::Broken(refusal.detail)) } else { Err(refusal) };
        }
    };
    record.status(received.status);
    record.add_bytes(sent.unwrap_or(0), received.bytes);
    if received.status == 101 {
        return Ok(AfterExchange::Upgraded);
    }
    let complete = sent.is_some() || request.head.framing == Framing::None;
    let keeps_alive = complete && received.keeps_alive && !request.head.wants_close();
    Ok(if keeps_alive { AfterExchange::KeepAlive } else { AfterExchange::Close })
}

/// A request that was not sent completely, and the leak if that is why.
struct SendError {
    error: BodyError,
    leak: Option<Refusal>,
}

impl From<BodyError> for SendError {
    fn from(error: BodyError) -> Self {
        Self { error, leak: None }
    }
}

/// Sends head and body; returns the number of bytes.
async fn send(
    from: &mut HeadReader<ReadHalf<BoxStream>>,
    to: &mut WriteHalf<BoxStream>,
    request: &SentRequest<'_>,
    check: MessageCheck,
    uploaded: &AtomicU64,
) -> Result<u64, SendError> {
    let SentRequest { head, outgoing, idle } = *request;
    let head_bytes = outgoing.head.len() as u64;
    match &outgoing.body {
        OutgoingBody::Substituted(body) => {
            to.write_all(&outgoing.head).await.map_err(BodyError::Write)?;
            to.write_all(body).await.map_err(BodyError::Write)?;
            to.flush().await.map_err(BodyError::Write)?;
            Ok(head_bytes + body.len() as u64)
        }
        OutgoingBody::Relayed => {
            let mut check = check;
            let mut leak = None;
            let mut refuses = |portion: &[u8]| {
                uploaded.fetch_add(portion.len() as u64, Ordering::Relaxed);
                leak = check.refusal(portion);
                leak.is_some()
            };
            let relayed = relay_message(&outgoing.head, from, to, head.framing, idle, &mut refuses).await;
            Ok(head_bytes + relayed.map_err(|error| SendError { error, leak })?)
        }
    }
}

/// Waits for the server's response for as long as the request's body moves.
async fn wait_for_response(
    from: &mut HeadReader<ReadHalf<BoxStream>>,
    idle: Duration,
    uploaded: &AtomicU64,
) -> Result<(), String> {
    loop {
        let before = uploaded.load(Ordering::Relaxed);
        match tokio::time::timeout(idle, from.peek_any()).await {
            Ok(Ok(Some(_))) => return Ok(()),
            Ok(Ok(None)) => return Err("the server closed the connection without a response".to_owned()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) if uploaded.load(Ordering::Relaxed) != before => {}
            Err(_) => return Err("the server did not respond in time".to_owned()),
        }
    }
}

struct ReceivedResponse {
    status: u16,
    bytes: u64,
    keeps_alive: bool,
}

async fn receive(
    from: &mut HeadReader<ReadHalf<BoxStream>>,
    to: &mut WriteHalf<BoxStream>,
    request: &SentRequest<'_>,
    mut mask: ResponseMask,
    uploaded: &AtomicU64,
    response_started: &mut bool,
) -> Result<ReceivedResponse, String> {
    let SentRequest { head: request, outgoing: _, idle } = *request;
    for _ in 0..MAX_INTERIM {
        wait_for_response(from, idle, uploaded).await?;
        let read = from.read_head(idle, idle).await.map_err(|error| error.to_string())?;
        let bytes = read.ok_or("the server closed the connection without a response")?;
        let mut head = ResponseHead::parse(&bytes).map_err(|error| error.reason().to_owned())?;
        let framing = head.framing(&request.method).map_err(|error| error.reason().to_owned())?;
        if head.status == 101 && !request.is_websocket() {
            return Err("the server sent an unexpected 101 Switching Protocols".to_owned());
        }
        if head.status == 101 && !is_accepted(request, &head) {
            return Err("the server switched protocols without agreeing to this websocket".to_owned());
        }
        if framing != Framing::None {
            mask.check_encoding(&head.fields)?;
        }
        mask.mask_fields(&mut head.fields);
        mask.mask_whole(&mut head.reason);
        let keeps_alive = !head.wants_close() && framing != Framing::UntilClose && !request.wants_close();
        let written = head.write_downstream(framing, keeps_alive);
        *response_started = head.status >= 200 || head.status == 101;
        let relayed = relay_message(&written, from, to, framing, idle, &mut mask).await;
        let length = relayed.map_err(|error| error.to_string())?;
        if *response_started {
            return Ok(ReceivedResponse {
                status: head.status,
                bytes: bytes.len() as u64 + length,
                keeps_alive,
            });
        }
    }
    Err("the server sent too many interim responses".to_owned())
}
