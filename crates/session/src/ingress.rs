//! Who may put what into a session from outside. Pure: the state, the event and the time decide.

use std::io;

use crate::digest::Digest;
use crate::draft::{Draft, Drafted};
use crate::event::Payload;
use crate::id::{EventId, RequestId};
use crate::limits::Limits;
use crate::moment::{Moment, Timestamp};
use crate::refusal::Refusal;
use crate::sequence::Seq;
use crate::state::{RequestKind, State};
use crate::status::Status;
use crate::store::Found;

/// An event from outside. Sent again with the same id, it is the same event.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    pub id: EventId,
    pub payload: Payload,
}

/// Drafts an append: the place of each input, and the events that are new.
pub(crate) fn append(
    found: &Found,
    inputs: &[Input],
    limits: &Limits,
    moment: &mut Moment,
) -> Result<(Drafted, Vec<Seq>), Refusal> {
    let now = moment.now;
    let mut draft = Draft::new(&found.session.state, moment);
    let mut places = Vec::with_capacity(inputs.len());
    for Input { id, payload } in inputs {
        let known = found.events.iter().chain(&draft.events).find(|event| event.id == *id);
        let place = match known {
            Some(event) if event.payload == *payload => event.seq,
            Some(_) => return Err(Refusal::IdReused { id: *id }),
            None => {
                admit(&draft.state, payload, limits, now)?;
                draft.push(*id, None, payload.clone())?
            }
        };
        places.push(place);
    }
    Ok((draft.done(), places))
}

/// Whether the session takes this event now.
pub fn admit(state: &State, payload: &Payload, limits: &Limits, now: Timestamp) -> Result<(), Refusal> {
    if !payload.is_input() {
        return Err(Refusal::NotAnInput { kind: payload.kind() });
    }
    if state.status == Status::Terminated {
        return Err(Refusal::Terminated);
    }
    check_size(payload, limits.input_bytes)?;
    let count = state.pending.len() + state.interrupts.len();
    // An interrupt must get through to a session that is flooded: it is how somebody stops it.
    let is_interrupt = matches!(payload, Payload::UserInterrupt { .. });
    if count >= limits.pending_inputs && !(is_interrupt && state.interrupts.is_empty()) {
        return Err(Refusal::TooMany { what: "inputs wait already", count, limit: limits.pending_inputs });
    }
    match payload {
        Payload::UserMessage { message } if message.trim().is_empty() => {
            Err(Refusal::Empty { what: "message" })
        }
        Payload::UserDefineOutcome { title, .. } if title.trim().is_empty() => {
            Err(Refusal::Empty { what: "title of the outcome" })
        }
        Payload::UserToolConfirmation { request_id, input_digest, .. } => {
            admit_answer(state, RequestKind::Confirmation, *request_id, *input_digest, now)
        }
        Payload::UserCustomToolResult { request_id, input_digest, .. } => {
            admit_answer(state, RequestKind::CustomTool, *request_id, *input_digest, now)
        }
        _ => Ok(()),
    }
}

/// An event is bounded as it will be stored.
pub(crate) fn check_size(payload: &Payload, limit: usize) -> Result<(), Refusal> {
    let mut counter = Counter(0);
    let size = serde_json::to_writer(&mut counter, payload).map_or(usize::MAX, |()| counter.0);
    if size > limit {
        return Err(Refusal::TooLarge { what: payload.kind(), size, limit });
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

/// One answer per question, for the input that was shown, in time.
fn admit_answer(
    state: &State,
    kind: RequestKind,
    id: RequestId,
    input_digest: Digest,
    now: Timestamp,
) -> Result<(), Refusal> {
    let request = state.request(id).ok_or(Refusal::NoSuchRequest { id })?;
    if request.kind != kind {
        return Err(Refusal::WrongAnswer { id });
    }
    if request.answered.is_some() {
        return Err(Refusal::AlreadyAnswered { id });
    }
    if request.input_digest != input_digest {
        return Err(Refusal::InputDiffers { id });
    }
    if request.expires_ms.is_some_and(|expires| expires <= now) {
        return Err(Refusal::Expired { id });
    }
    Ok(())
}
