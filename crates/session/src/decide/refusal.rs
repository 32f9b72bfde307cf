//! What a session says no to, and why. A refusal changes nothing and costs nothing; the caller can tell from it
//! whether to correct, to wait or to give up.

use std::fmt;

use crate::log::fold::InvalidTransition;
use crate::log::id::{EventId, RequestId};
use crate::log::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRefusal {
    /// Only `user.*` events come from outside.
    NotAnInput {
        kind: &'static str,
    },
    /// A run reports tool calls, tool spans and its own id; the rest is written by claims and commits.
    NotAReport {
        kind: &'static str,
    },
    /// The text says nothing.
    Empty {
        what: &'static str,
    },
    TooLarge {
        what: &'static str,
        size: usize,
        limit: usize,
    },
    TooMany {
        what: &'static str,
        count: usize,
        limit: usize,
    },
    Terminated,
    /// The id belongs to an event that says something else.
    IdReused {
        id: EventId,
    },
    NoSuchRequest {
        id: RequestId,
    },
    /// A result was sent for a confirmation, or the other way round.
    WrongAnswer {
        id: RequestId,
    },
    AlreadyAnswered {
        id: RequestId,
    },
    /// The answer names another input than the one that was shown.
    InputDiffers {
        id: RequestId,
    },
    Expired {
        id: RequestId,
    },
    /// Somebody else holds the session.
    Leased {
        until_ms: Timestamp,
    },
    Blocked {
        requests: Vec<RequestId>,
    },
    /// The lease was lost: the work of this wake belongs to somebody else now, or to nobody.
    Stale {
        token: u64,
        current: u64,
    },
    /// A run that pauses must say for what, and one that fails cannot ask.
    Unasked,
    MemoryName {
        name: String,
    },
    MemoryReserved {
        name: String,
    },
    Field {
        what: &'static str,
        why: &'static str,
    },
    /// A bundle cannot be taken in.
    Bundle {
        line: usize,
        why: String,
    },
    InvalidTransition(InvalidTransition),
}

impl fmt::Display for SessionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnInput { kind } => {
                write!(f, "`{kind}` cannot be sent: only user events come from outside")
            }
            Self::NotAReport { kind } => write!(f, "`{kind}` is not for a run to report"),
            Self::Empty { what } => write!(f, "the {what} is empty"),
            Self::TooLarge { what, size, limit } => {
                write!(f, "the {what} has {size} bytes, the limit is {limit}")
            }
            Self::TooMany { what, count, limit } => write!(f, "{count} {what}, the limit is {limit}"),
            Self::Terminated => f.write_str("the session is terminated; create a new one"),
            Self::IdReused { id } => write!(f, "event {id} exists and says something else; use a new id"),
            Self::NoSuchRequest { id } => write!(f, "request {id} is not open"),
            Self::WrongAnswer { id } => {
                write!(f, "request {id} takes the other kind of answer (a confirmation or a tool result)")
            }
            Self::AlreadyAnswered { id } => write!(f, "request {id} was answered before"),
            Self::InputDiffers { id } => write!(f, "request {id} was asked with another input"),
            Self::Expired { id } => write!(f, "request {id} has expired"),
            Self::Leased { until_ms } => write!(f, "a worker holds the session until {} ms", until_ms.0),
            Self::Blocked { requests } => {
                let ids: Vec<String> = requests.iter().map(ToString::to_string).collect();
                write!(f, "the session waits for an answer to {}", ids.join(", "))
            }
            Self::Stale { token, current } => {
                write!(f, "the lease with token {token} was lost; the session is at token {current}")
            }
            Self::Unasked => f.write_str("a pause needs a question, and a failed run cannot ask one"),
            Self::MemoryName { name } => {
                write!(f, "`{}` is not a memory file name: a relative path is expected", name.escape_debug())
            }
            Self::MemoryReserved { name } => write!(f, "`{name}` is written by the harness only"),
            Self::Field { what, why } => write!(f, "{what}: {why}"),
            Self::Bundle { line, why } => write!(f, "line {line} of the bundle: {why}"),
            Self::InvalidTransition(illegal) => illegal.fmt(f),
        }
    }
}

impl std::error::Error for SessionRefusal {}

impl From<InvalidTransition> for SessionRefusal {
    fn from(illegal: InvalidTransition) -> Self {
        Self::InvalidTransition(illegal)
    }
}
