//! The end of a wake, as a pure decision: how one run became durable progress. Everything it means (inputs consumed,
//! events, state, wakes, questions) is one draft, stored by one atomic write or not at all.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::decide::directive::{CustomToolCall, Directive, DirectiveOutcome, WakeRequest};
use crate::decide::draft::{Draft, FinishedDraft};
use crate::decide::ingress::check_size;
use crate::decide::lease::fence;
use crate::decide::limits::SessionLimits;
use crate::decide::memory::check_memory_writes;
use crate::decide::refusal::SessionRefusal;
use crate::decide::retry::next_attempt;
use crate::log::digest::Sha256Digest;
use crate::log::event::{CompletedSpan, Payload, QueuedWake, SessionUsage, ToolRequestRef, WakeEnd};
use crate::log::id::{RequestId, WakeId};
use crate::log::memory::MemoryWrite;
use crate::log::state::{CurrentWake, SessionState};
use crate::log::status::{ErrorClass, SessionStatus, SpanResult, StopReason, WakePriority};
use crate::log::time::TimeSeed;

/// The reason and the key of the wake by which an agent goes on.
const FOLLOW_UP: &str = "session.follow_up";

/// What a run brings home.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeCommit {
    /// Tool calls, tool spans and the run's id, in their order.
    pub reports: Vec<Payload>,
    pub ending: WakeEnding,
    pub usage: SessionUsage,
    /// Conversation ids by runtime.
    pub bindings: BTreeMap<String, String>,
    pub memory: Vec<MemoryWrite>,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum WakeEnding {
    Directive(Directive),
    /// It stopped before a tool call that somebody must allow; the reports hold the question.
    Paused,
    /// No directive could be read, though it was asked for again.
    Malformed {
        error: String,
        excerpt: String,
    },
    Failed {
        class: FailureClass,
        message: String,
    },
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    Transient,
    Permanent,
}

/// Drafts the end of the wake that holds `token`.
pub(crate) fn finish(
    state: &SessionState,
    token: u64,
    commit: &WakeCommit,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    let wake = fence(state, token)?.clone();
    check_memory_writes(&commit.memory, limits)?;
    check_bindings(&commit.bindings)?;
    let mut draft = Draft::new(state, seed);
    report(&mut draft, &commit.reports, limits)?;
    let asked = draft.state.open_requests().count() > state.open_requests().count();
    let may_ask =
        matches!(commit.ending, WakeEnding::Directive(_) | WakeEnding::Paused | WakeEnding::Interrupted);
    let must_ask = commit.ending == WakeEnding::Paused;
    if (asked && !may_ask) || (must_ask && !asked) {
        return Err(SessionRefusal::Unasked);
    }
    let Conclusion { result, mut end, stop_reason } = conclude(&mut draft, &wake, &commit.ending, limits)?;
    end.usage = commit.usage;
    end.bindings = commit.bindings.clone();
    end.memory = commit.memory.iter().map(|write| write.file.digest()).collect();
    let span = CompletedSpan::Wake(Box::new(end));
    draft.write(Some(wake.id), Payload::SpanCompleted { span_id: wake.id.into(), result, span })?;
    check_room(&draft.state, limits)?;
    announce(&mut draft, wake.id, stop_reason)?;
    Ok(draft.done())
}

/// Drafts what a run reports while it goes on.
pub(crate) fn progress(
    state: &SessionState,
    token: u64,
    reports: &[Payload],
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    fence(state, token)?;
    let mut draft = Draft::new(state, seed);
    report(&mut draft, reports, limits)?;
    check_room(&draft.state, limits)?;
    Ok(draft.done())
}

fn report(draft: &mut Draft<'_>, reports: &[Payload], limits: &SessionLimits) -> Result<(), SessionRefusal> {
    let (count, limit) = (reports.len(), limits.events_per_commit);
    if count > limit {
        return Err(SessionRefusal::TooMany { what: "events in one commit", count, limit });
    }
    let wake_id = draft.state.wake.as_ref().map(|wake| wake.id);
    for payload in reports {
        if !payload.is_report() {
            return Err(SessionRefusal::NotAReport { kind: payload.kind() });
        }
        check_size(payload, limits.event_bytes)?;
        draft.write(wake_id, payload.clone())?;
    }
    Ok(())
}

/// What an ending means for its wake.
struct Conclusion {
    result: SpanResult,
    end: WakeEnd,
    /// Why it stops, where the fold would say something less exact.
    stop_reason: Option<StopReason>,
}

impl Conclusion {
    fn plain(result: SpanResult, end: WakeEnd) -> Self {
        Self { result, end, stop_reason: None }
    }
}

fn conclude(
    draft: &mut Draft<'_>,
    wake: &CurrentWake,
    ending: &WakeEnding,
    limits: &SessionLimits,
) -> Result<Conclusion, SessionRefusal> {
    let consumed = wake.inputs.clone().with_later(&draft.state.interrupts);
    let done = WakeEnd { consumed, ..WakeEnd::default() };
    match ending {
        WakeEnding::Directive(directive) => follow(draft, wake, directive, done, limits),
        WakeEnding::Paused => Ok(Conclusion::plain(SpanResult::Blocked, done)),
        WakeEnding::Interrupted => Ok(Conclusion::plain(SpanResult::Interrupted, done)),
        WakeEnding::Malformed { error, excerpt } => {
            let (error, excerpt) = (clip(error), clip(excerpt));
            let message = error.clone();
            draft.write(Some(wake.id), Payload::AgentDirectiveError { error, excerpt })?;
            fail(draft, wake, ErrorClass::Directive, message, done, limits)
        }
        WakeEnding::Failed { class, message } => {
            let class = match class {
                FailureClass::Transient => ErrorClass::Transient,
                FailureClass::Permanent => ErrorClass::Permanent,
            };
            fail(draft, wake, class, clip(message), done, limits)
        }
    }
}

/// A failed attempt is repeated with the same inputs, or they are set aside: nothing fails for ever.
fn fail(
    draft: &mut Draft<'_>,
    wake: &CurrentWake,
    class: ErrorClass,
    message: String,
    done: WakeEnd,
    limits: &SessionLimits,
) -> Result<Conclusion, SessionRefusal> {
    let interrupted = !draft.state.interrupts.is_empty();
    let retry_at_ms = if interrupted { None } else { next_attempt(class, wake.attempt, limits, draft.seed) };
    let attempt = wake.attempt;
    draft.write(Some(wake.id), Payload::SessionError { class, message, attempt, retry_at_ms })?;
    let continues = draft.state.continues;
    let end = match retry_at_ms {
        Some(_) => WakeEnd { retry_at_ms, continues, ..WakeEnd::default() },
        None => done,
    };
    let result = if interrupted { SpanResult::Interrupted } else { SpanResult::Error };
    Ok(Conclusion::plain(result, end))
}

fn follow(
    draft: &mut Draft<'_>,
    wake: &CurrentWake,
    directive: &Directive,
    mut end: WakeEnd,
    limits: &SessionLimits,
) -> Result<Conclusion, SessionRefusal> {
    let Directive { response, summary, outcome, follow_up_seconds, queued_wakes, learnings: _, custom_tools } =
        directive;
    let (message, summary) = (response.clone(), summary.clone());
    draft.write(Some(wake.id), Payload::AgentMessage { message, summary })?;
    for wish in custom_tools {
        let payload = ask(wish, draft.seed);
        check_size(&payload, limits.event_bytes)?;
        draft.write(Some(wake.id), payload)?;
    }
    end.queued = queued_wakes.iter().map(|wish| queue(wish, draft.seed)).collect();
    // A pause wins over going on: the answer will wake the session.
    let goes_on = *outcome == DirectiveOutcome::Continue && custom_tools.is_empty();
    let mut stop_reason = None;
    if goes_on {
        let before = if wake.inputs.is_empty() { draft.state.continues } else { 0 };
        if before < limits.continues {
            end.continues = before + 1;
            let delay_ms =
                follow_up_seconds.map_or(limits.follow_up_ms, |seconds| seconds.saturating_mul(1_000));
            end.queued.push(follow_up(delay_ms, draft.seed));
        } else {
            stop_reason = Some(StopReason::ContinueLimit);
        }
    }
    let paused = draft.state.open_requests().next().is_some();
    let result = if paused { SpanResult::Blocked } else { SpanResult::Success };
    Ok(Conclusion { result, end, stop_reason })
}

fn ask(wish: &CustomToolCall, seed: &mut TimeSeed) -> Payload {
    let CustomToolCall { name, input, expires_seconds } = wish;
    let input = Value::Object(input.clone());
    let question = ToolRequestRef {
        request_id: RequestId::generate(seed),
        input_digest: Sha256Digest::of_json(&input),
        expires_ms: expires_seconds.map(|seconds| seed.now.plus_ms(seconds.saturating_mul(1_000))),
    };
    Payload::AgentCustomToolUse { tool: name.clone(), input, question }
}

fn queue(wish: &WakeRequest, seed: &mut TimeSeed) -> QueuedWake {
    let WakeRequest { reason, delay_seconds, note, dedupe_key, priority } = wish.clone();
    let due_ms = seed.now.plus_ms(delay_seconds.saturating_mul(1_000));
    QueuedWake { id: WakeId::generate(seed), due_ms, reason, note, dedupe_key, priority }
}

fn follow_up(delay_ms: u64, seed: &mut TimeSeed) -> QueuedWake {
    QueuedWake {
        id: WakeId::generate(seed),
        due_ms: seed.now.plus_ms(delay_ms),
        reason: FOLLOW_UP.to_owned(),
        note: None,
        dedupe_key: Some(FOLLOW_UP.to_owned()),
        priority: WakePriority::Normal,
    }
}

/// The state must stay small: it is written with every event.
pub(crate) fn check_room(state: &SessionState, limits: &SessionLimits) -> Result<(), SessionRefusal> {
    let bounds = [
        ("queued wakes", state.wakes.len(), limits.queued_wakes),
        ("open requests", state.requests.len(), limits.open_requests),
        ("memory files", state.memory.len(), limits.memory_files),
        ("runtime conversations", state.bindings.len(), limits.bindings),
    ];
    match bounds.into_iter().find(|(_, count, limit)| count > limit) {
        Some((what, count, limit)) => Err(SessionRefusal::TooMany { what, count, limit }),
        None => Ok(()),
    }
}

fn announce(
    draft: &mut Draft<'_>,
    wake: WakeId,
    stop_reason: Option<StopReason>,
) -> Result<(), SessionRefusal> {
    match stop_reason {
        Some(reason) if draft.state.status == SessionStatus::Idle => {
            draft.write(Some(wake), Payload::SessionStatusIdle { reason })?;
        }
        _ => draft.announce(Some(wake), draft.state.stop_reason.word())?,
    }
    Ok(())
}

fn check_bindings(bindings: &BTreeMap<String, String>) -> Result<(), SessionRefusal> {
    const LIMIT: usize = 500;
    let size = bindings.iter().map(|(runtime, conversation)| runtime.len() + conversation.len()).max();
    match size {
        Some(size) if size > LIMIT => {
            Err(SessionRefusal::TooLarge { what: "conversation id", size, limit: LIMIT })
        }
        _ => Ok(()),
    }
}

/// Error texts come from outside and may be long.
fn clip(text: &str) -> String {
    const LIMIT: usize = 2_000;
    let mut clipped: String = text.chars().take(LIMIT).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
