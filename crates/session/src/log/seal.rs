//! An event as a store keeps it: the exact bytes of its payload, and a checksum over all its fields and its session. A reader
//! refuses an event whose checksum does not match.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::log::digest::Sha256Digest;
use crate::log::event::{EVENT_VERSION, PLAIN_EVENT_VERSION, Payload, SessionEvent};
use crate::log::id::{EventId, SessionId, WakeId};
use crate::log::seq::Seq;
use crate::log::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SealedEvent {
    pub(crate) seq: i64,
    pub(crate) id: Uuid,
    pub(crate) time_ms: i64,
    pub(crate) wake_id: Option<Uuid>,
    pub(crate) version: i32,
    pub(crate) kind: String,
    pub(crate) is_conversation: bool,
    pub(crate) payload: String,
    pub(crate) checksum: Vec<u8>,
}

/// A payload with the person who caused it: how events after `PLAIN_EVENT_VERSION` are stored.
#[derive(Serialize, Deserialize)]
struct PayloadWithActor {
    by: Option<String>,
    #[serde(flatten)]
    payload: Payload,
}

impl SealedEvent {
    pub(crate) fn seal(session: SessionId, event: &SessionEvent) -> Result<Self, serde_json::Error> {
        let SessionEvent { version, seq, id, time_ms, wake_id, by, payload } = event;
        let text = match by {
            None => serde_json::to_string(payload)?,
            Some(_) => serde_json::to_string(&PayloadWithActor { by: by.clone(), payload: payload.clone() })?,
        };
        let mut sealed = Self {
            seq: i64::try_from(seq.0).unwrap_or(i64::MAX),
            id: id.0,
            time_ms: time_ms.0,
            wake_id: wake_id.map(|wake| wake.0),
            version: i32::try_from(*version).unwrap_or(i32::MAX),
            kind: payload.kind().to_owned(),
            is_conversation: payload.is_conversation(),
            payload: text,
            checksum: Vec::new(),
        };
        sealed.checksum = sealed.compute(session).0.to_vec();
        Ok(sealed)
    }

    /// The event, if its checksum matches.
    pub(crate) fn open(&self, session: SessionId) -> Result<SessionEvent, &'static str> {
        if self.checksum != self.compute(session).0 {
            return Err("its checksum does not match");
        }
        let seq = u64::try_from(self.seq).map_err(|_| "its sequence number is negative")?;
        let version = u32::try_from(self.version).map_err(|_| "its version is negative")?;
        if !(1..=EVENT_VERSION).contains(&version) {
            return Err("it has a version that this program does not know");
        }
        let read = if version > PLAIN_EVENT_VERSION {
            serde_json::from_str(&self.payload)
        } else {
            serde_json::from_str(&self.payload).map(|payload| PayloadWithActor { by: None, payload })
        };
        let PayloadWithActor { by, payload } = read.map_err(|_| "its payload is not valid")?;
        Ok(SessionEvent {
            version,
            seq: Seq(seq),
            id: EventId(self.id),
            time_ms: Timestamp(self.time_ms),
            wake_id: self.wake_id.map(WakeId),
            by,
            payload,
        })
    }

    fn compute(&self, session: SessionId) -> Sha256Digest {
        let Self { seq, id, time_ms, wake_id, version, kind, is_conversation: _, payload, checksum: _ } =
            self;
        Sha256Digest::of_parts(&[
            session.0.as_bytes(),
            &seq.to_be_bytes(),
            id.as_bytes(),
            &time_ms.to_be_bytes(),
            wake_id.as_ref().map_or(&[], |wake| wake.as_bytes().as_slice()),
            &version.to_be_bytes(),
            kind.as_bytes(),
            payload.as_bytes(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::time::TimeSeed;

    #[test]
    fn any_changed_field_is_noticed() {
        let mut seed = TimeSeed::new(Timestamp(5), [0; 32]);
        let session = SessionId::generate(&mut seed);
        let id = EventId::generate(&mut seed);
        let wake_id = Some(WakeId::generate(&mut seed));
        let payload = Payload::UserMessage { message: "hello".to_owned() };
        let by = None;
        let event = SessionEvent { version: 1, seq: Seq(3), id, time_ms: Timestamp(9), wake_id, by, payload };
        let by = Some("alice".to_owned());
        let named = SessionEvent { version: EVENT_VERSION, by, ..event.clone() };
        assert_eq!(SealedEvent::seal(session, &named).unwrap().open(session), Ok(named));
        let sealed = SealedEvent::seal(session, &event).unwrap();
        assert_eq!(sealed.open(session), Ok(event));
        let changes: [fn(&mut SealedEvent); 8] = [
            |event| event.seq += 1,
            |event| event.id = Uuid::nil(),
            |event| event.time_ms += 1,
            |event| event.wake_id = None,
            |event| event.version += 1,
            |event| event.kind.push('x'),
            |event| event.payload = event.payload.replace("hello", "hallo"),
            |event| event.checksum[31] ^= 1,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = sealed.clone();
            change(&mut changed);
            assert!(changed.open(session).is_err(), "change {number}");
        }
        assert!(sealed.open(SessionId::generate(&mut seed)).is_err());
    }
}
