//! How a wake ends, as a pure decision. All its effects (consumed inputs, events, state, queued wakes, requests) are one
//! draft, which the store writes atomically.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::decide::children;
use crate::decide::directive::{CustomToolCall, Directive, DirectiveOutcome, WakeRequest};
use crate::decide::draft::{Draft, FinishedDraft};
use crate::decide::ingress::check_size;
use crate::decide::lease::fence;
use crate::decide::limits::SessionLimits;
use crate::decide::memory::check_memory_writes;
use crate::decide::refusal::SessionRefusal;
use crate::decide::retry::next_attempt;
use crate::log::cron::next_after;
use crate::log::digest::Sha256Digest;
use crate::log::event::{
    CompletedSpan, Payload, QueuedWake, RunReport, SessionEvent, SessionUsage, ToolRequestRef, WakeEnd,
};
use crate::log::header::SessionHeader;
use crate::log::id::{EventId, RequestId, WakeId};
use crate::log::memory::MemoryWrite;
use crate::log::state::{CurrentWake, SessionState};
use crate::log::status::{ErrorClass, SessionStatus, SpanResult, StopReason, WakePriority};
use crate::log::time::TimeSeed;

/// The reason and the deduplication key of the wake that `continue` queues.
pub const FOLLOW_UP: &str = "session.follow_up";

/// What a worker commits when its run ends.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeCommit {
    /// Tool calls, tool spans and the run's id, in order.
    pub reports: Vec<RunReport>,
    pub ending: WakeEnding,
    pub usage: SessionUsage,
    /// Conversation ids by runtime.
    pub bindings: BTreeMap<String, String>,
    pub memory: Vec<MemoryWrite>,
    /// The names of the memory files to delete.
    pub deleted_memory: Vec<String>,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum WakeEnding {
    Directive(Directive),
    /// The run stopped before a tool call that a person must confirm. The reports contain the request.
    Paused,
    /// The directive was missing or malformed, even after feedback.
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

/// Where a commit goes: the token of the lease, the id that the commit's last event gets, and those events of the commit that an
/// earlier try stored.
pub(crate) struct CommitPlace<'a> {
    pub(crate) token: u64,
    pub(crate) id: EventId,
    pub(crate) known: &'a [SessionEvent],
}

/// Drafts the end of the wake that holds the token.
pub(crate) fn finish(
    header: &SessionHeader,
    state: &SessionState,
    place: &CommitPlace<'_>,
    commit: &WakeCommit,
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    let wake = fence(state, place.token)?.clone();
    check_memory_writes(&commit.memory, limits)?;
    check_bindings(&commit.bindings)?;
    let mut draft = Draft::new(state, seed);
    report(&mut draft, place.known, &commit.reports, limits)?;
    let requested = draft.state.open_requests().count() > state.open_requests().count();
    let may_request =
        matches!(commit.ending, WakeEnding::Directive(_) | WakeEnding::Paused | WakeEnding::Interrupted);
    let must_request = commit.ending == WakeEnding::Paused;
    if (requested && !may_request) || (must_request && !requested) {
        return Err(SessionRefusal::RequestMismatch);
    }
    if let WakeEnding::Directive(directive) = &commit.ending {
        for child in children::spawn(header, state, &directive.spawn, limits, draft.seed)? {
            draft.write(Some(wake.id), child)?;
        }
    }
    let Conclusion { result, mut end, stop_reason } = conclude(&mut draft, &wake, &commit.ending, limits)?;
    end.usage = commit.usage;
    end.bindings = commit.bindings.clone();
    end.memory = commit.memory.iter().map(|write| write.file.digest()).collect();
    end.deleted_memory = deleted_memory(state, commit)?;
    let span = CompletedSpan::Wake(Box::new(end));
    draft.push(place.id, Some(wake.id), Payload::SpanCompleted { span_id: wake.id.into(), result, span })?;
    check_room(&draft.state, limits)?;
    announce(&mut draft, wake.id, stop_reason)?;
    Ok(draft.done())
}

/// Drafts the reports of a running run.
pub(crate) fn progress(
    state: &SessionState,
    token: u64,
    known: &[SessionEvent],
    reports: &[RunReport],
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<FinishedDraft, SessionRefusal> {
    fence(state, token)?;
    let mut draft = Draft::new(state, seed);
    report(&mut draft, known, reports, limits)?;
    check_room(&draft.state, limits)?;
    Ok(draft.done())
}

/// Writes the reports that are not stored yet: an earlier call may have stored some without getting the reply.
fn report(
    draft: &mut Draft<'_>,
    known: &[SessionEvent],
    reports: &[RunReport],
    limits: &SessionLimits,
) -> Result<(), SessionRefusal> {
    let count = reports.len();
    let limit = limits.events_per_commit;
    if count > limit {
        return Err(SessionRefusal::TooMany { what: "events in one commit", count, limit });
    }
    let wake_id = draft.state.wake.as_ref().map(|wake| wake.id);
    let is_stored = |id: EventId| known.iter().any(|event| event.id == id);
    for RunReport { id, payload } in reports.iter().filter(|report| !is_stored(report.id)) {
        if !payload.is_report() {
            return Err(SessionRefusal::NotAReport { kind: payload.kind() });
        }
        check_size(payload, limits.event_bytes)?;
        draft.push(*id, wake_id, payload.clone())?;
    }
    Ok(())
}

/// The effect of an ending on its wake.
struct Conclusion {
    result: SpanResult,
    end: WakeEnd,
    /// Why the session stops, if that is more precise than the reason that the state derives from the events.
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
    let queued = scheduled_again(&draft.state, wake, draft.seed);
    let done = WakeEnd { consumed, queued, ..WakeEnd::default() };
    match ending {
        WakeEnding::Directive(directive) => follow(draft, wake, directive, done, limits),
        WakeEnding::Paused => Ok(Conclusion::plain(SpanResult::Blocked, done)),
        WakeEnding::Interrupted => Ok(Conclusion::plain(SpanResult::Interrupted, done)),
        WakeEnding::Malformed { error, excerpt } => {
            let message = clip(error);
            let malformed = Payload::AgentDirectiveError { error: message.clone(), excerpt: clip(excerpt) };
            draft.write(Some(wake.id), malformed)?;
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

/// Retries a failed attempt with the same inputs, or gives it up: no wake is retried for ever.
fn fail(
    draft: &mut Draft<'_>,
    wake: &CurrentWake,
    class: ErrorClass,
    message: String,
    done: WakeEnd,
    limits: &SessionLimits,
) -> Result<Conclusion, SessionRefusal> {
    let interrupted = !draft.state.interrupts.is_empty();
    let retry_at_ms = if interrupted { None } else { next_attempt(class, wake, limits, draft.seed) };
    let attempt = wake.attempt;
    draft.write(Some(wake.id), Payload::SessionError { class, message, attempt, retry_at_ms })?;
    let continues = draft.state.continues;
    let counted = class == ErrorClass::Directive;
    let end = match retry_at_ms {
        Some(_) => WakeEnd { retry_at_ms, continues, counted, ..WakeEnd::default() },
        None if interrupted => done,
        None => give_up(wake, 0, done.queued),
    };
    let result = if interrupted { SpanResult::Interrupted } else { SpanResult::Error };
    Ok(Conclusion::plain(result, end))
}

/// Gives up on a wake. A batch is split, so that one bad input does not make the others fail: the next wakes get fewer
/// inputs. A single input becomes a dead letter, which a person can retry or drop.
pub(crate) fn give_up(wake: &CurrentWake, continues: u32, queued: Vec<QueuedWake>) -> WakeEnd {
    if wake.inputs.len() > 1 {
        return WakeEnd { is_split: true, continues, ..WakeEnd::default() };
    }
    let inputs = wake.inputs.clone();
    WakeEnd { consumed: inputs.clone(), dead: inputs, continues, queued, ..WakeEnd::default() }
}

fn follow(
    draft: &mut Draft<'_>,
    wake: &CurrentWake,
    directive: &Directive,
    mut end: WakeEnd,
    limits: &SessionLimits,
) -> Result<Conclusion, SessionRefusal> {
    let Directive {
        response,
        summary,
        outcome,
        follow_up_seconds,
        queued_wakes,
        learnings: _,
        custom_tools,
        spawn: _,
    } = directive;
    let message = Payload::AgentMessage { message: response.clone(), summary: summary.clone() };
    draft.write(Some(wake.id), message)?;
    for call in custom_tools {
        let payload = request_tool(call, draft.seed);
        check_size(&payload, limits.event_bytes)?;
        draft.write(Some(wake.id), payload)?;
    }
    end.queued.extend(queued_wakes.iter().map(|request| queue(request, draft.seed)));
    // A request wins over `continue`: the answer will wake the session.
    let continues = *outcome == DirectiveOutcome::Continue && custom_tools.is_empty();
    // The newest directive decides when the session continues: it moves or cancels an earlier `continue`.
    let is_follow_up = |queued: &&QueuedWake| queued.dedupe_key.as_deref() == Some(FOLLOW_UP);
    end.cancelled = draft.state.wakes.iter().filter(is_follow_up).map(|queued| queued.id).collect();
    let mut stop_reason = None;
    if continues {
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

fn request_tool(call: &CustomToolCall, seed: &mut TimeSeed) -> Payload {
    let CustomToolCall { name, input, expires_seconds } = call;
    let input = Value::Object(input.clone());
    let question = ToolRequestRef {
        request_id: RequestId::generate(seed),
        input_digest: Sha256Digest::of_json(&input),
        expires_ms: expires_seconds.map(|seconds| seed.now.plus_ms(seconds.saturating_mul(1_000))),
    };
    Payload::AgentCustomToolUse { tool: name.clone(), input, question }
}

fn queue(request: &WakeRequest, seed: &mut TimeSeed) -> QueuedWake {
    let WakeRequest { reason, delay_seconds, note, dedupe_key, priority } = request.clone();
    let due_ms = seed.now.plus_ms(delay_seconds.saturating_mul(1_000));
    QueuedWake { id: WakeId::generate(seed), due_ms, reason, note, dedupe_key, priority, cron: None }
}

/// The queued wakes with a cron schedule that this wake served, queued again for their next time.
pub(crate) fn scheduled_again(
    state: &SessionState,
    wake: &CurrentWake,
    seed: &mut TimeSeed,
) -> Vec<QueuedWake> {
    let mut queued = Vec::new();
    for ran in state.wakes.iter().filter(|queued| wake.woken.contains(&queued.id)) {
        if let Some(due_ms) = ran.cron.as_deref().and_then(|cron| next_after(cron, seed.now)) {
            queued.push(QueuedWake { id: WakeId::generate(seed), due_ms, ..ran.clone() });
        }
    }
    queued
}

/// The names of the files to delete that exist. A file cannot be written and deleted at once.
fn deleted_memory(state: &SessionState, commit: &WakeCommit) -> Result<Vec<String>, SessionRefusal> {
    let is_written = |name: &String| commit.memory.iter().any(|write| write.file.name == *name);
    if let Some(name) = commit.deleted_memory.iter().find(|name| is_written(name)) {
        return Err(SessionRefusal::MemoryName { name: name.clone() });
    }
    Ok(commit.deleted_memory.iter().filter(|name| state.memory.contains_key(*name)).cloned().collect())
}

fn follow_up(delay_ms: u64, seed: &mut TimeSeed) -> QueuedWake {
    QueuedWake {
        id: WakeId::generate(seed),
        due_ms: seed.now.plus_ms(delay_ms),
        reason: FOLLOW_UP.to_owned(),
        note: None,
        dedupe_key: Some(FOLLOW_UP.to_owned()),
        priority: WakePriority::Normal,
        cron: None,
    }
}

/// The state is written with every event, so it must stay small.
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

/// Error texts come from outside and can be long.
fn clip(text: &str) -> String {
    const LIMIT: usize = 2_000;
    let mut clipped: String = text.chars().take(LIMIT).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
