//! What a run asks of the gateway. Each request is written for the release line of the gateway that answers, because
//! 0.1 broke the wire format of 0.0.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::grpc::{Answers, CallError, CallStatus, Channel, RequestSender};
use super::protobuf::{Message, Received};

/// For one call that makes or removes something.
const CALL_TIME: Duration = Duration::from_secs(60);
const HEALTH_TIME: Duration = Duration::from_secs(10);

/// How long to wait before asking again whether a sandbox is ready.
const POLL: Duration = Duration::from_millis(200);

/// The first version of the line 0.0 whose messages are known.
const FIRST_PATCH: u32 = 110;

/// Release lines of the gateway with different wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum ProtocolVersion {
    /// 0.0.11x
    V0_0,
    /// 0.1.x
    V0_1,
}

impl ProtocolVersion {
    fn of(version: &str) -> Option<Self> {
        let mut parts = version.trim_start_matches('v').split('.');
        match (parts.next()?, parts.next()?) {
            ("0", "0") => {
                let patch: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
                patch.parse().is_ok_and(|patch: u32| patch >= FIRST_PATCH).then_some(Self::V0_0)
            }
            ("0", "1") => Some(Self::V0_1),
            _ => None,
        }
    }
}

/// Why the gateway created no sandbox, or lost it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenshellError {
    Call(CallError),
    /// The gateway has an unknown release line.
    Version {
        version: String,
    },
    /// The sandbox is in a phase from which it cannot become ready.
    Failed {
        name: String,
        phase: &'static str,
        why: String,
    },
    NotReady {
        name: String,
        time: Duration,
    },
    /// The run was cancelled while the sandbox was made.
    Cancelled,
    /// A stream ended before the command did.
    Cut {
        what: String,
    },
    /// A command of ours failed inside.
    Inside {
        what: String,
        why: String,
    },
}

impl std::fmt::Display for OpenshellError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Version { version } => write!(
                f,
                "the OpenShell gateway is version `{version}`, which is not supported; use 0.0.11x or 0.1.x"
            ),
            Self::Failed { name, phase, why } => {
                write!(f, "the OpenShell sandbox {name} is {phase}: {why}")
            }
            Self::NotReady { name, time } => write!(
                f,
                "the OpenShell sandbox {name} was not ready after {} seconds: raise `sandbox_timeout_seconds`",
                time.as_secs()
            ),
            Self::Cancelled => f.write_str("the run was cancelled"),
            Self::Cut { what } => write!(f, "the OpenShell gateway cut {what} before its end"),
            Self::Inside { what, why } => write!(f, "{what} failed in the OpenShell sandbox: {why}"),
        }
    }
}

impl std::error::Error for OpenshellError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Call(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CallError> for OpenshellError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// A sandbox that is to be made.
pub(super) struct NewSandbox<'a> {
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) policy: Message,
    pub(super) providers: &'a [String],
}

/// A sandbox of the gateway.
#[derive(Clone, Debug)]
pub(super) struct SandboxStatus {
    pub(super) id: String,
    phase: u64,
    why: String,
}

const READY: u64 = 2;

/// The phases from which a sandbox cannot become ready.
const FAILED: &[(u64, &str)] =
    &[(3, "in error"), (4, "being deleted"), (6, "stopping"), (7, "stopped"), (9, "completed")];

/// A command to start.
pub(super) struct NewCommand<'a> {
    pub(super) arguments: Vec<String>,
    pub(super) working_directory: &'a str,
    pub(super) environment: Vec<(String, String)>,
}

/// One thing that a command did.
pub(super) enum ExecEvent<'a> {
    Stdout(&'a [u8]),
    Stderr(&'a [u8]),
    Exit(i32),
}

/// A gateway that answered, and its release line.
pub(super) struct OpenshellGateway {
    channel: Arc<Channel>,
    pub(super) line: ProtocolVersion,
    pub(super) version: String,
}

impl OpenshellGateway {
    pub(super) async fn connect(channel: Arc<Channel>) -> Result<Self, OpenshellError> {
        let answer = channel.unary("Health", Message::default(), HEALTH_TIME).await?;
        let version = Received(&answer).text(2);
        let line = ProtocolVersion::of(&version)
            .ok_or_else(|| OpenshellError::Version { version: version.clone() })?;
        Ok(Self { channel, line, version })
    }

    pub(super) fn endpoint(&self) -> String {
        self.channel.endpoint().to_string()
    }

    /// The workspace was a text, and is a message of its own since 0.1.
    pub(super) fn in_workspace(&self, message: Message, old: u64, new: u64) -> Message {
        let workspace = &self.channel.endpoint().workspace;
        match self.line {
            ProtocolVersion::V0_0 => message.text(old, workspace),
            ProtocolVersion::V0_1 => message.message(new, Message::default().text(1, workspace)),
        }
    }

    pub(super) async fn call(&self, method: &'static str, request: Message) -> Result<Vec<u8>, CallError> {
        self.channel.unary(method, request, CALL_TIME).await
    }

    pub(super) async fn create(&self, new: NewSandbox<'_>, time: Duration) -> Result<(), OpenshellError> {
        let template = Message::default().text(1, new.image);
        // The first process must outlive all commands: when it ends, the sandbox is in error.
        let spec = Message::default()
            .message(6, template)
            .message(7, new.policy)
            .texts(8, new.providers)
            .texts(12, ["sleep", "infinity"]);
        let request = Message::default().message(1, spec).text(2, new.name).map(3, [("fullsend", "run")]);
        let request = self.in_workspace(request, 5, 7);
        self.channel.unary("CreateSandbox", request, time).await?;
        Ok(())
    }

    pub(super) async fn wait_until_ready(
        &self,
        name: &str,
        deadline: Instant,
        time: Duration,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<SandboxStatus, OpenshellError> {
        loop {
            let found = self.get(name).await?;
            if found.phase == READY {
                return Ok(found);
            }
            if let Some((_, phase)) = FAILED.iter().find(|(number, _)| *number == found.phase) {
                return Err(OpenshellError::Failed { name: name.to_owned(), phase, why: found.why });
            }
            if is_cancelled() {
                return Err(OpenshellError::Cancelled);
            }
            if Instant::now() + POLL > deadline {
                return Err(OpenshellError::NotReady { name: name.to_owned(), time });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn get(&self, name: &str) -> Result<SandboxStatus, OpenshellError> {
        let request = self.in_workspace(Message::default().text(1, name), 2, 2);
        let answer = self.call("GetSandbox", request).await?;
        let sandbox = Received(&answer).message(1).unwrap_or(Received(&[]));
        let about = sandbox.message(1).unwrap_or(Received(&[]));
        let status = sandbox.message(3).unwrap_or(Received(&[]));
        let why: Vec<String> = status.messages(5).map(|condition| condition.text(4)).collect();
        let why = why.into_iter().rfind(|text| !text.is_empty()).unwrap_or_default();
        Ok(SandboxStatus { id: about.text(1), phase: status.number(6), why })
    }

    /// A sandbox that is gone already counts as deleted.
    pub(super) async fn delete(&self, name: &str) -> Result<(), CallError> {
        let request = self.in_workspace(Message::default().text(1, name), 2, 2);
        let request = match self.line {
            ProtocolVersion::V0_0 => request,
            ProtocolVersion::V0_1 => request.flag(3, true),
        };
        match self.call("DeleteSandbox", request).await {
            Err(CallError::Refused { status: CallStatus::NOT_FOUND, .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Starts a command. Its input follows as messages of `input`.
    pub(super) async fn exec(
        &self,
        sandbox: &SandboxAddress,
        command: &NewCommand<'_>,
    ) -> Result<(RequestSender, Answers), CallError> {
        let start = Message::default()
            .text(
                1,
                match self.line {
                    ProtocolVersion::V0_0 => &sandbox.id,
                    ProtocolVersion::V0_1 => &sandbox.name,
                },
            )
            .texts(2, &command.arguments)
            .text(3, command.working_directory)
            .map(4, command.environment.iter().map(|(name, value)| (name, value)));
        let start = match self.line {
            ProtocolVersion::V0_0 => start,
            // A login shell would set variables of its own.
            ProtocolVersion::V0_1 => self.in_workspace(start, 0, 12).flag(10, true),
        };
        let (sender, answers) = self.channel.stream("ExecSandboxInteractive").await?;
        sender.send(Message::default().message(1, start)).await;
        Ok((sender, answers))
    }
}

/// How a sandbox is named in requests.
#[derive(Clone, Debug)]
pub(super) struct SandboxAddress {
    pub(super) name: String,
    pub(super) id: String,
}

/// Input for a command.
pub(super) fn input(bytes: &[u8]) -> Message {
    Message::default().bytes(2, bytes)
}

pub(super) fn event(answer: &[u8]) -> Option<ExecEvent<'_>> {
    let answer = Received(answer);
    if let Some(message) = answer.message(1) {
        return message.bytes(1).map(ExecEvent::Stdout);
    }
    if let Some(message) = answer.message(2) {
        return message.bytes(1).map(ExecEvent::Stderr);
    }
    let exit = answer.message(3)?;
    Some(ExecEvent::Exit(exit.number(1) as u32 as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_its_line() {
        assert_eq!(ProtocolVersion::of("0.0.116"), Some(ProtocolVersion::V0_0));
        assert_eq!(ProtocolVersion::of("v0.1.5"), Some(ProtocolVersion::V0_1));
        assert_eq!(ProtocolVersion::of("0.0.111-dev.3"), Some(ProtocolVersion::V0_0));
        for unknown in ["0.0.109", "0.0", "0.2.0", "1.0", "", "dev"] {
            assert_eq!(ProtocolVersion::of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_exit_code_of_a_command_may_be_negative() {
        let exit = Message::default().number(1, (-1_i64).cast_unsigned());
        let answer = Message::default().message(3, exit).into_bytes();
        assert!(matches!(event(&answer), Some(ExecEvent::Exit(-1))));
        let answer = Message::default().message(3, Message::default()).into_bytes();
        assert!(matches!(event(&answer), Some(ExecEvent::Exit(0))));
    }
}
