//! Small enums of a session: status, stop reason, priority, error class, span result. Each value has one spelling in the log,
//! in the store and on the wire.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// The status of a session.
    SessionStatus {
        /// Nothing to do until an input arrives.
        Idle = "idle",
        /// A worker runs a wake.
        Running = "running",
        /// It will run by itself: inputs wait, a wake is queued, or an attempt is retried.
        Rescheduling = "rescheduling",
        /// A person must answer a request first.
        RequiresAction = "requires_action",
        /// It accepts nothing more.
        Terminated = "terminated",
    }
}

words! {
    /// Why the last wake ended.
    StopReason {
        /// No wake has ended yet.
        NotStarted = "not_started",
        EndTurn = "end_turn",
        /// The agent reached the limit of `continue` in a row.
        ContinueLimit = "continue_limit",
        RequiresAction = "requires_action",
        Rescheduled = "rescheduled",
        Interrupted = "interrupted",
        Error = "error",
        Terminated = "terminated",
    }
}

words! {
    /// The order of due wakes.
    WakePriority { High = "high", Normal = "normal", Low = "low" }
}

words! {
    /// Why an attempt failed.
    ErrorClass {
        /// May pass by itself: retried later.
        Transient = "transient",
        /// Will not pass by itself: not retried.
        Permanent = "permanent",
        /// The directive was malformed twice.
        Directive = "directive",
        /// The worker did not renew its lease.
        Lost = "lost",
    }
}

words! {
    /// How a span ended.
    SpanResult {
        Success = "success",
        Error = "error",
        /// It waits for an answer.
        Blocked = "blocked",
        Interrupted = "interrupted",
        Lost = "lost",
        Terminated = "terminated",
    }
}
