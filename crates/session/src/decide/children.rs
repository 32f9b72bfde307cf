//! Sessions that sessions start, as pure decisions: which ones a directive may start, and what a parent gets when a
//! child has ended its work. The store writes both in the step that decides them, so that no child and no result is
//! lost.

use crate::decide::directive::SpawnRequest;
use crate::decide::draft::FinishedDraft;
use crate::decide::ingress::{self, SessionInput};
use crate::decide::limits::SessionLimits;
use crate::decide::refusal::SessionRefusal;
use crate::log::event::{Payload, SessionEvent};
use crate::log::header::{ParentSession, SessionHeader};
use crate::log::id::{EventId, SessionId};
use crate::log::state::SessionState;
use crate::log::status::SessionStatus;
use crate::log::time::{TimeSeed, Timestamp};

const MAX_RESULT_CHARS: usize = 20_000;

/// The effects of a change of one session on others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChildEffects {
    /// New sessions, each with its first events.
    pub spawned: Vec<SpawnedSession>,
    /// What the parent gets.
    pub result: Option<ChildResult>,
}

impl ChildEffects {
    pub(crate) fn is_empty(&self) -> bool {
        self.spawned.is_empty() && self.result.is_none()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SpawnedSession {
    pub header: SessionHeader,
    pub state: SessionState,
    pub events: Vec<SessionEvent>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChildResult {
    pub parent: SessionId,
    pub input: SessionInput,
    now: Timestamp,
    limits: SessionLimits,
}

impl ChildResult {
    /// Drafts the result as an input of the parent. A parent that does not wait for it gets nothing.
    pub(crate) fn draft(&self, parent: &SessionState, known: &[SessionEvent]) -> Option<FinishedDraft> {
        let mut seed = TimeSeed::new(self.now, [0; 32]);
        let inputs = [self.input.clone()];
        let (draft, _) = ingress::append(parent, known, &inputs, &self.limits, &mut seed).ok()?;
        (!draft.events.is_empty()).then_some(draft)
    }
}

/// Checks what a directive starts, and returns the event of each.
pub(crate) fn spawn(
    header: &SessionHeader,
    state: &SessionState,
    requests: &[SpawnRequest],
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<Vec<Payload>, SessionRefusal> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let depth = header.parent.map_or(0, |parent| parent.depth) + 1;
    if depth > limits.child_depth {
        let why = "a session this deep cannot start others";
        return Err(SessionRefusal::Field { what: "spawn", why });
    }
    let count = state.children.len() + requests.len();
    let limit = limits.children;
    if count > limit {
        return Err(SessionRefusal::TooMany { what: "child sessions", count, limit });
    }
    let budget = |request: &SpawnRequest| {
        request.max_cost_cents.map_or(limits.child_microdollars, |cents| cents.saturating_mul(10_000))
    };
    let reserved: u64 = state.children.iter().map(|child| child.budget_microdollars).sum();
    let wanted: u64 = requests.iter().map(budget).sum();
    let allowed = header.parent.map_or(limits.children_microdollars, |parent| {
        parent.budget_microdollars.saturating_sub(state.usage.cost_microdollars)
    });
    if reserved.saturating_add(wanted) > allowed {
        let why = "the child sessions together may cost more than this session may spend";
        return Err(SessionRefusal::Field { what: "spawn", why });
    }
    let event = |request: &SpawnRequest| Payload::SessionChildSpawned {
        child: SessionId::generate(seed),
        title: request.title.clone(),
        budget_microdollars: budget(request),
    };
    Ok(requests.iter().map(event).collect())
}

/// The sessions that the events of a commit start. They run the same agent in the same repository, without resources.
pub(crate) fn spawned(
    parent: &SessionHeader,
    events: &[SessionEvent],
    requests: &[SpawnRequest],
    limits: &SessionLimits,
    seed: &mut TimeSeed,
) -> Result<Vec<SpawnedSession>, SessionRefusal> {
    let mut all = Vec::new();
    let children = events.iter().filter_map(|event| match &event.payload {
        Payload::SessionChildSpawned { child, budget_microdollars, .. } => {
            Some((*child, *budget_microdollars))
        }
        _ => None,
    });
    for ((id, budget_microdollars), request) in children.zip(requests) {
        let depth = parent.parent.map_or(0, |parent| parent.depth) + 1;
        let header = SessionHeader {
            id,
            resources: Vec::new(),
            created_ms: seed.now,
            parent: Some(ParentSession { session: parent.id, depth, budget_microdollars }),
            imported: false,
            ..parent.clone()
        };
        let message = Payload::UserMessage { message: request.message.clone() };
        let input = SessionInput { id: EventId::generate(seed), payload: message };
        let (draft, _) = ingress::append(&SessionState::default(), &[], &[input], limits, seed)?;
        all.push(SpawnedSession { header, state: draft.state, events: draft.events });
    }
    Ok(all)
}

/// What a parent gets when its child has nothing more to do: the last message of the child, or why there is none.
pub(crate) fn result(
    header: &SessionHeader,
    before: &SessionState,
    after: &SessionState,
    events: &[SessionEvent],
    limits: &SessionLimits,
) -> Option<ChildResult> {
    let parent = header.parent?;
    let has_ended =
        |state: &SessionState| matches!(state.status, SessionStatus::Idle | SessionStatus::Terminated);
    if has_ended(before) || !has_ended(after) {
        return None;
    }
    let text = |event: &SessionEvent| match &event.payload {
        Payload::AgentMessage { message, summary } => {
            Some((false, if message.is_empty() { summary.clone() } else { message.clone() }))
        }
        Payload::SessionError { message, .. } => Some((true, message.clone())),
        Payload::SessionStatusChanged { to: SessionStatus::Terminated, reason, .. } => {
            Some((true, format!("terminated: {reason}")))
        }
        _ => None,
    };
    let (is_error, message) =
        events.iter().rev().find_map(text).unwrap_or((true, "it ended without a message".to_owned()));
    let message: String = message.chars().take(MAX_RESULT_CHARS).collect();
    let child = header.id;
    let input = SessionInput {
        id: EventId::from_key(parent.session, &format!("result of session {child}")),
        payload: Payload::UserChildResult { child, is_error, message, usage: after.usage },
    };
    let now = events.last().map(|event| event.time_ms)?;
    Some(ChildResult { parent: parent.session, input, now, limits: limits.clone() })
}
