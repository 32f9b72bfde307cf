//! The rows that a wake's prompt is made from: state, inputs, the end of the log, memory and learnings. It reads a bounded
//! number of rows, whatever the length of the log. It writes no prompt.

use crate::api::sessions::{Sessions, check_complete, check_memory};
use crate::decide::lease::Lease;
use crate::decide::lease::fence;
use crate::log::event::SessionEvent;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seq::Seq;
use crate::log::state::{CurrentWake, SessionState};
use crate::store::{EventClass, Session, SessionError, StoreError};

/// How much of the past to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextWindow {
    /// Events of the conversation.
    pub conversation: usize,
    /// Events about how the work went.
    pub work: usize,
    /// The size limit of each of the two.
    pub bytes: usize,
    pub learnings: usize,
}

impl Default for ContextWindow {
    fn default() -> Self {
        Self { conversation: 48, work: 12, bytes: 1 << 20, learnings: 32 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContextSource {
    pub session: Session,
    pub wake: CurrentWake,
    /// The inputs of this wake, oldest first.
    pub inputs: Vec<SessionEvent>,
    /// The conversation before this wake, oldest first, without the inputs of this wake or of later ones.
    pub history: Vec<SessionEvent>,
    pub work: Vec<SessionEvent>,
    /// The agent's requests that are open, expired, or answered by this wake's inputs.
    pub requests: Vec<SessionEvent>,
    pub outcome: Option<SessionEvent>,
    /// The agent's last message with its summary, however old.
    pub last_message: Option<SessionEvent>,
    pub memory: Vec<MemoryFile>,
    pub learnings: Vec<StoredLearning>,
}

impl Sessions {
    /// The rows of a wake's prompt, at a cost that does not depend on the length of the log.
    pub fn context(&mut self, lease: &Lease, window: &ContextWindow) -> Result<ContextSource, SessionError> {
        let session = self.session(lease.session)?;
        let wake = fence(&session.state, lease.token)?.clone();
        let id = lease.session;
        let state = &session.state;
        if self.store.last_seq(id)? < state.head {
            let what = format!("event {} is missing", state.head.0);
            return Err(StoreError::Corrupt { session: Some(id), what }.into());
        }
        let mut inputs = Vec::new();
        for (first, last) in wake.inputs.ranges() {
            let before = Seq(first.0 - 1);
            let range = self.store.events(id, before, *last, wake.inputs.len())?;
            check_complete(id, before, *last, wake.inputs.len(), &range)?;
            inputs.extend(range);
        }
        let asked = state.requests.iter().chain(&wake.expired).map(|request| request.asked);
        let requests = asked.map(|seq| self.event(id, seq)).collect::<Result<_, _>>()?;
        let outcome = state.outcome.map(|seq| self.event(id, seq)).transpose()?;
        let last_message = state.last_message.map(|seq| self.event(id, seq)).transpose()?;
        let work = self.store.tail(id, EventClass::Work, state.head, window.work, window.bytes)?;
        let history = self.history(state, id, &wake, window, &work)?;
        let memory = self.store.memory(id)?;
        check_memory(&session, &memory)?;
        let header = &session.header;
        let learnings =
            self.store.learnings(header.repository.as_deref(), &header.agent, window.learnings)?;
        Ok(ContextSource {
            session,
            wake,
            inputs,
            history,
            work,
            requests,
            outcome,
            last_message,
            memory,
            learnings,
        })
    }

    fn history(
        &mut self,
        state: &SessionState,
        id: SessionId,
        wake: &CurrentWake,
        window: &ContextWindow,
        work: &[SessionEvent],
    ) -> Result<Vec<SessionEvent>, SessionError> {
        // The inputs of the wake are among the last events and are removed again.
        let limit = window.conversation + wake.inputs.len();
        let mut events = self.store.tail(id, EventClass::Conversation, state.head, limit, window.bytes)?;
        check_ends(id, state.head, &events, work)?;
        events.retain(|event| !state.pending.contains(event.seq));
        let surplus = events.len().saturating_sub(window.conversation);
        Ok(events.split_off(surplus))
    }

    /// One event that the state names.
    fn event(&mut self, id: SessionId, seq: Seq) -> Result<SessionEvent, SessionError> {
        let found = self.store.events(id, Seq(seq.0 - 1), seq, 1)?.pop();
        let missing =
            || StoreError::Corrupt { session: Some(id), what: format!("event {} is missing", seq.0) };
        Ok(found.ok_or_else(missing)?)
    }
}

/// Checks that two classes of events together have no gap before the end of the log, as far back as both were read.
fn check_ends(
    id: SessionId,
    head: Seq,
    conversation: &[SessionEvent],
    work: &[SessionEvent],
) -> Result<(), StoreError> {
    let (Some(first), Some(second)) = (conversation.first(), work.first()) else { return Ok(()) };
    let from = first.seq.max(second.seq);
    let mut seqs: Vec<u64> =
        conversation.iter().chain(work).map(|event| event.seq.0).filter(|seq| *seq >= from.0).collect();
    seqs.sort_unstable();
    let missing = (from.0..=head.0).find(|seq| seqs.binary_search(seq).is_err());
    match missing {
        Some(seq) => Err(StoreError::Corrupt {
            session: Some(id),
            what: format!("event {seq} of {} is missing", head.0),
        }),
        None => Ok(()),
    }
}

/// The part of a history that fits a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextFit {
    /// The first event that fits. All later ones fit too.
    pub from: usize,
    pub dropped: usize,
    pub cost: usize,
}

/// The longest end of a history whose cost is within the budget, without gaps.
#[must_use]
pub fn fit(costs: &[usize], budget: usize) -> ContextFit {
    let mut fit = ContextFit { from: costs.len(), dropped: costs.len(), cost: 0 };
    for (at, cost) in costs.iter().enumerate().rev() {
        match fit.cost.checked_add(*cost) {
            Some(total) if total <= budget => fit = ContextFit { from: at, dropped: at, cost: total },
            _ => break,
        }
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_events_fit_without_gaps() {
        let check = |costs: &[usize], budget, from, cost| {
            assert_eq!(fit(costs, budget), ContextFit { from, dropped: from, cost }, "{costs:?} in {budget}");
        };
        check(&[], 10, 0, 0);
        check(&[5, 5], 10, 0, 10);
        check(&[5, 5], 9, 1, 5);
        check(&[1, 9, 1], 5, 2, 1);
        check(&[1, 1, 9], 5, 3, 0);
        check(&[usize::MAX, usize::MAX], usize::MAX, 1, usize::MAX);
    }
}
