//! One request through the door: read, understood, judged, paid for, answered. The steps are in that order because each
//! may refuse, and a refusal must cost nothing.

use super::body::AnswerBody;
use super::judge::{Subject, Verdict};
use super::{Door, relay};
use crate::event::EgressEvent;
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::{Request, Wire, codec, rewrite};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

pub(super) type Answered = Response<AnswerBody>;

pub(super) async fn answer(
    door: Arc<Door>,
    request: hyper::Request<Incoming>,
) -> Result<Answered, Infallible> {
    let exchange = door.next_exchange();
    let Some(wire) = wire_of(request.uri().path()) else {
        let message = format!("the model's door has no {}", request.uri().path());
        return Ok(refuse(&door, exchange, Wire::Messages, &Fault::new(FaultKind::NotFound, message)));
    };
    if request.method() != Method::POST {
        let message = format!("{} takes POST, not {}", wire.path(), request.method());
        return Ok(refuse(&door, exchange, wire, &Fault::new(FaultKind::InvalidRequest, message)));
    }
    let answered = match read(&door, wire, request).await {
        Ok(asked) => pass(&door, exchange, asked).await,
        Err(fault) => Err(fault),
    };
    Ok(answered.unwrap_or_else(|fault| refuse(&door, exchange, wire, &fault)))
}

fn wire_of(path: &str) -> Option<Wire> {
    [Wire::Messages].into_iter().find(|wire| wire.path() == path)
}

/// A request that was read whole and understood.
pub(super) struct Asked {
    pub(super) wire: Wire,
    pub(super) request: Request,
    pub(super) body: Bytes,
}

async fn read(door: &Door, wire: Wire, request: hyper::Request<Incoming>) -> Result<Asked, Fault> {
    if let Some(reason) = door.stop_reason() {
        return Err(Fault::new(FaultKind::Permission, format!("fullsend: this run was stopped: {reason}")));
    }
    if let Some(encoding) = request.headers().get(CONTENT_ENCODING).filter(|value| *value != "identity") {
        let message = format!("the body is compressed ({encoding:?}); send it plain");
        return Err(Fault::new(FaultKind::InvalidRequest, message));
    }
    let limits = door.limits;
    let collecting = Limited::new(request.into_body(), limits.request_bytes).collect();
    let body = match tokio::time::timeout(limits.request_time, collecting).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {} bytes", limits.request_bytes);
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        Ok(Err(error)) => {
            return Err(Fault::new(FaultKind::InvalidRequest, format!("the body broke off: {error}")));
        }
        Err(_) => return Err(Fault::new(FaultKind::Timeout, "the body did not arrive in time")),
    };
    let request = codec::read_request(wire, &body)
        .map_err(|error| Fault::new(FaultKind::InvalidRequest, error.to_string()))?;
    Ok(Asked { wire, request, body })
}

async fn pass(door: &Arc<Door>, exchange: u64, asked: Asked) -> Result<Answered, Fault> {
    let Asked { wire, request, body } = judge_results(door, exchange, asked)?;
    let reservation = door
        .ledger
        .reserve(&request, body.len())
        .await
        .map_err(|refusal| Fault::new(FaultKind::InvalidRequest, refusal.to_string()))?;
    door.say(EgressEvent::ModelRequest {
        exchange,
        wire: wire.name(),
        model: request.model.clone(),
        turn: request.turns(),
        tools: request.tools.len(),
        bytes: body.len(),
    });
    let sending = door.upstream.send(wire, &request, &body);
    let reply = match tokio::time::timeout(door.limits.answer_idle, sending).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => {
            reservation.release();
            return Err(Fault::new(FaultKind::Upstream, error.to_string()));
        }
        Err(_) => {
            reservation.release();
            return Err(Fault::new(FaultKind::Timeout, "the model did not answer in time"));
        }
    };
    Ok(relay::relay(relay::Underway { door: Arc::clone(door), exchange, wire, reservation }, reply).await)
}

/// Every tool result, once more, whatever the runtime's own hooks did with it.
fn judge_results(door: &Door, exchange: u64, asked: Asked) -> Result<Asked, Fault> {
    let Asked { wire, request, body } = asked;
    let tools: HashMap<&str, &str> =
        request.tool_calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
    let mut replaced = HashMap::new();
    for result in request.tool_results() {
        for text in &result.parts {
            let tool = tools.get(result.id.as_str()).copied();
            match (door.judge)(&Subject::ToolResult { call_id: &result.id, tool, text }) {
                Verdict::Pass => {}
                Verdict::Replace(with) => drop(replaced.insert(text.clone(), with)),
                Verdict::Deny(reason) => {
                    drop(replaced.insert(text.clone(), format!("[fullsend withheld this result: {reason}]")));
                }
                Verdict::Stop(reason) => {
                    door.stop_by_judge(exchange, &reason);
                    return Err(Fault::new(FaultKind::Permission, format!("fullsend: {reason}")));
                }
            }
        }
    }
    if replaced.is_empty() {
        return Ok(Asked { wire, request, body });
    }
    let body = Bytes::from(rewrite::replace_strings(&body, &replaced));
    let request = codec::read_request(wire, &body)
        .map_err(|error| Fault::new(FaultKind::InvalidRequest, error.to_string()))?;
    Ok(Asked { wire, request, body })
}

fn refuse(door: &Door, exchange: u64, wire: Wire, fault: &Fault) -> Answered {
    let status = fault.kind.status();
    door.say(EgressEvent::ModelRefused { exchange, status, reason: fault.message.clone() });
    whole(status, "application/json", codec::write_fault(wire, fault).to_string())
}

pub(super) fn whole(status: u16, content_type: &str, body: impl Into<Bytes>) -> Answered {
    response(status, content_type, AnswerBody::whole(body))
}

pub(super) fn response(status: u16, content_type: &str, body: AnswerBody) -> Answered {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let content_type = HeaderValue::from_str(content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
