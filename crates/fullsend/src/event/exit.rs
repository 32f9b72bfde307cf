//! The exit codes of the program: a contract with CI, listed in `docs/exit-codes.md`. The other files of this
//! crate use `Exit`, not numbers. `EndCause::exit` in `outcome.rs` says which one a run gets.

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// The agent failed, or a script of the run did.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The harness or its configuration is wrong.
    Invalid = 3,
    /// A variable, a credential, a program or another prerequisite is missing.
    Missing = 4,
    /// The output violates its schema, or the validation script rejects it, after the last attempt.
    InvalidOutput = 5,
    /// The guard stopped the run.
    Security = 6,
    Budget = 7,
    SandboxUnavailable = 8,
    /// No output and no changes: the agent stopped, was denied, or asked a question.
    NoOutput = 9,
    /// A session waits for a person.
    Paused = 10,
    /// A rate limit or an outage of the model lasted until the retry time was over: try again later.
    ModelUnavailable = 11,
    /// A bug in fullsend.
    Bug = 70,
    Timeout = 124,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The exit code that shells return for a command that could not be started.
pub const NOT_STARTED: u8 = 127;

/// The exit code that shells return for a command that a signal ended.
pub fn signalled(signal: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(NOT_STARTED))
}

/// The exit code that shells return for a command that ended by itself: the lowest byte of its status.
pub fn exited(code: i32) -> u8 {
    u8::try_from(code & 0xff).unwrap_or(Exit::Failed.code())
}
