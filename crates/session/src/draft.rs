//! Events about to be stored, together with the state they lead to. Every writer goes through a draft, so the
//! stored state is the fold of the stored events by construction.

use crate::event::{EVENT_VERSION, Event, Payload};
use crate::fold::Illegal;
use crate::id::{EventId, WakeId};
use crate::moment::Moment;
use crate::sequence::Seq;
use crate::state::State;
use crate::status::Status;
use crate::store::{Change, Hold};

pub(crate) struct Draft<'a> {
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
    pub(crate) moment: &'a mut Moment,
    from: Status,
}

/// A finished draft. Without events there is nothing to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drafted {
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
}

impl Drafted {
    /// What a store is to write, if there is anything.
    pub(crate) fn into_change(self, hold: Option<Hold>) -> Option<Change> {
        let Self { state, events } = self;
        if events.is_empty() {
            return None;
        }
        Some(Change { events, ..Change::of(state, hold) })
    }
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: &State, moment: &'a mut Moment) -> Self {
        Self { from: state.status, state: state.clone(), events: Vec::new(), moment }
    }

    pub(crate) fn done(self) -> Drafted {
        Drafted { state: self.state, events: self.events }
    }

    /// Writes an event of the session's own.
    pub(crate) fn write(&mut self, wake_id: Option<WakeId>, payload: Payload) -> Result<Seq, Illegal> {
        let id = EventId::draw(self.moment);
        self.push(id, wake_id, payload)
    }

    pub(crate) fn push(
        &mut self,
        id: EventId,
        wake_id: Option<WakeId>,
        payload: Payload,
    ) -> Result<Seq, Illegal> {
        let seq = self.state.head.next();
        let event = Event { version: EVENT_VERSION, seq, id, time_ms: self.moment.now, wake_id, payload };
        self.state.fold(&event)?;
        self.events.push(event);
        Ok(seq)
    }

    /// Says where the session stands after all this, for those who follow the log.
    pub(crate) fn announce(&mut self, wake_id: Option<WakeId>, reason: &str) -> Result<(), Illegal> {
        let to = self.state.status;
        let payload = if to == Status::Idle {
            Payload::SessionStatusIdle { reason: self.state.stop_reason }
        } else {
            let blocking = self.state.open_requests().map(|request| request.id).collect();
            let reason = reason.to_owned();
            Payload::SessionStatusChanged { from: self.from, to, reason, blocking, queued: Vec::new() }
        };
        self.write(wake_id, payload)?;
        self.from = to;
        Ok(())
    }
}
