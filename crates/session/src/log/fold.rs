//! The state machine: folds a log into a state, one event at a time. It is total and pure: every pair of state and event
//! has one successor or is refused here.

use std::fmt;

use crate::log::digest::Sha256Digest;
use crate::log::event::{
    CompletedSpan, Payload, QueuedWake, SessionEvent, SessionUsage, StartedSpan, ToolRequestRef, WakeEnd,
    WakeStart,
};
use crate::log::id::{RequestId, WakeId};
use crate::log::seq::{Seq, SeqSet};
use crate::log::state::{ChildSession, CurrentWake, SessionState, ToolRequest, ToolRequestKind, WakePhase};
use crate::log::status::{SessionStatus, SpanResult, StopReason};
use crate::log::time::Timestamp;

/// The most dead letters that a state lists. Older ones are only in the log.
const MAX_DEAD_LETTERS: usize = 10_000;

/// A batch limit that no wake reaches.
const MAX_BATCH: usize = 1_024;

/// An event that cannot follow the state. A stored log has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTransition {
    pub kind: &'static str,
    pub status: SessionStatus,
    pub why: &'static str,
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot follow while the session is {}: {}", self.kind, self.status, self.why)
    }
}

impl std::error::Error for InvalidTransition {}

impl SessionState {
    /// Applies one event. A refused event leaves the state unchanged.
    pub fn apply(&mut self, event: &SessionEvent) -> Result<(), InvalidTransition> {
        let mut next = self.clone();
        next.fold(event)?;
        *self = next;
        Ok(())
    }

    /// Applies one event without a copy. After a refused event the state is unusable: drafts end then.
    pub(crate) fn fold(&mut self, event: &SessionEvent) -> Result<(), InvalidTransition> {
        let status = self.status;
        self.step(event).map_err(|why| InvalidTransition { kind: event.payload.kind(), status, why })
    }

    fn step(&mut self, event: &SessionEvent) -> Result<(), &'static str> {
        require(event.seq == self.head.next(), "its sequence number is not the next one")?;
        require(self.status != SessionStatus::Terminated, "a terminated session accepts nothing")?;
        self.head = event.seq;
        match &event.payload {
            Payload::UserMessage { .. } => self.add_pending(event),
            Payload::UserDefineOutcome { .. } => {
                self.outcome = Some(event.seq);
                self.add_pending(event);
            }
            Payload::UserInterrupt { .. } => self.interrupt(event.seq),
            Payload::UserToolConfirmation { request_id, input_digest, .. } => {
                self.answer(event, ToolRequestKind::Confirmation, *request_id, *input_digest)?;
            }
            Payload::UserCustomToolResult { request_id, input_digest, .. } => {
                self.answer(event, ToolRequestKind::CustomTool, *request_id, *input_digest)?;
            }
            Payload::SessionStatusChanged { to, queued, cancelled, .. } => {
                self.wakes.retain(|wake| !cancelled.contains(&wake.id));
                self.announce(*to, queued)?;
            }
            Payload::SessionEnvironmentAccepted { environment } => {
                self.environment = Some(environment.clone());
            }
            Payload::UserChildResult { child, .. } => {
                let found = self.children.iter_mut().find(|known| known.id == *child);
                let found = found.ok_or("the session did not start it")?;
                require(found.result.is_none(), "its result is already known")?;
                found.result = Some(event.seq);
                self.add_pending(event);
            }
            Payload::SessionDeadRetried { inputs } => {
                self.take_dead(inputs)?;
                self.pending.merge(inputs);
                self.pending_since_ms.get_or_insert(event.time_ms);
            }
            Payload::SessionDeadDropped { inputs } => self.take_dead(inputs)?,
            Payload::SessionStatusIdle { reason } => {
                require(self.status == SessionStatus::Idle, "it is not idle")?;
                self.stop_reason = *reason;
            }
            Payload::SpanStarted { span_id, span: StartedSpan::Wake(start), .. } => {
                self.start_wake(WakeId(span_id.0), start, event.time_ms)?;
            }
            _ => self.step_of_wake(event)?,
        }
        self.status = self.derive_status();
        Ok(())
    }

    /// The events of a running wake.
    fn step_of_wake(&mut self, event: &SessionEvent) -> Result<(), &'static str> {
        let wake = self.running().ok_or("no wake is running")?;
        require(event.wake_id == Some(wake.id), "another wake is running")?;
        match &event.payload {
            Payload::AgentMessage { .. } => self.last_message = Some(event.seq),
            Payload::SessionChildSpawned { child, title, budget_microdollars } => {
                let new = ChildSession {
                    id: *child,
                    title: title.clone(),
                    budget_microdollars: *budget_microdollars,
                    result: None,
                };
                self.children.push(new);
            }
            Payload::RunAttached { .. } => self.last_run = Some(event.seq),
            Payload::RunUsage { usage } => {
                if let Some(wake) = &mut self.wake {
                    wake.usage = *usage;
                }
            }
            Payload::AgentToolUse { tool, input, confirmation: Some(question), .. } => {
                require(
                    Sha256Digest::of_json(input) == question.input_digest,
                    "the digest is of another input",
                )?;
                self.add_request(event.seq, ToolRequestKind::Confirmation, tool, question)?;
            }
            Payload::AgentCustomToolUse { tool, input, question } => {
                require(
                    Sha256Digest::of_json(input) == question.input_digest,
                    "the digest is of another input",
                )?;
                self.add_request(event.seq, ToolRequestKind::CustomTool, tool, question)?;
            }
            Payload::SpanCompleted { span_id, result, span: CompletedSpan::Wake(end) } => {
                require(span_id.0 == wake.id.0, "another wake is running")?;
                self.end_wake(*result, end, event.time_ms)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn take_dead(&mut self, inputs: &SeqSet) -> Result<(), &'static str> {
        require(!inputs.is_empty() && self.dead.includes(inputs), "the inputs are not dead letters")?;
        self.dead.remove_all(inputs);
        Ok(())
    }

    fn add_pending(&mut self, event: &SessionEvent) {
        self.pending.push(event.seq);
        self.pending_since_ms.get_or_insert(event.time_ms);
    }

    /// An interrupt waits for the running wake to stop. Without one it takes effect at once.
    fn interrupt(&mut self, seq: Seq) {
        if self.running().is_some() {
            self.interrupts.push(seq);
        } else {
            self.cancel_plans();
            self.stop_reason = StopReason::Interrupted;
        }
    }

    /// Drops what the session would do by itself: a retry, queued wakes, open requests. Schedules stay, and so do inputs,
    /// except for those of the dropped attempt.
    fn cancel_plans(&mut self) {
        if let Some(wake) = self.wake.take() {
            self.consume(&wake.inputs);
        }
        self.wakes.retain(|wake| wake.cron.is_some());
        self.requests.retain(|request| request.answered.is_some());
        self.continues = 0;
    }

    fn answer(
        &mut self,
        event: &SessionEvent,
        kind: ToolRequestKind,
        id: RequestId,
        input_digest: Sha256Digest,
    ) -> Result<(), &'static str> {
        let found = self.requests.iter_mut().find(|request| request.id == id && request.kind == kind);
        let request = found.ok_or("the request is not open")?;
        require(request.answered.is_none(), "the request is already answered")?;
        require(request.input_digest == input_digest, "the answer is for another input")?;
        request.answered = Some(event.seq);
        self.add_pending(event);
        Ok(())
    }

    fn add_request(
        &mut self,
        asked: Seq,
        kind: ToolRequestKind,
        tool: &str,
        question: &ToolRequestRef,
    ) -> Result<(), &'static str> {
        let ToolRequestRef { request_id: id, input_digest, expires_ms } = *question;
        require(self.request(id).is_none(), "the request exists already")?;
        let tool = tool.to_owned();
        self.requests.push(ToolRequest { id, kind, tool, input_digest, asked, expires_ms, answered: None });
        Ok(())
    }

    fn start_wake(&mut self, id: WakeId, start: &WakeStart, now: Timestamp) -> Result<(), &'static str> {
        require(self.running().is_none(), "a wake is running")?;
        require(start.token > self.token, "its token is not higher than the last one")?;
        require(self.pending.includes(&start.inputs), "its inputs are not pending")?;
        let failures = self.wake.as_ref().map_or(0, |wake| wake.failures);
        let first_ms = self.wake.as_ref().map_or(Some(now), |wake| wake.first_ms);
        let (attempts_before, expired) = match &self.wake {
            Some(wake) => {
                require(wake.id == id, "another wake must be retried first")?;
                require(wake.inputs == start.inputs, "a retry must have the same inputs")?;
                (wake.attempt, wake.expired.clone())
            }
            None => (0, self.take_expired(&start.expired)),
        };
        require(start.attempt == attempts_before + 1, "its attempt number is not the next one")?;
        let WakeStart { token, attempt, inputs, woken, expired: _ } = start.clone();
        self.token = token;
        let phase = WakePhase::Running;
        let usage = SessionUsage::default();
        self.wake = Some(CurrentWake {
            id,
            token,
            attempt,
            failures,
            first_ms,
            usage,
            inputs,
            woken,
            expired,
            phase,
        });
        Ok(())
    }

    fn take_expired(&mut self, ids: &[RequestId]) -> Vec<ToolRequest> {
        let (expired, open) = self.requests.drain(..).partition(|request| ids.contains(&request.id));
        self.requests = open;
        expired
    }

    fn end_wake(&mut self, result: SpanResult, end: &WakeEnd, now: Timestamp) -> Result<(), &'static str> {
        let known =
            end.consumed.iter().all(|seq| self.pending.contains(seq) || self.interrupts.contains(seq));
        require(known, "it consumes inputs that are not pending")?;
        let WakeEnd {
            consumed,
            queued,
            continues,
            retry_at_ms,
            usage,
            bindings,
            memory,
            dead,
            is_split,
            counted,
            cancelled,
            deleted_memory,
        } = end;
        require(consumed.includes(dead), "a dead letter must be consumed")?;
        require(!is_split || consumed.is_empty(), "a wake that is split cannot consume inputs")?;
        self.dead.merge(dead);
        self.dead.keep_last(MAX_DEAD_LETTERS);
        self.usage.add(*usage);
        self.bindings.extend(bindings.clone());
        self.memory.extend(memory.clone());
        self.memory.retain(|name, _| !deleted_memory.contains(name));
        self.wakes.retain(|queued| !cancelled.contains(&queued.id));
        let interrupted = consumed.iter().any(|seq| self.interrupts.contains(seq));
        if let Some(at_ms) = *retry_at_ms {
            require(consumed.is_empty(), "a wake that is retried cannot consume inputs")?;
            if let Some(wake) = &mut self.wake {
                wake.phase = WakePhase::Retrying { at_ms };
                wake.failures += u32::from(*counted);
            }
        } else if let Some(wake) = self.wake.take() {
            self.continues = *continues;
            if *is_split {
                self.batch_limit = Some((wake.inputs.len() / 2).max(1));
            } else {
                self.wakes.retain(|queued| !wake.woken.contains(&queued.id));
                // The batches grow again, until the limit has no effect.
                self.batch_limit = self.batch_limit.map(|limit| limit * 2).filter(|limit| *limit < MAX_BATCH);
            }
        }
        self.consume(consumed);
        if !self.pending.is_empty() {
            self.pending_since_ms = Some(now);
        }
        self.queue(queued);
        if interrupted {
            self.cancel_plans();
        }
        self.stop_reason = self.reason_to_stop(result);
        Ok(())
    }

    fn reason_to_stop(&self, result: SpanResult) -> StopReason {
        match (result, self.derive_status()) {
            (SpanResult::Interrupted, _) => StopReason::Interrupted,
            (_, SessionStatus::RequiresAction) => StopReason::RequiresAction,
            (SpanResult::Error | SpanResult::Lost, SessionStatus::Idle) => StopReason::Error,
            (_, SessionStatus::Idle) => StopReason::EndTurn,
            _ => StopReason::Rescheduled,
        }
    }

    fn consume(&mut self, consumed: &SeqSet) {
        self.pending.remove_all(consumed);
        self.interrupts.remove_all(consumed);
        self.requests.retain(|request| request.answered.is_none_or(|seq| !consumed.contains(seq)));
        if self.pending.is_empty() {
            self.pending_since_ms = None;
        }
    }

    /// Queues wakes. One whose key is already queued is dropped.
    fn queue(&mut self, queued: &[QueuedWake]) {
        for wake in queued {
            let same_key =
                |other: &QueuedWake| wake.dedupe_key.is_some() && other.dedupe_key == wake.dedupe_key;
            if !self.wakes.iter().any(same_key) {
                self.wakes.push(wake.clone());
            }
        }
    }

    /// A status event must match the derived status. Termination is the exception: it sets the status.
    fn announce(&mut self, to: SessionStatus, queued: &[QueuedWake]) -> Result<(), &'static str> {
        self.queue(queued);
        if to == SessionStatus::Terminated {
            self.status = to;
            self.stop_reason = StopReason::Terminated;
            self.wake = None;
            self.wakes.clear();
            self.requests.clear();
        }
        require(self.derive_status() == to, "the events before it lead to another status")
    }
}

fn require(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}
