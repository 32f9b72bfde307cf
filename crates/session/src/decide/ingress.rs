//! Which inputs a session accepts from outside. Pure: the state, the event and the time decide.

use std::io;

use crate::decide::draft::{Draft, FinishedDraft};
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::log::digest::Sha256Digest;
use crate::log::event::{Payload, SessionEvent};
use crate::log::id::{EventId, RequestId};
use crate::log::seq::Seq;
use crate::log::state::{ChildSession, SessionState, ToolRequestKind};
use crate::log::status::SessionStatus;
use crate::log::time::{TimeSeed, Timestamp};

/// An event from outside. Sending it again with the same id stores it once.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInput {
    pub id: EventId,
    pub payload: Payload,
}

/// Drafts an append: the sequence number of each input, and the new events.
pub(crate) fn append(
    state: &SessionState,
    known: &[SessionEvent],
    inputs: &[SessionInput],
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<(FinishedDraft, Vec<Seq>), SessionRefusal> {
    let now = seed.now;
    let mut draft = Draft::new(state, seed);
    let mut seqs = Vec::with_capacity(inputs.len());
    for SessionInput { id, payload } in inputs {
        let same_id = known.iter().chain(&draft.events).find(|event| event.id == *id);
        let seq = match same_id {
            Some(event) if event.payload == *payload => event.seq,
            Some(_) => return Err(SessionRefusal::IdReused { id: *id }),
            None => {
                admit(&draft.state, payload, limits, now)?;
                draft.push(*id, None, payload.clone())?
            }
        };
        seqs.push(seq);
    }
    Ok((draft.done(), seqs))
}

/// Checks whether the session accepts this event now.
pub fn admit(
    state: &SessionState,
    payload: &Payload,
    limits: &SessionLimits,
    now: Timestamp,
) -> Result<(), SessionRefusal> {
    if !payload.is_input() {
        return Err(SessionRefusal::NotAnInput { kind: payload.kind() });
    }
    if state.status == SessionStatus::Terminated {
        return Err(SessionRefusal::Terminated);
    }
    check_size(payload, limits.input_bytes)?;
    let count = state.pending.len() + state.interrupts.len();
    // Even a full session accepts one interrupt, so that a person can stop it.
    let is_interrupt = matches!(payload, Payload::UserInterrupt { .. });
    if count >= limits.pending_inputs && !(is_interrupt && state.interrupts.is_empty()) {
        return Err(SessionRefusal::TooMany {
            what: "inputs are already waiting",
            count,
            limit: limits.pending_inputs,
        });
    }
    match payload {
        Payload::UserMessage { message } if message.trim().is_empty() => {
            Err(SessionRefusal::Empty { what: "message" })
        }
        Payload::UserDefineOutcome { title, .. } if title.trim().is_empty() => {
            Err(SessionRefusal::Empty { what: "title of the goal" })
        }
        Payload::UserToolConfirmation { request_id, input_digest, .. } => {
            admit_answer(state, ToolRequestKind::Confirmation, *request_id, *input_digest, now)
        }
        Payload::UserCustomToolResult { request_id, input_digest, .. } => {
            admit_answer(state, ToolRequestKind::CustomTool, *request_id, *input_digest, now)
        }
        Payload::UserChildResult { child, .. } => {
            let is_awaited = |known: &ChildSession| known.id == *child && known.result.is_none();
            if state.children.iter().any(is_awaited) {
                Ok(())
            } else {
                Err(SessionRefusal::Field { what: "child", why: "the session does not wait for its result" })
            }
        }
        _ => Ok(()),
    }
}

/// Checks the size of an event as it will be stored.
pub(crate) fn check_size(payload: &Payload, limit: usize) -> Result<(), SessionRefusal> {
    let mut counter = Counter(0);
    let size = serde_json::to_writer(&mut counter, payload).map_or(usize::MAX, |()| counter.0);
    if size > limit {
        return Err(SessionRefusal::TooLarge { what: payload.kind(), size, limit });
    }
    Ok(())
}

/// Counts what is written to it.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A request takes one answer, for the input that was shown, before it expires.
fn admit_answer(
    state: &SessionState,
    kind: ToolRequestKind,
    id: RequestId,
    input_digest: Sha256Digest,
    now: Timestamp,
) -> Result<(), SessionRefusal> {
    let request = state.request(id).ok_or(SessionRefusal::NoSuchRequest { id })?;
    if request.kind != kind {
        return Err(SessionRefusal::WrongAnswer { id });
    }
    if request.answered.is_some() {
        return Err(SessionRefusal::AlreadyAnswered { id });
    }
    if request.input_digest != input_digest {
        return Err(SessionRefusal::InputDiffers { id });
    }
    if request.expires_ms.is_some_and(|expires| expires <= now) {
        return Err(SessionRefusal::Expired { id });
    }
    Ok(())
}
