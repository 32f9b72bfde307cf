//! The events of a session's log: a closed, versioned set, one JSON object each. The state of a session is the fold of its
//! events (`fold.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::log::digest::Sha256Digest;
use crate::log::header::SessionEnvironment;
use crate::log::id::{EventId, RequestId, SessionId, SpanId, WakeId};
use crate::log::seq::{Seq, SeqSet};
use crate::log::status::{ErrorClass, SessionStatus, SpanResult, StopReason, WakePriority};
use crate::log::time::Timestamp;

/// The version of events that this code writes. It reads all versions up to this one.
pub const EVENT_VERSION: u32 = 5;

/// The version of an event that names an actor.
pub(crate) const ACTOR_EVENT_VERSION: u32 = 4;

/// The version of an event that names no actor, for programs that do not support actors.
pub(crate) const PLAIN_EVENT_VERSION: u32 = 3;

/// One entry of a log. The store assigns the sequence number; the client chooses the id of a user event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEvent {
    pub version: u32,
    pub seq: Seq,
    pub id: EventId,
    pub time_ms: Timestamp,
    /// The wake that wrote it, if a wake did.
    pub wake_id: Option<WakeId>,
    /// Who did it, where the caller knows the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(flatten)]
    pub payload: Payload,
}

/// The content of an event. People send `user.*`; claims and commits write the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum Payload {
    #[serde(rename = "user.message")]
    UserMessage { message: String },
    #[serde(rename = "user.define_outcome")]
    UserDefineOutcome { title: String, detail: String, success_criteria: Vec<String> },
    #[serde(rename = "user.interrupt")]
    UserInterrupt { note: Option<String> },
    /// Allows or denies one call of one tool with exactly the input that was shown.
    #[serde(rename = "user.tool_confirmation")]
    UserToolConfirmation {
        request_id: RequestId,
        input_digest: Sha256Digest,
        decision: ApprovalDecision,
        note: Option<String>,
    },
    #[serde(rename = "user.custom_tool_result")]
    UserCustomToolResult { request_id: RequestId, input_digest: Sha256Digest, output: Value, is_error: bool },
    #[serde(rename = "agent.message")]
    AgentMessage { message: String, summary: String },
    /// A tool call of a run. With `confirmation` it has not happened yet: a person must allow it first.
    #[serde(rename = "agent.tool_use")]
    AgentToolUse {
        tool: String,
        input: Value,
        output: Option<Value>,
        is_error: bool,
        confirmation: Option<ToolRequestRef>,
    },
    /// A call of a tool that runs outside fullsend.
    #[serde(rename = "agent.custom_tool_use")]
    AgentCustomToolUse { tool: String, input: Value, question: ToolRequestRef },
    /// The run ended without a valid directive.
    #[serde(rename = "agent.directive_error")]
    AgentDirectiveError { error: String, excerpt: String },
    #[serde(rename = "session.status_changed")]
    SessionStatusChanged {
        from: SessionStatus,
        to: SessionStatus,
        reason: String,
        blocking: Vec<RequestId>,
        queued: Vec<QueuedWake>,
        /// The queued wakes that were cancelled.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cancelled: Vec<WakeId>,
    },
    #[serde(rename = "session.status_idle")]
    SessionStatusIdle { reason: StopReason },
    #[serde(rename = "session.error")]
    SessionError { class: ErrorClass, message: String, attempt: u32, retry_at_ms: Option<Timestamp> },
    /// A person moved the session to its environment as it is now.
    #[serde(rename = "session.environment_accepted")]
    SessionEnvironmentAccepted { environment: SessionEnvironment },
    /// The wake started a session of the same agent.
    #[serde(rename = "session.child_spawned")]
    SessionChildSpawned { child: SessionId, title: String, budget_microdollars: u64 },
    /// A session that this one started ended its work.
    #[serde(rename = "user.child_result")]
    UserChildResult { child: SessionId, is_error: bool, message: String, usage: SessionUsage },
    /// Dead letters are pending again.
    #[serde(rename = "session.dead_retried")]
    SessionDeadRetried { inputs: SeqSet },
    /// Dead letters are dropped for good.
    #[serde(rename = "session.dead_dropped")]
    SessionDeadDropped { inputs: SeqSet },
    #[serde(rename = "span.started")]
    SpanStarted { span_id: SpanId, parent_id: Option<SpanId>, name: String, span: StartedSpan },
    #[serde(rename = "span.completed")]
    SpanCompleted { span_id: SpanId, result: SpanResult, span: CompletedSpan },
    /// The run of this wake, and the digest of its record once it exists.
    #[serde(rename = "run.attached")]
    RunAttached { run_id: String, digest: Option<Sha256Digest> },
    /// What this attempt has used so far. If its worker is lost, this is what counts.
    #[serde(rename = "run.usage")]
    RunUsage { usage: SessionUsage },
}

/// An event that a run reports. Reporting it again with the same id stores it once.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    pub id: EventId,
    pub payload: Payload,
}

/// A request as an event names it. An answer must repeat the id and the digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequestRef {
    pub request_id: RequestId,
    pub input_digest: Sha256Digest,
    pub expires_ms: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Allow,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StartedSpan {
    Wake(WakeStart),
    Tool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CompletedSpan {
    Wake(Box<WakeEnd>),
    Tool,
}

/// One attempt at a wake starts. A later attempt has the same span id and inputs, and a higher fencing token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeStart {
    pub token: u64,
    pub attempt: u32,
    pub inputs: SeqSet,
    /// The queued wakes that were due.
    pub woken: Vec<WakeId>,
    /// The requests that expired without an answer.
    pub expired: Vec<RequestId>,
}

/// One attempt at a wake ended. This event has all its effects, so that one event is one step of the fold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WakeEnd {
    /// The consumed inputs. Empty when the wake is retried.
    pub consumed: SeqSet,
    pub queued: Vec<QueuedWake>,
    /// How many wakes in a row ended with `continue` and no new input.
    pub continues: u32,
    pub retry_at_ms: Option<Timestamp>,
    pub usage: SessionUsage,
    /// Conversation names by runtime, for a later wake to resume.
    pub bindings: BTreeMap<String, String>,
    /// The memory files that this commit wrote.
    pub memory: BTreeMap<String, Sha256Digest>,
    /// The consumed inputs that no wake could process.
    #[serde(default, skip_serializing_if = "SeqSet::is_empty")]
    pub dead: SeqSet,
    /// The inputs are pending again, for wakes with fewer inputs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_split: bool,
    /// The failure counts against the limit of attempts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// The queued wakes that this wake cancels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<WakeId>,
    /// The memory files that this commit deletes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_memory: Vec<String>,
}

/// A wake that is queued for later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedWake {
    pub id: WakeId,
    pub due_ms: Timestamp,
    pub reason: String,
    pub note: Option<String>,
    /// While a wake with this key is queued, another one with the same key is dropped.
    pub dedupe_key: Option<String>,
    pub priority: WakePriority,
    /// When the wake is queued again after it ran: a schedule of five fields, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
}

/// What a session used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionUsage {
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_microdollars: u64,
}

impl SessionUsage {
    pub(crate) fn add(&mut self, more: Self) {
        let Self { turns, input_tokens, output_tokens, cost_microdollars } = more;
        self.turns = self.turns.saturating_add(turns);
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        self.cost_microdollars = self.cost_microdollars.saturating_add(cost_microdollars);
    }
}

impl Payload {
    /// The event type as it is stored.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user.message",
            Self::UserDefineOutcome { .. } => "user.define_outcome",
            Self::UserInterrupt { .. } => "user.interrupt",
            Self::UserToolConfirmation { .. } => "user.tool_confirmation",
            Self::UserCustomToolResult { .. } => "user.custom_tool_result",
            Self::AgentMessage { .. } => "agent.message",
            Self::AgentToolUse { .. } => "agent.tool_use",
            Self::AgentCustomToolUse { .. } => "agent.custom_tool_use",
            Self::AgentDirectiveError { .. } => "agent.directive_error",
            Self::SessionStatusChanged { .. } => "session.status_changed",
            Self::SessionStatusIdle { .. } => "session.status_idle",
            Self::SessionError { .. } => "session.error",
            Self::SessionEnvironmentAccepted { .. } => "session.environment_accepted",
            Self::SessionChildSpawned { .. } => "session.child_spawned",
            Self::UserChildResult { .. } => "user.child_result",
            Self::SessionDeadRetried { .. } => "session.dead_retried",
            Self::SessionDeadDropped { .. } => "session.dead_dropped",
            Self::SpanStarted { .. } => "span.started",
            Self::SpanCompleted { .. } => "span.completed",
            Self::RunAttached { .. } => "run.attached",
            Self::RunUsage { .. } => "run.usage",
        }
    }

    /// The version that the event needs. Programs that do not know it skip the session.
    pub(crate) fn version(&self) -> u32 {
        match self {
            Self::SessionEnvironmentAccepted { .. }
            | Self::SessionChildSpawned { .. }
            | Self::UserChildResult { .. } => EVENT_VERSION,
            _ => PLAIN_EVENT_VERSION,
        }
    }

    /// Whether it is an input from outside.
    #[must_use]
    pub fn is_input(&self) -> bool {
        self.kind().starts_with("user.")
    }

    /// Whether it is part of the conversation between user and agent. The rest is about the work.
    #[must_use]
    pub fn is_conversation(&self) -> bool {
        self.is_input() || matches!(self, Self::AgentMessage { .. } | Self::AgentCustomToolUse { .. })
    }

    /// Whether a run may report it. Claims and commits write the rest.
    pub(crate) fn is_report(&self) -> bool {
        match self {
            Self::AgentToolUse { .. } | Self::RunAttached { .. } | Self::RunUsage { .. } => true,
            Self::SpanStarted { span, .. } => *span == StartedSpan::Tool,
            Self::SpanCompleted { span, .. } => *span == CompletedSpan::Tool,
            _ => false,
        }
    }
}
