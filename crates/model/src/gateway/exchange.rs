//! One request through the gateway: read, parsed, inspected, reserved in the budget, sent, answered. Each step may refuse.
//! A request that is refused before it is sent costs nothing; one that was sent and not answered costs its reservation.

use super::client::GatewayClient;
use super::hosted::Address;
use super::inspect_request::{inspect_count, inspect_request};
use super::known_input::InputParts;
use super::ledger::Reservation;
use super::memory::{MAX_VALUES, MemoryShare};
use super::response::GatewayResponse;
use super::retry::{SendAttempts, SendError};
use super::{Gateway, count_tokens, relay};
use crate::allowlist::{check_headers, check_json, check_query};
use crate::event::ModelEvent;
use crate::upstream::request::{Operation, UpstreamRequest};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::{ModelRequest, Wire, codec, rewrite};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderValue};
use hyper::{HeaderMap, Method};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn answer(
    gateway: Arc<Gateway>,
    client: GatewayClient,
    request: hyper::Request<Incoming>,
) -> Result<GatewayResponse, Infallible> {
    let exchange = gateway.next_exchange();
    let Some(address) = Address::of(request.uri().path()) else {
        let message = format!("the model gateway has no {}", request.uri().path());
        let fault = Fault::new(FaultKind::NotFound, message);
        return Ok(respond_with(&gateway, exchange, &Address::of_vendor(Wire::Messages), &fault));
    };
    if request.method() != Method::POST {
        let message = format!("{} takes POST, not {}", request.uri().path(), request.method());
        let fault = Fault::new(FaultKind::InvalidRequest, message);
        return Ok(respond_with(&gateway, exchange, &address, &fault));
    }
    let answered = match read(&gateway, &address, client, request).await {
        Ok(parsed) => match address.operation {
            Operation::Answer => forward(&gateway, exchange, parsed).await,
            Operation::CountTokens => count(&gateway, exchange, &address, parsed).await,
        },
        Err(fault) => Err(fault),
    };
    Ok(match answered {
        Ok(response) => address.frame(response),
        Err(fault) => respond_with(&gateway, exchange, &address, &fault),
    })
}

/// A request that was read whole and understood.
pub(super) struct GatewayRequest {
    pub(super) wire: Wire,
    pub(super) request: ModelRequest,
    pub(super) body: Bytes,
    pub(super) parts: InputParts,
    pub(super) headers: HeaderMap,
    pub(super) query: Option<String>,
    pub(super) memory: MemoryShare,
}

async fn read(
    gateway: &Gateway,
    address: &Address,
    client: GatewayClient,
    request: hyper::Request<Incoming>,
) -> Result<GatewayRequest, Fault> {
    if let Some(reason) = gateway.stop_reason() {
        return Err(Fault::new(FaultKind::Permission, format!("fullsend: this run was stopped: {reason}")));
    }
    client.check(&gateway.rules.rules.features).await.map_err(invalid_request)?;
    let (mut head, body) = request.into_parts();
    let wire = address.wire;
    gateway.rules.check_wire(wire).map_err(invalid_request)?;
    check_query(head.uri.query(), &gateway.rules.rules.features).map_err(invalid_request)?;
    let mut encodings = head.headers.get_all(CONTENT_ENCODING).iter();
    if let Some(encoding) = encodings.find(|value| *value != "identity") {
        return Err(invalid_request(format!("the body is compressed ({encoding:?}); send it plain")));
    }
    let (memory, body) = collect(gateway, body).await?;
    let body = address.vendor_body(body, &mut head.headers).map_err(invalid_request)?;
    // With the betas that a hosted address has in the body.
    check_headers(&head.headers, &gateway.rules.rules.features).map_err(invalid_request)?;
    let (request, parts) = parse(gateway, wire, &body)?;
    let query = head.uri.query().map(str::to_owned);
    Ok(GatewayRequest { wire, request, body, parts, headers: head.headers, query, memory })
}

fn invalid_request(reason: impl fmt::Display) -> Fault {
    Fault::new(FaultKind::InvalidRequest, reason.to_string())
}

/// The whole body, once there is memory for it.
async fn collect(gateway: &Gateway, body: Incoming) -> Result<(MemoryShare, Bytes), Fault> {
    let limits = gateway.limits;
    let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = announced.unwrap_or(limits.request_bytes).min(limits.request_bytes);
    let Some(memory) = gateway.memory.reserve(bytes, limits.request_time).await else {
        let message = "fullsend: the gateway's memory is taken by other large requests; try again";
        return Err(Fault::new(FaultKind::Overloaded, message));
    };
    let collecting = Limited::new(body, limits.request_bytes).collect();
    match tokio::time::timeout(limits.request_time, collecting).await {
        Ok(Ok(collected)) => Ok((memory, collected.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {} bytes", limits.request_bytes);
            Err(Fault::new(FaultKind::TooLarge, message))
        }
        Ok(Err(error)) => Err(invalid_request(format!("the body broke off: {error}"))),
        Err(_) => Err(Fault::new(FaultKind::Timeout, "the body did not arrive in time")),
    }
}

/// Parses an allowed body into the common request type, with the parts that become tokens.
fn parse(gateway: &Gateway, wire: Wire, body: &[u8]) -> Result<(ModelRequest, InputParts), Fault> {
    check_json(body, MAX_VALUES)
        .map_err(|error| invalid_request(format!("the body cannot be read: {error}")))?;
    let value = serde_json::from_slice(body).map_err(invalid_request)?;
    gateway.rules.check_body(wire, &value).map_err(invalid_request)?;
    let parts = gateway.ledger.parts(&value);
    drop(value);
    let request = codec::read_request(wire, body).map_err(invalid_request)?;
    gateway.rules.check_model(&request.model).map_err(invalid_request)?;
    Ok((request, parts))
}

/// Asks the upstream how many tokens a request has.
async fn count(
    gateway: &Gateway,
    exchange: u64,
    address: &Address,
    parsed: GatewayRequest,
) -> Result<GatewayResponse, Fault> {
    wait_for_start(gateway, exchange).await?;
    let parsed = with_long_context(inspect_counted(gateway, parsed)?);
    let counted = count_tokens::count(
        gateway,
        UpstreamRequest {
            wire: parsed.wire,
            operation: Operation::CountTokens,
            request: &parsed.request,
            body: &parsed.body,
            headers: &parsed.headers,
            query: parsed.query.as_deref(),
        },
    )
    .await;
    let model = parsed.request.model;
    let bytes = parsed.body.len();
    let tokens = counted.as_ref().ok().copied();
    gateway.emit(ModelEvent::TokensCounted { exchange, model, bytes, tokens });
    Ok(match counted {
        Ok(tokens) => address.counted(tokens),
        Err(fault) => address.fault(&fault),
    })
}

async fn forward(
    gateway: &Arc<Gateway>,
    exchange: u64,
    parsed: GatewayRequest,
) -> Result<GatewayResponse, Fault> {
    wait_for_start(gateway, exchange).await?;
    let parsed = with_long_context(inspect(gateway, exchange, parsed)?);
    let GatewayRequest { wire, request, body, parts, headers, query, memory } = parsed;
    let body_with_usage = codec::ask_for_usage(wire, &body);
    let hides_usage = body_with_usage.is_some();
    let body = body_with_usage.map_or(body, Bytes::from);
    let mut reserved = reserve(gateway, exchange, wire, request, body, parts).await?;
    let gateway = Arc::clone(gateway);
    // `_alive` is dropped with this future, when the client hangs up.
    let (_alive, mut client_gone) = oneshot::channel();
    // In a separate task: the vendor's charges must be counted even if the client disconnects.
    let exchanging = tokio::spawn(async move {
        loop {
            let fallback = gateway.fallback_after(&reserved.request.model);
            let outgoing = UpstreamRequest {
                wire,
                operation: Operation::Answer,
                request: &reserved.request,
                body: &reserved.body,
                headers: &headers,
                query: query.as_deref(),
            };
            let has_fallback = fallback.is_some();
            let sending = SendAttempts {
                gateway: &gateway,
                exchange,
                outgoing,
                client: &mut client_gone,
                has_fallback,
            };
            let sent = sending.send(&mut reserved.reservation).await;
            let ReservedRequest { request, body, parts, reservation } = reserved;
            match (sent, fallback) {
                (Ok(response), _) => {
                    drop(memory);
                    let pending = relay::PendingAnswer { gateway, exchange, wire, reservation, hides_usage };
                    return Ok(relay::relay(pending, response).await);
                }
                (Err(SendError::UseFallback(_, reason)), Some(model)) => {
                    reservation.release();
                    let from = request.model.clone();
                    gateway.emit(ModelEvent::ModelFallback { exchange, from, to: model.clone(), reason });
                    let body = Bytes::from(codec::set_model(&body, &model));
                    let request = ModelRequest { model, ..request };
                    reserved = reserve(&gateway, exchange, wire, request, body, parts).await?;
                }
                (Err(SendError::Refused(fault) | SendError::UseFallback(fault, _)), _) => {
                    reservation.release();
                    return Err(fault);
                }
                (Err(SendError::Unanswered(fault)), _) => {
                    // The vendor may bill the work that it has done.
                    let charge = reservation.charge_reserved();
                    gateway.emit(relay::unanswered(exchange, &request.model, charge));
                    return Err(fault);
                }
            }
        }
    });
    exchanging.await.unwrap_or_else(|error| Err(Fault::new(FaultKind::Upstream, error.to_string())))
}

/// A request whose cost is reserved in the budget.
struct ReservedRequest {
    request: ModelRequest,
    body: Bytes,
    parts: InputParts,
    reservation: Reservation,
}

async fn reserve(
    gateway: &Arc<Gateway>,
    exchange: u64,
    wire: Wire,
    request: ModelRequest,
    body: Bytes,
    parts: InputParts,
) -> Result<ReservedRequest, Fault> {
    let least_output = codec::least_output(wire, &body);
    let reservation =
        gateway.ledger.reserve(&request, parts.clone(), least_output).await.map_err(invalid_request)?;
    let shortened = reservation.shortened_output();
    let body = match shortened {
        Some(most) => codec::set_max_tokens(wire, &body, most).into(),
        None => body,
    };
    gateway.emit(ModelEvent::ModelRequest {
        exchange,
        wire,
        model: request.model.clone(),
        turn: request.turns(),
        tools: request.tools.len(),
        bytes: body.len(),
        shortened_to: shortened,
    });
    Ok(ReservedRequest { request, body, parts, reservation })
}

/// Holds the first request until the start hook reaches the guard; stops the run if it does not.
async fn wait_for_start(gateway: &Gateway, exchange: u64) -> Result<(), Fault> {
    let Some(start) = &gateway.start else { return Ok(()) };
    start.wait().await.map_err(|error| {
        let reason = error.to_string();
        gateway.stop_by_guard(exchange, &reason);
        Fault::new(FaultKind::Permission, format!("fullsend: {reason}"))
    })
}

/// Replaces the texts that the guard wants to replace.
fn inspect(gateway: &Gateway, exchange: u64, parsed: GatewayRequest) -> Result<GatewayRequest, Fault> {
    let replacements = inspect_request(gateway, &parsed.request).map_err(|reason| {
        gateway.stop_by_guard(exchange, &reason);
        Fault::new(FaultKind::Permission, format!("fullsend: {reason}"))
    })?;
    with_replaced(gateway, parsed, &replacements)
}

/// The same for a request whose tokens are counted: what it has of secrets is masked.
fn inspect_counted(gateway: &Gateway, parsed: GatewayRequest) -> Result<GatewayRequest, Fault> {
    let replacements = inspect_count(gateway, &parsed.request);
    with_replaced(gateway, parsed, &replacements)
}

fn with_replaced(
    gateway: &Gateway,
    parsed: GatewayRequest,
    replacements: &HashMap<String, String>,
) -> Result<GatewayRequest, Fault> {
    if replacements.is_empty() {
        return Ok(parsed);
    }
    let body = Bytes::from(rewrite::replace_strings(&parsed.body, replacements));
    let (request, parts) = parse(gateway, parsed.wire, &body)?;
    Ok(GatewayRequest { request, body, parts, ..parsed })
}

/// Clients append `[1m]` to a model name for the long context; the API expects a beta header instead.
fn with_long_context(mut parsed: GatewayRequest) -> GatewayRequest {
    let plain = parsed.request.model.strip_suffix("[1m]").filter(|_| parsed.wire == Wire::Messages);
    let Some(plain) = plain.map(str::to_owned) else { return parsed };
    parsed.body = Bytes::from(codec::set_model(&parsed.body, &plain));
    parsed.request.model = plain;
    parsed.headers.append("anthropic-beta", HeaderValue::from_static(LONG_CONTEXT));
    parsed
}

const LONG_CONTEXT: &str = "context-1m-2025-08-07";

fn respond_with(gateway: &Gateway, exchange: u64, address: &Address, fault: &Fault) -> GatewayResponse {
    let status = codec::fault_status(address.wire, fault);
    gateway.emit(ModelEvent::ModelRefused { exchange, status, reason: fault.message.clone() });
    address.fault(fault)
}
