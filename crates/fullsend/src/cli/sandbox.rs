//! `fullsend sandbox run` and `fullsend sandbox shell`: run a command or a shell in a sandbox. The verbs of a lasting
//! sandbox are in `lasting`. The exit code is the command's; if the sandbox fails it is `Exit::SandboxUnavailable`, with a line that starts with `fullsend:`.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use clap::{Args, Subcommand};
use egress::event::{ConnectionDecision, EgressEvent};
use rustix::process::Signal;
use sandbox::{Command, Process, Sandbox, Stdio, WaitError};
use yaml::Sources;

use super::configuration::variable;
use super::exit::Failure;
use super::pull_options::PullOptions;
use super::sandbox_options::{check_policy, code, failed, image_and_cache, policy_text};
use super::{lasting, signals, terminal};
use crate::cancel::{Cancel, CancelReason};
use crate::event::exit::signalled;
use crate::image::{self, Caps, Image};
use crate::provision::PROOF_NAME;
use crate::provision::policy_sandbox::{self, PolicySandbox, PolicySandboxSpec};

/// How soon a request to end is passed on.
const TICK: Duration = Duration::from_millis(50);

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    which: SandboxCommand,
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    /// Run a command in a sandbox and exit with its exit code, or with 8 if it did not start
    #[command(after_help = format!("Example:\n  fullsend sandbox run -- make test\n\n{SANDBOX_NOTE}"))]
    Run {
        #[command(flatten)]
        place: SandboxOptions,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Open a shell in a sandbox
    #[command(after_help = format!("Example:\n  fullsend sandbox shell --policy policies/build.yaml\n\n{SANDBOX_NOTE}"))]
    Shell {
        #[command(flatten)]
        place: SandboxOptions,
        /// The shell and its arguments [default: /bin/sh]
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    #[command(flatten)]
    Lasting(lasting::LastingCommand),
}

const SANDBOX_NOTE: &str = "The sandbox sees a copy-on-write view of the current directory: changes are lost when the command ends. \
                            Files that look like secrets are hidden. Connections go through the same proxy as in a run.";

#[derive(Args, Debug)]
struct SandboxOptions {
    /// Use this policy [default: built-in, no network]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Use this image as the root file system: in a registry, an OCI layout directory or an archive [default: the host's programs]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    #[command(flatten)]
    pull: PullOptions,
    /// Print the results of the sandbox self-check
    #[arg(long, short)]
    verbose: bool,
}

pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    match &arguments.which {
        SandboxCommand::Lasting(which) => lasting::run(which),
        SandboxCommand::Run { place, command } => {
            with_sandbox(place, "\n", |policy_sandbox, cancel| relay(policy_sandbox, command, cancel))
        }
        SandboxCommand::Shell { place, command } => {
            if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
                return Err(failed("`sandbox shell` needs a terminal")
                    .help("without one, use `fullsend sandbox run -- COMMAND`"));
            }
            let shell = [OsString::from("/bin/sh")];
            let command = if command.is_empty() { &shell[..] } else { command };
            // A raw terminal needs the carriage return.
            with_sandbox(place, "\r\n", |policy_sandbox, cancel| {
                interact(&policy_sandbox.sandbox, &policy_sandbox.directory, command, cancel)
            })
        }
    }
}

/// Starts a sandbox, does something with it, and takes it down.
fn with_sandbox(
    place: &SandboxOptions,
    line_end: &'static str,
    work: impl FnOnce(&PolicySandbox, &Cancel) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let mut sources = Sources::default();
    let policy = check_policy(policy_text(place.policy.as_deref())?, &mut sources)?;
    let image = place.image.as_deref().map(|name| prepare_image(name, &place.pull)).transpose()?;
    let here = std::env::current_dir().and_then(|path| path.canonicalize());
    let here = here.map_err(|error| failed(format!("the current directory cannot be used: {error}")))?;
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let executor = executor.map_err(|error| failed(format!("cannot start threads: {error}")))?;
    let policy_sandbox = policy_sandbox::start(&PolicySandboxSpec {
        policy: &policy,
        image: image.as_ref(),
        directory: Some(&here),
        limits: policy_sandbox::default_limits(),
        state: state_directory()?,
        sources: &sources,
        on_event: Arc::new(move |event| print_refusal(&event, line_end)),
        executor: executor.handle().clone(),
    })
    .map_err(|error| failed(error.to_string()))?;
    if place.verbose {
        for result in &policy_sandbox.proof.results {
            super::write_stderr(&format!("proved: {}: {}\n", result.name, result.detail));
        }
    }
    let cancel = Cancel::default();
    let code = signals::watch(executor.handle(), &cancel).and_then(|()| work(&policy_sandbox, &cancel));
    let closed = policy_sandbox.close();
    let code = code?;
    closed.map_err(|error| failed(error.to_string()))?;
    Ok(code)
}

/// Prints refused connections and names to standard error. The proof asks for a name itself.
fn print_refusal(event: &EgressEvent, line_end: &str) {
    let line = match event {
        EgressEvent::Connection(attempt) if attempt.decision == ConnectionDecision::Denied => {
            let reason = attempt.reason.as_deref().unwrap_or("no rule allows it");
            format!("egress: {}:{} was refused: {reason}", attempt.host, attempt.port)
        }
        EgressEvent::NameRefused { name, reason } if name.trim_end_matches('.') != PROOF_NAME => {
            format!("egress: the name {name} was refused: {reason}")
        }
        _ => return,
    };
    super::write_stderr(&format!("{}{line_end}", crate::render::diagnostics::clean_text(&line)));
}

fn prepare_image(name: &str, pull: &PullOptions) -> Result<Image, Failure> {
    let (path, cache) = image_and_cache(name, pull)?;
    image::prepare(&path, &cache, Caps::default()).map_err(|error| failed(error.to_string()))
}

/// The directory of this sandbox's state. Leftovers of dead sandboxes there are removed.
fn state_directory() -> Result<PathBuf, Failure> {
    let parent = super::run::runs_directory()?.with_file_name(policy_sandbox::SANDBOXES);
    let made = std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&parent);
    made.map_err(|error| failed(format!("cannot create {}: {error}", parent.display())))?;
    let parent = parent.canonicalize().map_err(|error| failed(error.to_string()))?;
    match sandbox::sweep(&parent) {
        Ok(swept) => {
            for (path, error) in swept.failed {
                super::write_stderr(&format!("warning: cannot clean up {}: {error}\n", path.display()));
            }
        }
        Err(error) => {
            super::write_stderr(&format!("warning: cannot clean up {}: {error}\n", parent.display()));
        }
    }
    Ok(parent.join(uuid::Uuid::now_v7().to_string()))
}

/// Runs a command with pipes instead of our own descriptors: through the descriptor of a host directory a program could
/// leave the sandbox, and through that of a terminal it could type into it.
fn relay(policy_sandbox: &PolicySandbox, command: &[OsString], cancel: &Cancel) -> Result<u8, Failure> {
    let mut command = Command::new(command.to_vec());
    command.working_directory.clone_from(&policy_sandbox.directory);
    (command.stdin, command.stdout, command.stderr) = (Stdio::Pipe, Stdio::Pipe, Stdio::Pipe);
    let mut process = policy_sandbox.sandbox.exec(command).map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = process.stdin.take() {
        // This thread is not joined: it ends with its input, with the command, or with us.
        std::thread::spawn(move || drop(std::io::copy(&mut std::io::stdin().lock(), &mut input)));
    }
    let copies = [
        process.stdout.take().map(|from| pass(from, std::io::stdout())),
        process.stderr.take().map(|from| pass(from, std::io::stderr())),
    ];
    let code = wait(policy_sandbox, &process, cancel);
    // Kills the processes that it started too; then both pipes end.
    policy_sandbox.sandbox.kill();
    for copy in copies.into_iter().flatten() {
        drop(copy.join());
    }
    code
}

/// Copies output at once, and discards it after the reader closes.
fn pass(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut is_open = true;
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            is_open = is_open && to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_ok();
        }
    })
}

/// Waits until it ends. The first request to end is passed on to the command; the second kills everything.
fn wait(policy_sandbox: &PolicySandbox, process: &Process, cancel: &Cancel) -> Result<u8, Failure> {
    let mut is_signalled = false;
    loop {
        match process.wait(TICK) {
            Ok(exit) => return Ok(code(exit)),
            Err(WaitError::Gone { .. }) if cancel.is_urgent() => return Ok(signalled(Signal::KILL.as_raw())),
            Err(error @ WaitError::Gone { .. }) => return Err(failed(error.to_string())),
            Err(WaitError::Deadline { .. }) => {}
        }
        if cancel.is_urgent() {
            policy_sandbox.sandbox.kill();
        } else if let Some(why) = cancel.reason().filter(|_| !is_signalled) {
            is_signalled = true;
            let signal = if why == CancelReason::Interrupted { Signal::INT } else { Signal::TERM };
            // The command may have ended just now, which is the goal.
            drop(process.signal(signal.as_raw()));
        }
    }
}

/// A person and a command inside, in a terminal of the sandbox's own. The command's code.
pub(super) fn interact(
    sandbox: &Sandbox,
    directory: &Path,
    command: &[OsString],
    cancel: &Cancel,
) -> Result<u8, Failure> {
    let no_terminal =
        |error: std::io::Error| failed(format!("cannot open a terminal in the sandbox: {error}"));
    let both = sandbox.open_terminal().map_err(no_terminal)?;
    let mut command = Command::new(command.to_vec());
    command.working_directory = directory.to_owned();
    command.terminal = true;
    command.environment = variable("TERM").map(|term| ("TERM".into(), term.into())).into_iter().collect();
    let twice =
        both.inside.try_clone().and_then(|one| Ok((one, both.inside.try_clone()?))).map_err(no_terminal)?;
    command.stdin = Stdio::Descriptor(both.inside);
    command.stdout = Stdio::Descriptor(twice.0);
    command.stderr = Stdio::Descriptor(twice.1);
    let process = sandbox.exec(command).map_err(|error| failed(error.to_string()))?;
    // If we are asked to end, restore the caller's terminal first.
    let relayed = terminal::relay(&both.outside, || match process.wait(Duration::ZERO) {
        _ if cancel.is_cancelled() => Some(Ok(::sandbox::CommandExit::Signal(Signal::TERM.as_raw()))),
        Err(WaitError::Deadline { .. }) => None,
        ended => Some(ended),
    });
    match relayed.map_err(|error| failed(format!("cannot relay the terminal: {error}")))? {
        Some(Ok(exit)) => Ok(code(exit)),
        Some(Err(error)) => Err(failed(error.to_string())),
        // The person's terminal is gone.
        None => Ok(signalled(Signal::HUP.as_raw())),
    }
}
