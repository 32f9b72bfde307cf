//! `fullsend sandbox exec`: runs a command in a lasting sandbox, with pipes or a terminal of the sandbox's own.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::Args;

use super::super::configuration::variable;
use super::super::exit::{Exit, Failure};
use super::super::sandbox_options::{code, failed};
use super::super::terminal;
use crate::event::exit::signalled;
use crate::lasting::client::{CommandEnd, SandboxClient};
use crate::lasting::directory::LastingSandbox;
use crate::lasting::protocol::{ExecPurpose, ExecSpec};
use crate::lasting::pump::{self, CommandInput, OutputStream};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The sandbox: its id, a unique prefix of its id, or its name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The user, by name or number; a sandbox has one user, `sandbox`
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Start the command in this directory [default: the workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable of the command's environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(OsString, OsString)>,
    /// Kill the command and everything that it started after this time, such as 30s; the exit code is 124
    #[arg(long, value_name = "TIME", value_parser = super::parse_seconds)]
    timeout: Option<u64>,
    /// Pass standard input to the command
    #[arg(long)]
    stdin: bool,
    /// Run the command in a terminal
    #[arg(long)]
    tty: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn parse_variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let found = super::find(&arguments.sandbox)?;
    check_user(&found, arguments.user.as_deref())?;
    let client = SandboxClient::open(&found).map_err(|error| super::refused(&error))?;
    let spec = ExecSpec {
        arguments: arguments.command.clone(),
        environment: arguments.env.clone(),
        working_directory: arguments.cwd.clone(),
        terminal: false,
        timeout_ms: arguments.timeout.map(|seconds| seconds.saturating_mul(1000)),
        purpose: ExecPurpose::Command,
    };
    if arguments.tty { in_terminal(&client, spec) } else { with_pipes(&client, spec, arguments.stdin) }
}

/// A sandbox has one user.
pub fn check_user(found: &LastingSandbox, user: Option<&str>) -> Result<(), Failure> {
    let uid = found.manifest.uid;
    match user {
        Some(user) if user != "sandbox" && user != uid.to_string() => {
            Err(failed(format!("the sandbox has no user `{user}`; its one user is `sandbox`, number {uid}")))
        }
        _ => Ok(()),
    }
}

fn with_pipes(client: &SandboxClient, spec: ExecSpec, stdin: bool) -> Result<u8, Failure> {
    let input = if stdin {
        let own = std::io::stdin().as_fd().try_clone_to_owned();
        CommandInput::Descriptor(own.map_err(|error| failed(format!("cannot read standard input: {error}")))?)
    } else {
        CommandInput::Nothing
    };
    let command = client.exec(spec).map_err(|error| super::refused(&error))?;
    let mut is_heard = true;
    let end = pump::run(command, input, &mut |stream, bytes| {
        // Discards output after the reader closes.
        is_heard = is_heard
            && match stream {
                OutputStream::Stdout => write_all(std::io::stdout().lock(), bytes),
                OutputStream::Stderr => write_all(std::io::stderr().lock(), bytes),
            };
        Ok(())
    });
    Ok(exit_code(end.map_err(|error| super::refused(&error))?))
}

fn write_all(mut to: impl Write, bytes: &[u8]) -> bool {
    to.write_all(bytes).and_then(|()| to.flush()).is_ok()
}

fn exit_code(end: CommandEnd) -> u8 {
    if end.timed_out { Exit::Timeout.code() } else { code(end.exit) }
}

fn in_terminal(client: &SandboxClient, mut spec: ExecSpec) -> Result<u8, Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(failed("`--tty` needs a terminal").help("without one, use --stdin"));
    }
    spec.environment.extend(variable("TERM").map(|term| ("TERM".into(), term.into())));
    let (connection, outside) = client.exec_in_terminal(spec).map_err(|error| super::refused(&error))?;
    let relayed = terminal::relay(&outside, || connection.has_ended().then(|| connection.end()));
    match relayed.map_err(|error| failed(format!("cannot relay the terminal: {error}")))? {
        Some(Ok(end)) => Ok(exit_code(end)),
        Some(Err(error)) => Err(super::refused(&error)),
        // The person's terminal is gone.
        None => Ok(signalled(rustix::process::Signal::HUP.as_raw())),
    }
}
