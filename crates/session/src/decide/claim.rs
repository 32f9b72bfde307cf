//! How a wake starts, as a pure decision: whether the session is due, which inputs the wake gets, and what happens to the
//! wake of a lost worker.

use crate::decide::commit::{give_up, scheduled_again};
use crate::decide::draft::{Draft, FinishedDraft};
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::decide::retry::next_attempt;
use crate::log::event::{CompletedSpan, Payload, StartedSpan, WakeEnd, WakeStart};
use crate::log::id::WakeId;
use crate::log::state::{CurrentWake, SessionState, WakePhase};
use crate::log::status::{ErrorClass, SessionStatus, SpanResult};
use crate::log::time::{TimeSeed, Timestamp};

/// Why a session is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimReason {
    /// It is due.
    Due,
    /// A person asked for it, even if it is not due.
    Requested,
}

/// The result of a claim. Either may draft events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClaimResult {
    Started,
    /// No wake starts now. A lost wake may have been given up or rescheduled.
    NotStarted,
}

/// Drafts the start of a wake. `held_until` is the end of a lease that is still valid.
pub(crate) fn claim(
    state: &SessionState,
    ask: ClaimReason,
    held_until: Option<Timestamp>,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<(FinishedDraft, ClaimResult), SessionRefusal> {
    let mut draft = Draft::new(state, seed);
    if let Some(lost) = draft.state.running().cloned() {
        if let Some(until_ms) = held_until {
            return Err(SessionRefusal::Leased { until_ms });
        }
        close_lost(&mut draft, &lost, limits)?;
    }
    let now = draft.seed.now;
    match reason_to_run(&draft.state, ask, now, limits)? {
        Some(reason) => {
            start(&mut draft, reason, limits)?;
            Ok((draft.done(), ClaimResult::Started))
        }
        None => {
            if !draft.events.is_empty() {
                draft.announce(None, "the lost wake ended")?;
            }
            Ok((draft.done(), ClaimResult::NotStarted))
        }
    }
}

/// Why the session runs now, if it does.
fn reason_to_run(
    state: &SessionState,
    ask: ClaimReason,
    now: Timestamp,
    limits: &SessionLimits,
) -> Result<Option<&'static str>, SessionRefusal> {
    let is_due = state.due().is_due(now, limits.horizon_ms());
    match state.status {
        SessionStatus::Terminated => Err(SessionRefusal::Terminated),
        SessionStatus::RequiresAction if is_due => Ok(Some("a request expired")),
        SessionStatus::RequiresAction if ask == ClaimReason::Requested => Err(SessionRefusal::Blocked {
            requests: state.open_requests().map(|request| request.id).collect(),
        }),
        _ if !is_due => Ok((ask == ClaimReason::Requested).then_some("requested")),
        _ if state.wake.is_some() => Ok(Some("retry")),
        _ if !state.pending.is_empty() => Ok(Some("new inputs")),
        _ => Ok(Some("a wake is due")),
    }
}

/// Closes the wake of a lost worker. A pending interrupt takes effect now. Otherwise the wake is retried with the same id
/// and inputs, up to the limit of attempts.
fn close_lost(
    draft: &mut Draft<'_>,
    lost: &CurrentWake,
    limits: &SessionLimits,
) -> Result<(), SessionRefusal> {
    let class = ErrorClass::Lost;
    let interrupted = !draft.state.interrupts.is_empty();
    let retry_at_ms = if interrupted { None } else { next_attempt(class, lost, limits, draft.seed) };
    let message = "the worker did not renew its lease".to_owned();
    let attempt = lost.attempt;
    draft.write(Some(lost.id), Payload::SessionError { class, message, attempt, retry_at_ms })?;
    let continues = draft.state.continues;
    let queued = scheduled_again(&draft.state, lost, draft.seed);
    let end = match retry_at_ms {
        Some(_) => WakeEnd { retry_at_ms, continues, ..WakeEnd::default() },
        None if interrupted => {
            let consumed = lost.inputs.clone().with_later(&draft.state.interrupts);
            WakeEnd { consumed, continues, queued, ..WakeEnd::default() }
        }
        None => give_up(lost, continues, queued),
    };
    let end = WakeEnd { usage: lost.usage, ..end };
    let result = if interrupted { SpanResult::Interrupted } else { SpanResult::Lost };
    let span = CompletedSpan::Wake(Box::new(end));
    draft.write(Some(lost.id), Payload::SpanCompleted { span_id: lost.id.into(), result, span })?;
    Ok(())
}

fn start(draft: &mut Draft<'_>, reason: &str, limits: &SessionLimits) -> Result<(), SessionRefusal> {
    let now = draft.seed.now;
    let token = draft.state.token + 1;
    let (id, start) = match draft.state.wake.clone() {
        Some(CurrentWake {
            id, attempt, inputs, woken, expired, phase: WakePhase::Retrying { .. }, ..
        }) => {
            let expired = expired.iter().map(|request| request.id).collect();
            (id, WakeStart { token, attempt: attempt + 1, inputs, woken, expired })
        }
        _ => (WakeId::generate(draft.seed), first_attempt(&draft.state, token, now, limits)),
    };
    let span = StartedSpan::Wake(start);
    let name = "wake".to_owned();
    draft.write(Some(id), Payload::SpanStarted { span_id: id.into(), parent_id: None, name, span })?;
    draft.announce(Some(id), reason)?;
    Ok(())
}

fn first_attempt(state: &SessionState, token: u64, now: Timestamp, limits: &SessionLimits) -> WakeStart {
    let has_expired = |expires: Option<Timestamp>| expires.is_some_and(|at| at <= now);
    WakeStart {
        token,
        attempt: 1,
        inputs: state.pending.first(
            state.batch_limit.map_or(limits.inputs_per_wake, |batch| batch.min(limits.inputs_per_wake)),
        ),
        woken: state.due_wakes(now).map(|wake| wake.id).collect(),
        expired: state
            .open_requests()
            .filter(|request| has_expired(request.expires_ms))
            .map(|request| request.id)
            .collect(),
    }
}
