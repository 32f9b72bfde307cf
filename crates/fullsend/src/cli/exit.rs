//! The exit codes, and the one error type that commands return: what failed, and what to try.

/// Why the program ends. The numbers are a contract with CI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Invalid = 3,
    Missing = 4,
    OutputInvalid = 5,
    Security = 6,
    Budget = 7,
    SandboxUnavailable = 8,
    Nothing = 9,
    Paused = 10,
    Bug = 70,
    Timeout = 124,
    Interrupted = 130,
    Terminated = 143,
}

impl Exit {
    const ALL: &[Self] = &[
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Invalid,
        Self::Missing,
        Self::OutputInvalid,
        Self::Security,
        Self::Budget,
        Self::SandboxUnavailable,
        Self::Nothing,
        Self::Paused,
        Self::Bug,
        Self::Timeout,
        Self::Interrupted,
        Self::Terminated,
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    /// A code that is not in the contract is our bug.
    pub fn from_code(code: u8) -> Self {
        Self::ALL.iter().copied().find(|exit| exit.code() == code).unwrap_or(Self::Bug)
    }
}

/// A command that could not do its work.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub help: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), help: None }
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<std::io::Error> for Failure {
    /// Output that nobody reads any more is not a failure of the command.
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(Exit::Done, ""),
            _ => Self::new(Exit::Failed, format!("cannot write the output: {error}")),
        }
    }
}
