//! One stream: its head is read and decided, and it is relayed or refused by itself.

use super::super::admission::AdmittedConnection;
use super::super::body_rules::BodyRules;
use super::super::decide::{DecidedRequest, decide};
use super::super::held_bodies::{BODY_TIME, HeldBody};
use super::super::outgoing_check::{MessageCheck, watch};
use super::super::outgoing_request::{
    MAX_SUBSTITUTED_BODY, SubstitutedHead, body_too_long_to_sign, body_too_slow, check_message,
    substitute_body, substitute_head,
};
use super::super::record::ConnectionRecord;
use super::super::refusal::Refusal;
use super::super::response_mask::ResponseMask;
use super::super::signing::MAX_HASHED_BODY;
use super::bodies::{RelayedBody, RequestRelay, ResponseRelay, Upload};
use super::connection::{Http2Connection, OpenStream};
use super::head;
use crate::http1::{Framing, HeadError, RequestHead, RequestTarget};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A body that is relayed as it comes, or one that was read and decided.
enum StreamBody {
    Incoming(Incoming),
    Decided(Bytes),
}

pub(super) async fn respond(shared: &Http2Connection, request: Request<Incoming>) -> Response<RelayedBody> {
    let mut open = OpenStream::new(&shared.streams);
    let mut record = shared.connection.new_record();
    let passed = pass(shared, request, &mut record).await;
    open.answered = true;
    match passed {
        Ok((response, mask, upload)) => {
            let idle = shared.connection.proxy.config.limits.idle;
            record.status(response.status().as_u16());
            response.map(|body| ResponseRelay::new(body, idle, mask, record, upload).boxed_unsync())
        }
        Err(refusal) => {
            record.refused(&refusal);
            refusal_response(&refusal)
        }
    }
}

async fn pass(
    shared: &Http2Connection,
    request: Request<Incoming>,
    record: &mut ConnectionRecord,
) -> Result<(Response<Incoming>, ResponseMask, Arc<Upload>), Refusal> {
    let connection = &shared.connection;
    let (parts, body) = request.into_parts();
    let received = head::read(&parts, body.is_end_stream()).map_err(Refusal::head)?;
    if !matches!(received.target, RequestTarget::Origin { .. }) {
        return Err(Refusal::head(HeadError::Target));
    }
    // The connection may have been passed on since it was admitted.
    connection.check_caller().await?;
    let decided = decide(connection, &received, record)?;
    let body = match &decided.body {
        Some(rules) => StreamBody::Decided(decided_body(connection, &received, rules, body, record).await?),
        None => StreamBody::Incoming(body),
    };
    let sender = shared.pool.sender(connection).await?;
    let substituted = substitute_head(connection, &received, &decided).await?;
    let upload = Arc::new(Upload::default());
    let outgoing = outgoing_request(shared, substituted, &received, &decided, body, &upload).await?;
    let mut response = send(sender, outgoing, &upload, connection.proxy.config.limits.idle).await?;
    let mask = ResponseMask::new(connection);
    head::mask_response(&mut response, &mask)?;
    Ok((response, mask, upload))
}

async fn outgoing_request(
    shared: &Http2Connection,
    mut substituted: SubstitutedHead,
    received: &RequestHead,
    decided: &DecidedRequest,
    body: StreamBody,
    upload: &Arc<Upload>,
) -> Result<Request<RelayedBody>, Refusal> {
    let connection = &shared.connection;
    let config = &connection.proxy.config;
    let host = connection.host_header();
    let body = match body {
        StreamBody::Incoming(body) if substituted.must_hash_body() => {
            let bytes = body_to_sign(connection, decided, body).await?;
            substituted.head.framing = Framing::Length(bytes.len() as u64);
            StreamBody::Decided(bytes)
        }
        body => body,
    };
    let body = match body {
        StreamBody::Incoming(body) => body,
        StreamBody::Decided(bytes) => {
            substituted.sign(&host, &bytes);
            return head::write(&substituted, received, &host, whole(bytes));
        }
    };
    let format = match (substituted.body_format, substituted.head.framing) {
        // As in HTTP/1.1: a body whose announced length is too large is relayed unchanged, and watched.
        (Some(_), Framing::Length(length)) if length > MAX_SUBSTITUTED_BODY => None,
        (format, _) => format,
    };
    let body = match format {
        Some(format) => {
            let mut held = connection.proxy.held_bodies.empty();
            let received = collect(body, MAX_SUBSTITUTED_BODY, config.limits.idle, &mut held).await?;
            let rewritten = substitute_body(connection, &received, format, decided).await?;
            held.grow(rewritten.len() as u64)?;
            substituted.head.framing = Framing::Length(rewritten.len() as u64);
            whole(SentBody { bytes: rewritten.to_vec(), _held: held }.into_bytes())
        }
        None => {
            let watcher = watch(config.leak_watcher.as_ref(), &connection.destination);
            let check = MessageCheck::new("body", watcher).with_form(decided.form_check.clone());
            RequestRelay::new(body, config.limits.idle, check, Arc::clone(upload)).boxed_unsync()
        }
    };
    // A body that is filled with credentials is not signed: the policy allows one or the other.
    substituted.sign(&host, b"");
    head::write(&substituted, received, &host, body)
}

/// A body with its share of the memory for held bodies.
struct SentBody {
    bytes: Vec<u8>,
    _held: HeldBody,
}

impl SentBody {
    /// The memory comes back when the last of the bytes was sent.
    fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for SentBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body that the signature covers.
async fn body_to_sign(
    connection: &AdmittedConnection,
    decided: &DecidedRequest,
    body: Incoming,
) -> Result<Bytes, Refusal> {
    let hint = body.size_hint();
    if hint.lower() > MAX_HASHED_BODY {
        return Err(body_too_long_to_sign());
    }
    let most = hint.exact().unwrap_or(MAX_HASHED_BODY);
    let mut held = connection.proxy.held_bodies.empty();
    let collecting = collect(body, most, connection.proxy.config.limits.idle, &mut held);
    let bytes = tokio::time::timeout(BODY_TIME, collecting).await.map_err(|_| body_too_slow())??;
    check_message(connection, &bytes, decided.form_check.clone())?;
    Ok(SentBody { bytes, _held: held }.into_bytes())
}

/// Reads a body that rules apply to, and decides it.
async fn decided_body(
    connection: &AdmittedConnection,
    head: &RequestHead,
    rules: &BodyRules,
    body: Incoming,
    record: &mut ConnectionRecord,
) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > rules.most {
        return Err(rules.too_large(connection, head));
    }
    let mut held = connection.proxy.held_bodies.empty();
    let bytes = collect(body, rules.most, connection.proxy.config.limits.idle, &mut held).await?;
    rules.decide(connection, head, &bytes, record)?;
    Ok(SentBody { bytes, _held: held }.into_bytes())
}

/// Reads a whole body. `held` grows with it.
async fn collect(
    mut body: Incoming,
    most: u64,
    idle: Duration,
    held: &mut HeldBody,
) -> Result<Vec<u8>, Refusal> {
    let unreadable = |reason: &str| Refusal::unreadable(format!("the request's body: {reason}"));
    let collecting = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unreadable(&error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() as u64 + data.len() as u64 > most {
                return Err(unreadable("length limit exceeded"));
            }
            held.grow(data.len() as u64)?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(idle, collecting).await.map_err(|_| unreadable("it did not arrive in time"))?
}

/// Waits as long as the request's body moves.
async fn send(
    mut sender: SendRequest<RelayedBody>,
    request: Request<RelayedBody>,
    upload: &Upload,
    idle: Duration,
) -> Result<Response<Incoming>, Refusal> {
    let sending = sender.send_request(request);
    tokio::pin!(sending);
    let mut sent_before = 0;
    loop {
        match tokio::time::timeout(idle, &mut sending).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => {
                return Err(upload.leak().unwrap_or_else(|| Refusal::upstream(error.to_string())));
            }
            Err(_) => {
                let sent = upload.bytes.load(Ordering::Relaxed);
                if sent == sent_before {
                    return Err(Refusal::upstream("the server did not respond in time".to_owned()));
                }
                sent_before = sent;
            }
        }
    }
}

fn whole(bytes: Bytes) -> RelayedBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn refusal_response(refusal: &Refusal) -> Response<RelayedBody> {
    Response::builder()
        .status(refusal.sent_status())
        .header("content-type", "application/json")
        .header("x-fullsend-refusal", refusal.code.as_str())
        .body(whole(Bytes::from(refusal.json())))
        .unwrap_or_else(|_| Response::new(whole(Bytes::new())))
}
