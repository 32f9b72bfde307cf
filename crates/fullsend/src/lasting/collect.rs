//! Runs a command in a lasting sandbox and keeps what it writes, up to a bound.

use super::client::{CommandEnd, SandboxClient, SandboxClientError};
use super::protocol::ExecSpec;
use super::pump::{self, CommandInput, OutputStream};

/// What a command wrote, and how it ended.
#[derive(Debug)]
pub struct CollectedCommand {
    pub end: CommandEnd,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whether one of the outputs was longer than what is kept.
    pub truncated: bool,
}

/// The first `most` bytes of each output are kept; `started` gets the connection, to end the command early.
pub fn run(
    client: &SandboxClient,
    spec: ExecSpec,
    input: CommandInput,
    most: usize,
    started: impl FnOnce(std::os::unix::net::UnixStream),
) -> Result<CollectedCommand, SandboxClientError> {
    let command = client.exec(spec)?;
    if let Some(connection) = command.duplicate_connection() {
        started(connection);
    }
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    let mut truncated = false;
    let end = pump::run(command, input, &mut |stream, bytes| {
        let kept = match stream {
            OutputStream::Stdout => &mut stdout,
            OutputStream::Stderr => &mut stderr,
        };
        let room = most.saturating_sub(kept.len()).min(bytes.len());
        truncated |= room < bytes.len();
        kept.extend_from_slice(&bytes[..room]);
        Ok(())
    })?;
    Ok(CollectedCommand { end, stdout, stderr, truncated })
}
