//! One request through the gateway: read, parsed, inspected, reserved in the budget, sent, answered. Each step may refuse,
//! and a refusal costs nothing.

use super::backoff::CircuitChange;
use super::command_output::{CommandOutputs, PlacedText};
use super::inspect::{Inspected, Verdict};
use super::ledger::Reservation;
use super::response::{GatewayResponse, fault_response};
use super::{Gateway, relay};
use crate::event::ModelEvent;
use crate::upstream::request::UpstreamRequest;
use crate::upstream::{UpstreamError, UpstreamResponse};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::{ModelRequest, ToolCall, ToolResult, Wire, codec, rewrite};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_ENCODING;
use hyper::{HeaderMap, Method};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

/// Replaces a result that occurs twice and would have to be redacted in two different ways.
const TWICE: &str = "[fullsend withheld this result: it occurs twice with different contents]";

pub(super) async fn answer(
    gateway: Arc<Gateway>,
    request: hyper::Request<Incoming>,
) -> Result<GatewayResponse, Infallible> {
    let exchange = gateway.next_exchange();
    let Some(wire) = wire_of(request.uri().path()) else {
        let message = format!("the model gateway has no {}", request.uri().path());
        return Ok(refuse(&gateway, exchange, Wire::Messages, &Fault::new(FaultKind::NotFound, message)));
    };
    if request.method() != Method::POST {
        let message = format!("{} takes POST, not {}", wire.path(), request.method());
        return Ok(refuse(&gateway, exchange, wire, &Fault::new(FaultKind::InvalidRequest, message)));
    }
    let answered = match read(&gateway, wire, request).await {
        Ok(asked) => pass(&gateway, exchange, asked).await,
        Err(fault) => Err(fault),
    };
    Ok(answered.unwrap_or_else(|fault| refuse(&gateway, exchange, wire, &fault)))
}

fn wire_of(path: &str) -> Option<Wire> {
    Wire::ALL.into_iter().find(|wire| wire.path() == path)
}

/// A request that was read whole and understood.
pub(super) struct GatewayRequest {
    pub(super) wire: Wire,
    pub(super) request: ModelRequest,
    pub(super) body: Bytes,
    pub(super) headers: HeaderMap,
    pub(super) query: Option<String>,
}

async fn read(
    gateway: &Gateway,
    wire: Wire,
    request: hyper::Request<Incoming>,
) -> Result<GatewayRequest, Fault> {
    if let Some(reason) = gateway.stop_reason() {
        return Err(Fault::new(FaultKind::Permission, format!("fullsend: this run was stopped: {reason}")));
    }
    if let Some(encoding) = request.headers().get(CONTENT_ENCODING).filter(|value| *value != "identity") {
        let message = format!("the body is compressed ({encoding:?}); send it plain");
        return Err(Fault::new(FaultKind::InvalidRequest, message));
    }
    let limits = gateway.limits;
    let (head, body) = request.into_parts();
    let collecting = Limited::new(body, limits.request_bytes).collect();
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
    let query = head.uri.query().map(str::to_owned);
    Ok(GatewayRequest { wire, request, body, headers: head.headers, query })
}

async fn pass(
    gateway: &Arc<Gateway>,
    exchange: u64,
    asked: GatewayRequest,
) -> Result<GatewayResponse, Fault> {
    wait_for_start(gateway, exchange).await?;
    let GatewayRequest { wire, request, body, headers, query } = judge_request(gateway, exchange, asked)?;
    let asking = codec::ask_for_usage(wire, &body);
    let hides_usage = asking.is_some();
    let body = asking.map_or(body, Bytes::from);
    let mut reservation = gateway
        .ledger
        .reserve(&request, body.len())
        .await
        .map_err(|refusal| Fault::new(FaultKind::InvalidRequest, refusal.to_string()))?;
    gateway.say(ModelEvent::ModelRequest {
        exchange,
        wire,
        model: request.model.clone(),
        turn: request.turns(),
        tools: request.tools.len(),
        bytes: body.len(),
    });
    let outgoing =
        UpstreamRequest { wire, request: &request, body: &body, headers: &headers, query: query.as_deref() };
    let reply = match send(gateway, outgoing, &mut reservation).await {
        Ok(reply) => reply,
        Err(fault) => {
            reservation.release();
            return Err(fault);
        }
    };
    Ok(relay::relay(
        relay::PendingAnswer { gateway: Arc::clone(gateway), exchange, wire, reservation, hides_usage },
        reply,
    )
    .await)
}

/// Notices hooks that do not run before the first request goes out.
async fn wait_for_start(gateway: &Gateway, exchange: u64) -> Result<(), Fault> {
    let Some(start) = &gateway.start else { return Ok(()) };
    start.wait().await.map_err(|error| {
        let reason = error.to_string();
        gateway.stop_by_judge(exchange, &reason);
        Fault::new(FaultKind::Permission, format!("fullsend: {reason}"))
    })
}

async fn send(
    gateway: &Gateway,
    outgoing: UpstreamRequest<'_>,
    reservation: &mut Reservation,
) -> Result<UpstreamResponse, Fault> {
    let permit = gateway.backoff.wait().await.map_err(|broken| {
        let seconds = broken.retry_after.as_secs() + 1;
        let message = format!("fullsend: the model is too busy; nothing is sent to it for {seconds} s");
        Fault::new(FaultKind::Overloaded, message)
    })?;
    reservation.mark_sent();
    let sent = tokio::time::timeout(gateway.limits.answer_idle, gateway.upstream.send(outgoing)).await;
    // An upstream that cannot be reached is not busy: it does not delay other requests.
    let (status, retry_after) = match &sent {
        Ok(Ok(reply)) => (reply.status, reply.retry_after()),
        _ => (0, None),
    };
    if let CircuitChange::Opened(rest) = permit.report(status, retry_after) {
        let retry_after_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        gateway.say(ModelEvent::UpstreamResting { retry_after_ms });
    }
    match sent {
        Ok(Err(UpstreamError::NotRecorded(reason))) => {
            // A retry would not help. The run ends here; every later request gets the same reason.
            gateway.stop(&reason);
            Err(Fault::new(FaultKind::Permission, format!("fullsend: {reason}")))
        }
        Ok(sent) => sent.map_err(|error| Fault::new(FaultKind::Upstream, error.to_string())),
        Err(_) => Err(Fault::new(FaultKind::Timeout, "the model did not answer in time")),
    }
}

/// Inspects every tool result again, whatever the runtime's own hooks did with it, and every user text: runtimes report the
/// output of background commands there.
fn judge_request(gateway: &Gateway, exchange: u64, asked: GatewayRequest) -> Result<GatewayRequest, Fault> {
    let GatewayRequest { wire, request, body, headers, query } = asked;
    let calls: HashMap<&str, &ToolCall> = request.tool_calls().map(|call| (call.id.as_str(), call)).collect();
    let mut outputs = CommandOutputs::new(gateway.chunk_format);
    let mut replaced = HashMap::new();
    let mut portions = HashSet::new();
    let mut heed = |original: &str, judged: &PlacedText<'_>, verdict: Verdict| {
        let with = match verdict {
            Verdict::Pass if judged.text == original => return Ok(()),
            Verdict::Pass => judged.text.clone().into_owned(),
            Verdict::Replace(with) => with,
            Verdict::Deny(reason) => format!("[fullsend withheld this result: {reason}]"),
            Verdict::Stop(reason) => {
                gateway.stop_by_judge(exchange, &reason);
                return Err(Fault::new(FaultKind::Permission, format!("fullsend: {reason}")));
            }
        };
        // Texts are replaced by content. If one chunk would need two different replacements, both are withheld.
        let is_portion = judged.continued().is_some() || portions.contains(original);
        let differs = replaced.get(original).is_some_and(|other: &String| *other != with);
        let with = if is_portion && differs { TWICE.to_owned() } else { with };
        if is_portion {
            portions.insert(original.to_owned());
        }
        replaced.insert(original.to_owned(), with);
        Ok(())
    };
    for result in request.tool_results() {
        let call = calls.get(result.id.as_str()).copied();
        let fresh = gateway.results.is_new(result);
        let nothing = [String::new()];
        let parts = if result.parts.is_empty() { &nothing[..] } else { &result.parts[..] };
        for text in parts {
            let placed = outputs.place(call, text);
            let subject = Inspected::ToolResult {
                call_id: &result.id,
                tool: call.map(|call| call.name.as_str()),
                text: &placed.text,
                continued: placed.continued(),
                is_error: result.is_error,
                fresh,
            };
            heed(text, &placed, (gateway.inspect)(&subject))?;
        }
    }
    for text in request.user_texts() {
        let fresh = gateway.results.is_new(&ToolResult {
            id: String::new(),
            parts: vec![text.to_owned()],
            is_error: false,
        });
        heed(text, &PlacedText::alone(text), (gateway.inspect)(&Inspected::UserText { text, fresh }))?;
    }
    if replaced.is_empty() {
        return Ok(GatewayRequest { wire, request, body, headers, query });
    }
    let body = Bytes::from(rewrite::replace_strings(&body, &replaced));
    let request = codec::read_request(wire, &body)
        .map_err(|error| Fault::new(FaultKind::InvalidRequest, error.to_string()))?;
    Ok(GatewayRequest { wire, request, body, headers, query })
}

fn refuse(gateway: &Gateway, exchange: u64, wire: Wire, fault: &Fault) -> GatewayResponse {
    let status = codec::fault_status(wire, fault);
    gateway.say(ModelEvent::ModelRefused { exchange, status, reason: fault.message.clone() });
    fault_response(wire, fault)
}
