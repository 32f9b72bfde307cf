//! What is done to a session from outside its wakes and its inputs: queueing a wake and ending it for good.

use crate::decide::commit::check_room;
use crate::decide::draft::{Draft, FinishedDraft};
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::log::event::{CompletedSpan, Payload, QueuedWake, WakeEnd};
use crate::log::state::SessionState;
use crate::log::status::{SessionStatus, SpanResult};
use crate::log::time::TimeSeed;

/// Queued wakes are part of the state, which is written with every event: their words must stay few.
const MAX_WAKE_BYTES: usize = 4_096;

/// Drafts a wake for later. One whose key is queued already changes nothing: then the draft is empty.
pub(crate) fn queue_wake(
    state: &SessionState,
    wake: &QueuedWake,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    if state.status == SessionStatus::Terminated {
        return Err(SessionRefusal::Terminated);
    }
    let QueuedWake { reason, note, dedupe_key, .. } = wake;
    let size =
        reason.len() + note.as_ref().map_or(0, String::len) + dedupe_key.as_ref().map_or(0, String::len);
    if size > MAX_WAKE_BYTES {
        return Err(SessionRefusal::TooLarge { what: "queued wake", size, limit: MAX_WAKE_BYTES });
    }
    let mut draft = Draft::new(state, seed);
    let known =
        |other: &QueuedWake| other.id == wake.id || (dedupe_key.is_some() && other.dedupe_key == *dedupe_key);
    if state.wakes.iter().any(known) {
        return Ok(draft.done());
    }
    let from = state.status;
    let to = if from == SessionStatus::Idle { SessionStatus::Rescheduling } else { from };
    let (reason, blocking, queued) = ("a wake is queued".to_owned(), Vec::new(), vec![wake.clone()]);
    draft.write(None, Payload::SessionStatusChanged { from, to, reason, blocking, queued })?;
    check_room(&draft.state, limits)?;
    Ok(draft.done())
}

/// Drafts the end. The wake that runs, if one does, loses its lease and is closed here. Ending twice is once.
pub(crate) fn terminate(
    state: &SessionState,
    reason: &str,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    let mut draft = Draft::new(state, seed);
    let from = state.status;
    if from == SessionStatus::Terminated {
        return Ok(draft.done());
    }
    if let Some(wake) = state.running() {
        let end = WakeEnd { continues: state.continues, ..WakeEnd::default() };
        let span = CompletedSpan::Wake(Box::new(end));
        let (span_id, result) = (wake.id.into(), SpanResult::Terminated);
        draft.write(Some(wake.id), Payload::SpanCompleted { span_id, result, span })?;
    }
    let (to, reason) = (SessionStatus::Terminated, reason.chars().take(2_000).collect());
    let (blocking, queued) = (Vec::new(), Vec::new());
    draft.write(None, Payload::SessionStatusChanged { from, to, reason, blocking, queued })?;
    Ok(draft.done())
}
