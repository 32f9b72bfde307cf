//! The one error type that commands return: what failed, and what to try. The exit codes are in `event/exit.rs`.

pub use crate::event::exit::Exit;

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
