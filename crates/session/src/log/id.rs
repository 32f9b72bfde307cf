//! Ids as newtypes, so that a session id cannot be used as a wake id. New ids are UUIDv7: they sort by creation time and are
//! close together in an index. A client may use any UUID of its own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::log::digest::Sha256Digest;
use crate::log::time::TimeSeed;

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidId {
    pub what: &'static str,
    pub text: String,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a {} id: a UUID with hyphens is expected", self.text.escape_debug(), self.what)
    }
}

impl std::error::Error for InvalidId {}

macro_rules! id {
    ($name:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub(crate) Uuid);

        impl $name {
            /// A new id from the time and the random seed of a call.
            pub fn generate(seed: &mut TimeSeed) -> Self {
                Self(version_7(seed))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse(text)
                    .map(Self)
                    .ok_or_else(|| InvalidId { what: $what, text: text.chars().take(64).collect() })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.to_string()
            }
        }
    };
}

id!(SessionId, "session", "The id of a session.");
id!(EventId, "event", "The id of an event within its session. A client's id makes its append idempotent.");
id!(WakeId, "wake", "The id of a wake, the same over all its attempts, or of a queued wake.");
id!(RequestId, "request", "The id of a request to a person or an outside tool.");
id!(SpanId, "span", "The id of a span.");

impl EventId {
    /// The id for a client's own key, such as the delivery number of a webhook. The same key in the same session gives the
    /// same id.
    #[must_use]
    pub fn from_key(session: SessionId, key: &str) -> Self {
        let digest = Sha256Digest::of_parts(&[b"event-key", session.0.as_bytes(), key.as_bytes()]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.0[..16]);
        Self(Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl From<WakeId> for SpanId {
    /// A wake is a span.
    fn from(wake: WakeId) -> Self {
        Self(wake.0)
    }
}

/// Accepts only the hyphenated form, so that an id has one spelling.
fn parse(text: &str) -> Option<Uuid> {
    if text.len() != 36 {
        return None;
    }
    Uuid::try_parse(&text.to_ascii_lowercase()).ok()
}

fn version_7(seed: &mut TimeSeed) -> Uuid {
    let random = seed.draw();
    let mut tail = [0; 10];
    tail.copy_from_slice(&random[..10]);
    let milliseconds = u64::try_from(seed.now.0).unwrap_or(0);
    Builder::from_unix_timestamp_millis(milliseconds, &tail).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::time::Timestamp;

    #[test]
    fn new_ids_are_version_7_differ_and_repeat_with_the_seed() {
        let mut seed = TimeSeed::new(Timestamp(1_800_000_000_000), [7; 32]);
        let first = SessionId::generate(&mut seed);
        let second = SessionId::generate(&mut seed);
        assert_ne!(first, second);
        assert_eq!(first.0.get_version_num(), 7);
        assert_eq!(first, SessionId::generate(&mut TimeSeed::new(Timestamp(1_800_000_000_000), [7; 32])));
        let later = SessionId::generate(&mut TimeSeed::new(Timestamp(1_800_000_000_001), [0; 32]));
        assert!(later > first && later > second);
    }

    #[test]
    fn one_spelling() {
        let id: EventId = "018bcfe5-6800-7000-8000-00000000000A".parse().unwrap();
        assert_eq!(id.to_string(), "018bcfe5-6800-7000-8000-00000000000a");
        for bad in ["", "018bcfe568007000800000000000000a", "{018bcfe5-6800-7000-8000-00000000000a}", "x"] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_one_event_of_one_session() {
        let mut seed = TimeSeed::new(Timestamp(0), [1; 32]);
        let one = SessionId::generate(&mut seed);
        let two = SessionId::generate(&mut seed);
        assert_eq!(EventId::from_key(one, "k"), EventId::from_key(one, "k"));
        assert_ne!(EventId::from_key(one, "k"), EventId::from_key(two, "k"));
        assert_ne!(EventId::from_key(one, "k"), EventId::from_key(one, "l"));
    }
}
