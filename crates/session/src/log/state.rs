//! The state that a session's log folds to. It is small whatever the length of the log, and is stored beside the log as a
//! snapshot. Status and due times come from it; only `fold.rs` changes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;
use crate::log::event::{QueuedWake, SessionUsage};
use crate::log::header::SessionEnvironment;
use crate::log::id::{RequestId, SessionId, WakeId};
use crate::log::seq::{Seq, SeqSet};
use crate::log::status::{SessionStatus, StopReason, WakePriority};
use crate::log::time::Timestamp;

/// The version of snapshots that this code writes. It reads all versions up to this one.
pub const STATE_VERSION: u32 = 4;

/// The version of the snapshot of a session without labels, children and accepted environments. Programs that know none of
/// them read it.
pub(crate) const PLAIN_STATE_VERSION: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionState {
    pub version: u32,
    /// The last event of the fold.
    pub head: Seq,
    pub status: SessionStatus,
    pub stop_reason: StopReason,
    /// Inputs that no wake has consumed yet.
    pub pending: SeqSet,
    pub pending_since_ms: Option<Timestamp>,
    /// Interrupts that wait for the running wake to stop.
    pub interrupts: SeqSet,
    pub requests: Vec<ToolRequest>,
    pub wakes: Vec<QueuedWake>,
    pub wake: Option<CurrentWake>,
    /// The highest fencing token so far.
    pub token: u64,
    pub continues: u32,
    pub outcome: Option<Seq>,
    pub last_message: Option<Seq>,
    pub last_run: Option<Seq>,
    pub usage: SessionUsage,
    pub bindings: BTreeMap<String, String>,
    /// The memory files, by name.
    pub memory: BTreeMap<String, Sha256Digest>,
    /// Inputs that were given up, until a person retries or drops them.
    #[serde(default)]
    pub dead: SeqSet,
    /// How many inputs the next wake gets at most, after a batch failed.
    #[serde(default)]
    pub batch_limit: Option<usize>,
    /// The environment that a person moved the session to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<SessionEnvironment>,
    /// The sessions that this one started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildSession>,
}

/// A session that another one started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildSession {
    pub id: SessionId,
    pub title: String,
    pub budget_microdollars: u64,
    /// The event with its result.
    pub result: Option<Seq>,
}

/// A request of the agent to a person or an outside tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    pub id: RequestId,
    pub kind: ToolRequestKind,
    pub tool: String,
    pub input_digest: Sha256Digest,
    /// The event of the request.
    pub asked: Seq,
    pub expires_ms: Option<Timestamp>,
    /// The event of the answer. The request stays until a wake has consumed that event.
    pub answered: Option<Seq>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRequestKind {
    CustomTool,
    Confirmation,
}

/// The wake that runs, or that will be retried with the same inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurrentWake {
    pub id: WakeId,
    pub token: u64,
    pub attempt: u32,
    /// How many attempts failed by their own fault.
    #[serde(default)]
    pub failures: u32,
    /// When the first attempt started.
    #[serde(default)]
    pub first_ms: Option<Timestamp>,
    /// What this attempt has reported as its usage.
    #[serde(default)]
    pub usage: SessionUsage,
    pub inputs: SeqSet,
    pub woken: Vec<WakeId>,
    /// The requests that expired without an answer.
    pub expired: Vec<ToolRequest>,
    pub phase: WakePhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakePhase {
    Running,
    Retrying { at_ms: Timestamp },
}

/// When a session is due, by lane. A worker searches the lanes in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DueTimes {
    /// When the lease or the back-off of a wake ends.
    pub again: Option<Timestamp>,
    /// Since when inputs wait. They are due at once; the time only orders sessions.
    pub input: Option<Timestamp>,
    /// Queued wakes, by priority.
    pub high: Option<Timestamp>,
    pub normal: Option<Timestamp>,
    pub low: Option<Timestamp>,
}

impl DueTimes {
    #[must_use]
    pub fn is_due(self, now: Timestamp, horizon_ms: u64) -> bool {
        let reached = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let again = self.again.is_some_and(|at| is_over(at, now, horizon_ms));
        again || self.input.is_some() || reached(self.high) || reached(self.normal) || reached(self.low)
    }
}

/// Whether a lease or a back-off that ends at `at` is over: the time has passed, or it is so far ahead that the clock must
/// have been set back.
pub(crate) fn is_over(at: Timestamp, now: Timestamp, horizon_ms: u64) -> bool {
    at <= now || at > now.plus_ms(horizon_ms)
}

impl Default for SessionState {
    fn default() -> Self {
        Self {
            version: STATE_VERSION,
            head: Seq(0),
            status: SessionStatus::Idle,
            stop_reason: StopReason::NotStarted,
            pending: SeqSet::default(),
            pending_since_ms: None,
            interrupts: SeqSet::default(),
            requests: Vec::new(),
            wakes: Vec::new(),
            wake: None,
            token: 0,
            continues: 0,
            outcome: None,
            last_message: None,
            last_run: None,
            usage: SessionUsage::default(),
            bindings: BTreeMap::new(),
            memory: BTreeMap::new(),
            dead: SeqSet::default(),
            batch_limit: None,
            environment: None,
            children: Vec::new(),
        }
    }
}

impl SessionState {
    /// The unanswered requests, oldest first.
    pub fn open_requests(&self) -> impl Iterator<Item = &ToolRequest> {
        self.requests.iter().filter(|request| request.answered.is_none())
    }

    #[must_use]
    pub fn request(&self, id: RequestId) -> Option<&ToolRequest> {
        self.requests.iter().find(|request| request.id == id)
    }

    /// The wake that runs now, if one does.
    #[must_use]
    pub fn running(&self) -> Option<&CurrentWake> {
        self.wake.as_ref().filter(|wake| wake.phase == WakePhase::Running)
    }

    /// The queued wakes that are due.
    pub fn due_wakes(&self, now: Timestamp) -> impl Iterator<Item = &QueuedWake> {
        self.wakes.iter().filter(move |wake| wake.due_ms <= now)
    }

    /// The status follows from the other fields. Only termination is stored.
    pub(crate) fn derive_status(&self) -> SessionStatus {
        match self.wake.as_ref().map(|wake| wake.phase) {
            _ if self.status == SessionStatus::Terminated => SessionStatus::Terminated,
            Some(WakePhase::Running) => SessionStatus::Running,
            Some(WakePhase::Retrying { .. }) => SessionStatus::Rescheduling,
            None if self.open_requests().next().is_some() => SessionStatus::RequiresAction,
            None if !self.pending.is_empty() || !self.wakes.is_empty() => SessionStatus::Rescheduling,
            None => SessionStatus::Idle,
        }
    }

    /// When the session is due. For a running one the store knows: when its lease ends.
    #[must_use]
    pub fn due(&self) -> DueTimes {
        match self.status {
            SessionStatus::Idle | SessionStatus::Running | SessionStatus::Terminated => DueTimes::default(),
            // While a request is open, inputs and queued wakes wait. Only its expiry wakes the session.
            SessionStatus::RequiresAction => {
                let expiry = self.open_requests().filter_map(|request| request.expires_ms).min();
                DueTimes { normal: expiry, ..DueTimes::default() }
            }
            SessionStatus::Rescheduling => self.due_again(),
        }
    }

    fn due_again(&self) -> DueTimes {
        if let Some(CurrentWake { phase: WakePhase::Retrying { at_ms }, .. }) = self.wake {
            return DueTimes { again: Some(at_ms), ..DueTimes::default() };
        }
        let earliest = |priority| {
            self.wakes.iter().filter(|wake| wake.priority == priority).map(|wake| wake.due_ms).min()
        };
        DueTimes {
            again: None,
            input: self.pending_since_ms,
            high: earliest(WakePriority::High),
            normal: earliest(WakePriority::Normal),
            low: earliest(WakePriority::Low),
        }
    }
}
