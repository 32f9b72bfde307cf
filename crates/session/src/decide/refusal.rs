//! Why a session refuses a call. A refusal changes nothing. The caller can tell from it whether to correct the call, to wait
//! or to give up.

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
    /// A run reports tool calls, tool spans and its own id. Claims and commits write the rest.
    NotAReport {
        kind: &'static str,
    },
    /// The text is empty.
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
    /// The id belongs to an event with another content.
    IdReused {
        id: EventId,
    },
    NoSuchRequest {
        id: RequestId,
    },
    /// A tool result for a confirmation, or the reverse.
    WrongAnswer {
        id: RequestId,
    },
    AlreadyAnswered {
        id: RequestId,
    },
    /// The answer is for another input than the one that was shown.
    InputDiffers {
        id: RequestId,
    },
    Expired {
        id: RequestId,
    },
    /// A worker holds the session.
    Leased {
        until_ms: Timestamp,
    },
    Blocked {
        requests: Vec<RequestId>,
    },
    /// The lease was lost: the token is not that of the running wake.
    Stale {
        token: u64,
        current: u64,
    },
    /// A run that pauses must make a request, and a run that fails must not.
    RequestMismatch,
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
    /// A bundle has a session that the store has already.
    Exists,
    /// A bundle contains the answer to a pending tool call, which was not given on this machine.
    AnsweredElsewhere,
    /// A bundle cannot be imported.
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
                write!(f, "`{kind}` cannot be sent: only user events can")
            }
            Self::NotAReport { kind } => write!(f, "a run cannot report `{kind}`"),
            Self::Empty { what } => write!(f, "the {what} is empty"),
            Self::TooLarge { what, size, limit } => {
                write!(f, "the {what} has {size} bytes, the limit is {limit}")
            }
            Self::TooMany { what, count, limit } => write!(f, "{count} {what}, the limit is {limit}"),
            Self::Terminated => f.write_str("the session is terminated; create a new one"),
            Self::IdReused { id } => write!(f, "event {id} exists with another content; use a new id"),
            Self::NoSuchRequest { id } => write!(f, "request {id} is not open"),
            Self::WrongAnswer { id } => {
                write!(f, "request {id} takes the other kind of answer: a confirmation or a tool result")
            }
            Self::AlreadyAnswered { id } => write!(f, "request {id} is already answered"),
            Self::InputDiffers { id } => write!(f, "request {id} has another input"),
            Self::Expired { id } => write!(f, "request {id} has expired"),
            Self::Leased { until_ms } => write!(f, "a worker holds the session until {} ms", until_ms.0),
            Self::Blocked { requests } => {
                let ids: Vec<String> = requests.iter().map(ToString::to_string).collect();
                write!(f, "the session waits for an answer to {}", ids.join(", "))
            }
            Self::Stale { token, current } => {
                write!(f, "the lease with token {token} was lost; the session is at token {current}")
            }
            Self::RequestMismatch => {
                f.write_str("a paused run needs a request, and a failed run must not have one")
            }
            Self::MemoryName { name } => {
                write!(f, "`{}` is not a memory file name: a relative path is expected", name.escape_debug())
            }
            Self::MemoryReserved { name } => write!(f, "only fullsend writes `{name}`"),
            Self::Field { what, why } => write!(f, "{what}: {why}"),
            Self::Exists => f.write_str("id: a session with this id already exists"),
            Self::AnsweredElsewhere => f.write_str(
                "the bundle holds a person's answer about a tool call that has not happened yet; accept it with \
                 --accept-answers",
            ),
            Self::Bundle { line, why } => write!(f, "line {line} of the bundle: {why}"),
            Self::InvalidTransition(illegal) => illegal.fmt(f),
        }
    }
}

impl std::error::Error for SessionRefusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InvalidTransition(transition) => Some(transition),
            _ => None,
        }
    }
}

impl From<InvalidTransition> for SessionRefusal {
    fn from(illegal: InvalidTransition) -> Self {
        Self::InvalidTransition(illegal)
    }
}
