//! Events that will be stored, with the state that they lead to. Every writer uses a draft, so the stored state is the fold of
//! the stored events.

use crate::log::event::{Payload, SessionEvent};
use crate::log::fold::InvalidTransition;
use crate::log::id::{EventId, WakeId};
use crate::log::seq::Seq;
use crate::log::state::SessionState;
use crate::log::status::SessionStatus;
use crate::log::time::TimeSeed;

pub(crate) struct Draft<'a> {
    pub(crate) state: SessionState,
    pub(crate) events: Vec<SessionEvent>,
    pub(crate) seed: &'a mut TimeSeed,
    from: SessionStatus,
}

/// A finished draft. Without events there is nothing to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedDraft {
    pub(crate) state: SessionState,
    pub(crate) events: Vec<SessionEvent>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: &SessionState, seed: &'a mut TimeSeed) -> Self {
        Self { from: state.status, state: state.clone(), events: Vec::new(), seed }
    }

    pub(crate) fn done(self) -> FinishedDraft {
        FinishedDraft { state: self.state, events: self.events }
    }

    /// Adds an event with a new id.
    pub(crate) fn write(
        &mut self,
        wake_id: Option<WakeId>,
        payload: Payload,
    ) -> Result<Seq, InvalidTransition> {
        let id = EventId::generate(self.seed);
        self.push(id, wake_id, payload)
    }

    pub(crate) fn push(
        &mut self,
        id: EventId,
        wake_id: Option<WakeId>,
        payload: Payload,
    ) -> Result<Seq, InvalidTransition> {
        let seq = self.state.head.next();
        let version = payload.version();
        let event = SessionEvent { version, seq, id, time_ms: self.seed.now, wake_id, by: None, payload };
        self.state.fold(&event)?;
        self.events.push(event);
        Ok(seq)
    }

    /// Adds an event with the session's new status, for readers of the log.
    pub(crate) fn announce(
        &mut self,
        wake_id: Option<WakeId>,
        reason: &str,
    ) -> Result<(), InvalidTransition> {
        let to = self.state.status;
        let payload = if to == SessionStatus::Idle {
            Payload::SessionStatusIdle { reason: self.state.stop_reason }
        } else {
            let blocking = self.state.open_requests().map(|request| request.id).collect();
            let reason = reason.to_owned();
            Payload::SessionStatusChanged {
                from: self.from,
                to,
                reason,
                blocking,
                queued: Vec::new(),
                cancelled: Vec::new(),
            }
        };
        self.write(wake_id, payload)?;
        self.from = to;
        Ok(())
    }
}
