//! Relays an answer from the upstream to the agent: parses it, counts its usage, and settles the reservation however it
//! ends.

use super::Gateway;
use super::ledger::{Charge, Reservation};
use super::response::{AnswerBody, Feed, GatewayResponse, StreamAborted, fault_response, respond};
use super::stream_filter::{FilterStop, StreamFilter};
use super::whole_answer::inspect_answer;
use crate::event::{AnswerEnding, ModelEvent};
use crate::upstream::{ResponseBody, UpstreamResponse};
use crate::wire::codec::{self, FrameReader, FrameWriter};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::sse::SseDecoder;
use crate::wire::{Delta, TokenUsage, Wire};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;

/// At least this much of a streamed text is held back, for secrets that are recognised by their shape.
const MIN_HOLD_BACK: usize = 512;

/// Written after a line that the server may have left open.
const CHAT_END: &[u8] = b"\n\ndata: [DONE]\n\n";

pub(super) struct PendingAnswer {
    pub(super) gateway: Arc<Gateway>,
    pub(super) exchange: u64,
    pub(super) wire: Wire,
    pub(super) reservation: Reservation,
    /// The gateway asked for usage that the client did not ask for: it is removed from the stream.
    pub(super) hides_usage: bool,
}

/// What is known about an answer so far.
#[derive(Default)]
struct AnswerCounts {
    model: String,
    usage: TokenUsage,
    /// The final usage has come.
    is_final: bool,
    /// The model has begun to write.
    has_output: bool,
    /// The reason for its end has come.
    finished: bool,
    ended: bool,
    fault: bool,
}

pub(super) async fn relay(pending: PendingAnswer, reply: UpstreamResponse) -> GatewayResponse {
    let started = Instant::now();
    if reply.is_stream() {
        let UpstreamResponse { status, headers, body } = reply;
        let (feed, fed) = AnswerBody::fed();
        tokio::spawn(stream(pending, status, body, feed, started));
        return respond(status, headers, fed);
    }
    relay_whole(pending, reply, started).await
}

async fn relay_whole(pending: PendingAnswer, reply: UpstreamResponse, started: Instant) -> GatewayResponse {
    let UpstreamResponse { status, headers, body } = reply;
    let wire = pending.wire;
    let broken = |message: String| fault_response(wire, &Fault::new(FaultKind::Upstream, message));
    let bytes = match collect(&pending.gateway, body).await {
        Ok(bytes) => bytes,
        Err(message) => {
            settle(pending, status, AnswerEnding::Cut, &AnswerCounts::default(), started);
            return broken(message);
        }
    };
    if status != 200 {
        settle(pending, status, AnswerEnding::Fault, &AnswerCounts::default(), started);
        return respond(status, headers, AnswerBody::whole(bytes));
    }
    match codec::read_answer(wire, &bytes) {
        Ok(answer) => {
            let judged = inspect_answer(&pending.gateway.inspect, wire, bytes, &answer);
            let is_final = answer.usage != TokenUsage::default();
            let usage = answer.usage;
            let counts = AnswerCounts { model: answer.model, usage, is_final, ..AnswerCounts::default() };
            let gateway = Arc::clone(&pending.gateway);
            let exchange = pending.exchange;
            let ending = if judged.is_ok() { AnswerEnding::Complete } else { AnswerEnding::Stopped };
            settle(pending, status, ending, &counts, started);
            match judged {
                Ok(bytes) => respond(status, headers, AnswerBody::whole(bytes)),
                Err(halt) => fault_response(wire, &fault_of(&gateway, exchange, halt)),
            }
        }
        Err(error) => {
            settle(pending, status, AnswerEnding::Cut, &AnswerCounts::default(), started);
            broken(error.to_string())
        }
    }
}

async fn collect(gateway: &Gateway, mut body: ResponseBody) -> Result<Bytes, String> {
    let mut all = Vec::new();
    loop {
        match tokio::time::timeout(gateway.limits.answer_idle, body.next()).await {
            Err(_) => return Err("the model stopped sending in the middle of its answer".to_owned()),
            Ok(None) => return Ok(all.into()),
            Ok(Some(Err(error))) => return Err(error.to_string()),
            Ok(Some(Ok(portion))) if all.len() + portion.len() > gateway.limits.answer_bytes => {
                return Err(format!("the answer is larger than {} bytes", gateway.limits.answer_bytes));
            }
            Ok(Some(Ok(portion))) => all.extend_from_slice(&portion),
        }
    }
}

/// Reports a stop to the program and returns the fault for the client.
fn fault_of(gateway: &Gateway, exchange: u64, halt: FilterStop) -> Fault {
    match halt {
        FilterStop::Fault(fault) => fault,
        FilterStop::Stop(reason) => {
            gateway.stop_by_guard(exchange, &reason);
            Fault::new(FaultKind::Permission, format!("fullsend: {reason}"))
        }
    }
}

async fn stream(pending: PendingAnswer, status: u16, mut body: ResponseBody, feed: Feed, started: Instant) {
    let mut counts = AnswerCounts::default();
    let ending = match pass_portions(&pending, &mut body, &feed, &mut counts).await {
        Ok(ending) => ending,
        Err(halt) => {
            let fault = fault_of(&pending.gateway, pending.exchange, halt);
            let frames = FrameWriter::new(pending.wire).write(&Delta::Error(fault));
            for frame in frames {
                // The client may be gone.
                let _gone = feed.send(Ok(frame.encode().into())).await;
            }
            AnswerEnding::Stopped
        }
    };
    if ending == AnswerEnding::Cut {
        // The broken connection shows the client that the answer is not whole.
        let _gone = feed.send(Err(StreamAborted)).await;
    }
    settle(pending, status, ending, &counts, started);
}

async fn pass_portions(
    pending: &PendingAnswer,
    body: &mut ResponseBody,
    feed: &Feed,
    counts: &mut AnswerCounts,
) -> Result<AnswerEnding, FilterStop> {
    let limits = pending.gateway.limits;
    let mut decoder = SseDecoder::default();
    let mut reader = FrameReader::new(pending.wire);
    let hold_back = (pending.gateway.hold_back)();
    let mut gate =
        StreamFilter::new(Arc::clone(&pending.gateway.inspect), pending.wire, hold_back.max(MIN_HOLD_BACK));
    let mut total = 0;
    loop {
        let portion = tokio::select! {
            () = feed.closed() => return Ok(client_gone(pending, body, decoder, reader, counts).await),
            portion = tokio::time::timeout(limits.answer_idle, body.next()) => portion,
        };
        let Ok(portion) = portion else { return Ok(AnswerEnding::Cut) };
        let bytes = match portion {
            None if counts.fault => return Ok(AnswerEnding::Fault),
            None if counts.ended => return Ok(AnswerEnding::Complete),
            // Some servers close a stream after the reason for its end.
            None if counts.finished && pending.wire == Wire::Chat => Bytes::from_static(CHAT_END),
            None | Some(Err(_)) => return Ok(AnswerEnding::Cut),
            Some(Ok(bytes)) => bytes,
        };
        total += bytes.len();
        if total > limits.stream_bytes || decoder.push(&bytes).is_err() {
            return Ok(AnswerEnding::Cut);
        }
        while let Some(frame) = decoder.next_frame() {
            let Ok(deltas) = reader.read(&frame) else { return Ok(AnswerEnding::Cut) };
            deltas.iter().for_each(|delta| counts.count(delta));
            if pending.hides_usage && codec::is_usage_only(pending.wire, &frame) {
                continue;
            }
            for passed in gate.push(frame, &deltas)? {
                if feed.send(Ok(Bytes::from(passed.encode()))).await.is_err() {
                    return Ok(client_gone(pending, body, decoder, reader, counts).await);
                }
            }
        }
    }
}

/// Reads on without a client until the vendor has reported what it used, for a while.
async fn client_gone(
    pending: &PendingAnswer,
    body: &mut ResponseBody,
    mut decoder: SseDecoder,
    mut reader: FrameReader,
    counts: &mut AnswerCounts,
) -> AnswerEnding {
    // It has read the end, or the error, and closes its connection.
    if counts.fault {
        return AnswerEnding::Fault;
    }
    if counts.ended {
        return AnswerEnding::Complete;
    }
    let limits = pending.gateway.limits;
    let draining = async {
        let mut total = 0;
        loop {
            while let Some(frame) = decoder.next_frame() {
                let Ok(deltas) = reader.read(&frame) else { return };
                deltas.iter().for_each(|delta| counts.count(delta));
            }
            if counts.ended || counts.fault {
                return;
            }
            let Some(Ok(bytes)) = body.next().await else { return };
            total += bytes.len();
            if total > limits.stream_bytes || decoder.push(&bytes).is_err() {
                return;
            }
        }
    };
    drop(tokio::time::timeout(limits.drain_time, draining).await);
    AnswerEnding::ClientGone
}

impl AnswerCounts {
    fn count(&mut self, delta: &Delta) {
        match delta {
            Delta::Start { model, usage, .. } => {
                self.model.clone_from(model);
                self.usage.raise(usage);
            }
            Delta::Finish { usage, .. } | Delta::Usage(usage) => {
                self.finished |= matches!(delta, Delta::Finish { .. });
                self.usage.raise(usage);
                self.is_final |= *usage != TokenUsage::default();
            }
            Delta::End => self.ended = true,
            Delta::Error(_) => self.fault = true,
            _ => self.has_output = true,
        }
    }
}

/// A request that the vendor accepted and did not answer.
pub(super) fn unanswered(exchange: u64, model: &str, charge: Charge) -> ModelEvent {
    ModelEvent::ModelAnswer {
        exchange,
        model: model.to_owned(),
        status: FaultKind::Timeout.status(),
        ending: AnswerEnding::Cut,
        usage: charge.usage,
        cost: charge.cost,
        estimated: true,
        duration_ms: 0,
    }
}

/// What the vendor bills: its reported usage, or the whole reservation if the report is missing. An error before the
/// first text costs the usage reported so far, and nothing if it has an error status.
fn settle(
    pending: PendingAnswer,
    status: u16,
    ending: AnswerEnding,
    counts: &AnswerCounts,
    started: Instant,
) {
    let PendingAnswer { gateway, exchange, reservation, .. } = pending;
    let has_usage = counts.usage != TokenUsage::default();
    let is_error = status != 200 || (counts.fault && !counts.has_output);
    let estimated = !is_error && !counts.is_final;
    let charge = if estimated {
        reservation.charge_reserved()
    } else if has_usage {
        reservation.charge(&counts.model, counts.usage)
    } else {
        reservation.release()
    };
    gateway.emit(ModelEvent::ModelAnswer {
        exchange,
        model: counts.model.clone(),
        status,
        ending,
        usage: charge.usage,
        cost: charge.cost,
        estimated,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
}
