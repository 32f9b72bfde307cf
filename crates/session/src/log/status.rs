//! The small closed words of a session: its status, why it stopped, how urgent a wake is, what kind of trouble
//! there was. One spelling each, in the log, in the store and on the wire.

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
    /// Where a session stands.
    SessionStatus {
        /// Nothing to do until somebody says something.
        Idle = "idle",
        /// A worker holds it.
        Running = "running",
        /// It will run again by itself: inputs wait, a wake is queued, or an attempt is repeated.
        Rescheduling = "rescheduling",
        /// A question must be answered first.
        RequiresAction = "requires_action",
        /// It accepts nothing any more.
        Terminated = "terminated",
    }
}

words! {
    /// Why the last wake ended.
    StopReason {
        /// No wake has ended yet.
        NotStarted = "not_started",
        EndTurn = "end_turn",
        /// The agent wanted to go on more often in a row than it may.
        ContinueLimit = "continue_limit",
        RequiresAction = "requires_action",
        Rescheduled = "rescheduled",
        Interrupted = "interrupted",
        Error = "error",
        Terminated = "terminated",
    }
}

words! {
    /// Who goes first among due wakes.
    WakePriority { High = "high", Normal = "normal", Low = "low" }
}

words! {
    /// What kind of trouble ended an attempt.
    ErrorClass {
        /// May pass by itself: tried again later.
        Transient = "transient",
        /// Will not pass by itself: never tried again.
        Permanent = "permanent",
        /// The directive could not be read, twice.
        Directive = "directive",
        /// The worker was not heard of again.
        Lost = "lost",
    }
}

words! {
    /// How a stretch of work ended.
    SpanResult {
        Success = "success",
        Error = "error",
        /// It waits for an answer from outside.
        Blocked = "blocked",
        Interrupted = "interrupted",
        Lost = "lost",
        Terminated = "terminated",
    }
}
