//! What else may happen to a session: a person queues a wake or terminates the session.

use crate::decide::commit::check_room;
use crate::decide::draft::{Draft, FinishedDraft};
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::log::event::{CompletedSpan, Payload, QueuedWake, WakeEnd};
use crate::log::header::SessionEnvironment;
use crate::log::id::WakeId;
use crate::log::seq::SeqSet;
use crate::log::state::SessionState;
use crate::log::status::{SessionStatus, SpanResult};
use crate::log::time::TimeSeed;

/// Queued wakes are part of the state, which is written with every event, so their texts must be short.
const MAX_WAKE_BYTES: usize = 4_096;

/// Drafts a wake for later. If its id or key is already queued, the draft is empty.
pub(crate) fn queue_wake(
    state: &SessionState,
    wake: &QueuedWake,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    if state.status == SessionStatus::Terminated {
        return Err(SessionRefusal::Terminated);
    }
    let QueuedWake { reason, note, dedupe_key, cron, .. } = wake;
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let size = reason.len() + length(note) + length(dedupe_key) + length(cron);
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
    let changed = Payload::SessionStatusChanged {
        from,
        to,
        reason: "a wake is queued".to_owned(),
        blocking: Vec::new(),
        queued: vec![wake.clone()],
        cancelled: Vec::new(),
    };
    draft.write(None, changed)?;
    check_room(&draft.state, limits)?;
    Ok(draft.done())
}

/// Drafts the end of queued wakes. `key` is a wake's id or key.
pub(crate) fn cancel_wakes(
    state: &SessionState,
    key: &str,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    if state.status == SessionStatus::Terminated {
        return Err(SessionRefusal::Terminated);
    }
    let is_meant = |wake: &&QueuedWake| wake.id.to_string() == key || wake.dedupe_key.as_deref() == Some(key);
    let cancelled: Vec<WakeId> = state.wakes.iter().filter(is_meant).map(|wake| wake.id).collect();
    if cancelled.is_empty() {
        return Err(SessionRefusal::Field { what: "wake", why: "no queued wake has this id or key" });
    }
    let mut after = state.clone();
    after.wakes.retain(|wake| !cancelled.contains(&wake.id));
    let mut draft = Draft::new(state, seed);
    let changed = Payload::SessionStatusChanged {
        from: state.status,
        to: after.derive_status(),
        reason: "a queued wake is cancelled".to_owned(),
        blocking: Vec::new(),
        queued: Vec::new(),
        cancelled,
    };
    draft.write(None, changed)?;
    Ok(draft.done())
}

/// Drafts the termination. A running wake loses its lease and is closed. Terminating again changes nothing.
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
        let end = WakeEnd { continues: state.continues, usage: wake.usage, ..WakeEnd::default() };
        let span = CompletedSpan::Wake(Box::new(end));
        let completed =
            Payload::SpanCompleted { span_id: wake.id.into(), result: SpanResult::Terminated, span };
        draft.write(Some(wake.id), completed)?;
    }
    let changed = Payload::SessionStatusChanged {
        from,
        to: SessionStatus::Terminated,
        reason: reason.chars().take(2_000).collect(),
        blocking: Vec::new(),
        queued: Vec::new(),
        cancelled: Vec::new(),
    };
    draft.write(None, changed)?;
    Ok(draft.done())
}

/// Drafts the move to an environment that has changed.
pub(crate) fn accept_environment(
    state: &SessionState,
    environment: &SessionEnvironment,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    if state.status == SessionStatus::Terminated {
        return Err(SessionRefusal::Terminated);
    }
    let mut draft = Draft::new(state, seed);
    if state.environment.as_ref() != Some(environment) {
        let environment = environment.clone();
        draft.write(None, Payload::SessionEnvironmentAccepted { environment })?;
    }
    Ok(draft.done())
}

/// What a person does with dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterAction {
    /// Makes them pending again.
    Retry,
    Drop,
}

/// Drafts an action on dead letters.
pub(crate) fn dead_letters(
    state: &SessionState,
    action: DeadLetterAction,
    inputs: &SeqSet,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    if state.status == SessionStatus::Terminated {
        return Err(SessionRefusal::Terminated);
    }
    if inputs.is_empty() || !state.dead.includes(inputs) {
        return Err(SessionRefusal::Field {
            what: "inputs",
            why: "they are not dead letters of the session",
        });
    }
    let inputs = inputs.clone();
    let mut draft = Draft::new(state, seed);
    draft.write(
        None,
        match action {
            DeadLetterAction::Retry => Payload::SessionDeadRetried { inputs },
            DeadLetterAction::Drop => Payload::SessionDeadDropped { inputs },
        },
    )?;
    Ok(draft.done())
}
