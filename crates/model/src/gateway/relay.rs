//! An answer on its way from the upstream to the agent: understood as it passes, counted, and settled with the ledger
//! whichever way it ends.

use super::Gateway;
use super::body::{AnswerBody, BrokenOff, Feed};
use super::exchange::{Answered, fault_answer, response};
use super::gate::{Gate, Halt};
use super::ledger::Reservation;
use super::upstream::{Reply, ReplyBody};
use super::whole::judge_answer;
use crate::event::{Ending, ModelEvent};
use crate::wire::codec::{self, FrameReader, FrameWriter};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::sse::Decoder;
use crate::wire::{Delta, Usage, Wire};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;

/// So much of a streamed text waits in any case, for what is recognised by its shape.
const MIN_HOLD_BACK: usize = 512;

pub(super) struct Underway {
    pub(super) gateway: Arc<Gateway>,
    pub(super) exchange: u64,
    pub(super) wire: Wire,
    pub(super) reservation: Reservation,
    /// The client did not ask for the usage that its stream will hold.
    pub(super) hides_usage: bool,
}

/// What is known about an answer so far.
#[derive(Default)]
struct Tally {
    model: String,
    usage: Usage,
    ended: bool,
    fault: bool,
}

pub(super) async fn relay(underway: Underway, reply: Reply) -> Answered {
    let started = Instant::now();
    if reply.is_stream() {
        let Reply { status, headers, body } = reply;
        let (feed, fed) = AnswerBody::fed();
        tokio::spawn(stream(underway, status, body, feed, started));
        return response(status, headers, fed);
    }
    relay_whole(underway, reply, started).await
}

async fn relay_whole(underway: Underway, reply: Reply, started: Instant) -> Answered {
    let Reply { status, headers, body } = reply;
    let wire = underway.wire;
    let broken = |message: String| fault_answer(wire, &Fault::new(FaultKind::Upstream, message));
    let bytes = match collect(&underway.gateway, body).await {
        Ok(bytes) => bytes,
        Err(message) => {
            settle(underway, status, Ending::Cut, &Tally::default(), started);
            return broken(message);
        }
    };
    if status != 200 {
        settle(underway, status, Ending::Fault, &Tally::default(), started);
        return response(status, headers, AnswerBody::whole(bytes));
    }
    match codec::read_answer(wire, &bytes) {
        Ok(answer) => {
            let judged = judge_answer(&underway.gateway.judge, wire, bytes, &answer);
            let tally = Tally { model: answer.model, usage: answer.usage, ..Tally::default() };
            let (gateway, exchange) = (Arc::clone(&underway.gateway), underway.exchange);
            let ending = if judged.is_ok() { Ending::Complete } else { Ending::Stopped };
            settle(underway, status, ending, &tally, started);
            match judged {
                Ok(bytes) => response(status, headers, AnswerBody::whole(bytes)),
                Err(halt) => fault_answer(wire, &fault_of(&gateway, exchange, halt)),
            }
        }
        Err(error) => {
            settle(underway, status, Ending::Cut, &Tally::default(), started);
            broken(error.to_string())
        }
    }
}

async fn collect(gateway: &Gateway, mut body: ReplyBody) -> Result<Bytes, String> {
    let mut all = Vec::new();
    loop {
        match tokio::time::timeout(gateway.limits.answer_idle, body.next()).await {
            Err(_) => return Err("the model fell silent in the middle of its answer".to_owned()),
            Ok(None) => return Ok(all.into()),
            Ok(Some(Err(error))) => return Err(error.to_string()),
            Ok(Some(Ok(portion))) if all.len() + portion.len() > gateway.limits.answer_bytes => {
                return Err(format!("the answer is larger than {} bytes", gateway.limits.answer_bytes));
            }
            Ok(Some(Ok(portion))) => all.extend_from_slice(&portion),
        }
    }
}

/// Tells the program when the run is to end, and gives what the client is told.
fn fault_of(gateway: &Gateway, exchange: u64, halt: Halt) -> Fault {
    match halt {
        Halt::Fault(fault) => fault,
        Halt::Stop(reason) => {
            gateway.stop_by_judge(exchange, &reason);
            Fault::new(FaultKind::Permission, format!("fullsend: {reason}"))
        }
    }
}

async fn stream(underway: Underway, status: u16, mut body: ReplyBody, feed: Feed, started: Instant) {
    let mut tally = Tally::default();
    let ending = match pass_portions(&underway, &mut body, &feed, &mut tally).await {
        Ok(ending) => ending,
        Err(halt) => {
            let fault = fault_of(&underway.gateway, underway.exchange, halt);
            let frames = FrameWriter::new(underway.wire).write(&Delta::Error(fault));
            for frame in frames {
                // A client that is gone needs no reason.
                let _gone = feed.send(Ok(frame.encode().into())).await;
            }
            Ending::Stopped
        }
    };
    if ending == Ending::Cut {
        // The client is gone too, or hears from the broken connection that the answer is not whole.
        let _gone = feed.send(Err(BrokenOff)).await;
    }
    settle(underway, status, ending, &tally, started);
}

async fn pass_portions(
    underway: &Underway,
    body: &mut ReplyBody,
    feed: &Feed,
    tally: &mut Tally,
) -> Result<Ending, Halt> {
    let limits = underway.gateway.limits;
    let mut decoder = Decoder::default();
    let mut reader = FrameReader::new(underway.wire);
    let hold_back = (underway.gateway.hold_back)();
    let mut gate =
        Gate::new(Arc::clone(&underway.gateway.judge), underway.wire, hold_back.max(MIN_HOLD_BACK));
    let mut total = 0;
    loop {
        let portion = tokio::select! {
            () = feed.closed() => return Ok(Ending::ClientGone),
            portion = tokio::time::timeout(limits.answer_idle, body.next()) => portion,
        };
        let Ok(portion) = portion else { return Ok(Ending::Cut) };
        let bytes = match portion {
            None if tally.fault => return Ok(Ending::Fault),
            None if tally.ended => return Ok(Ending::Complete),
            None | Some(Err(_)) => return Ok(Ending::Cut),
            Some(Ok(bytes)) => bytes,
        };
        total += bytes.len();
        if total > limits.stream_bytes || decoder.push(&bytes).is_err() {
            return Ok(Ending::Cut);
        }
        while let Some(frame) = decoder.next_frame() {
            let Ok(deltas) = reader.read(&frame) else { return Ok(Ending::Cut) };
            deltas.iter().for_each(|delta| tally.count(delta));
            if underway.hides_usage && codec::is_usage_only(underway.wire, &frame) {
                continue;
            }
            for passed in gate.push(frame, &deltas)? {
                if feed.send(Ok(Bytes::from(passed.encode()))).await.is_err() {
                    return Ok(Ending::ClientGone);
                }
            }
        }
    }
}

impl Tally {
    fn count(&mut self, delta: &Delta) {
        match delta {
            Delta::Start { model, usage, .. } => {
                self.model.clone_from(model);
                self.usage.raise(usage);
            }
            Delta::Finish { usage, .. } | Delta::Usage(usage) => self.usage.raise(usage),
            Delta::End => self.ended = true,
            Delta::Error(_) => self.fault = true,
            _ => {}
        }
    }
}

fn settle(underway: Underway, status: u16, ending: Ending, tally: &Tally, started: Instant) {
    let Underway { gateway, exchange, reservation, .. } = underway;
    let billed = tally.usage != Usage::default();
    let cost = if billed {
        reservation.charge(&tally.model, tally.usage)
    } else {
        reservation.release();
        None
    };
    gateway.say(ModelEvent::ModelAnswer {
        exchange,
        model: tally.model.clone(),
        status,
        ending,
        usage: tally.usage,
        cost,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
}
