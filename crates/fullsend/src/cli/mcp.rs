//! `fullsend mcp`: serves fullsend as tools to an MCP client, over standard input and output. Each call is a command of this
//! program, so it has the same checks, record and exit code.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use rustix::process::{Pid, Signal};
use serde_json::Value as Json;

use super::exit::{Exit, Failure};
use super::json_lines::{self, next_message, read_start, send};
use super::{executor, signals};
use crate::cancel::Cancel;
use crate::mcp::tools::ToolCommand;
use crate::mcp::{Call, Reaction, ToolEnd, react};
use crate::render::diagnostics::clean_text;

/// The most that a call returns of its output and of its errors.
const MAX_OUTPUT: u64 = 4 << 20;
const MAX_ERRORS: u64 = 256 << 10;
/// How many calls run at once.
const MAX_CALLS: usize = 16;

#[derive(Args, Debug)]
pub struct Arguments {
    /// The repository, or a directory in it [default: the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let directory = arguments.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let directory = directory.canonicalize().map_err(|error| {
        Failure::new(Exit::Missing, format!("cannot use {}: {error}", directory.display()))
    })?;
    let server = Arc::new(Server { directory, calls: Mutex::default() });
    let executor = executor::start(1)?;
    let cancel = Cancel::default();
    signals::watch(executor.handle(), &cancel)?;
    let stopped = Arc::clone(&server);
    let asked = Arc::clone(&server);
    json_lines::end_on_signal(cancel, move || stopped.cancel_all(), move || asked.is_idle())?;
    let mut messages = std::io::stdin().lock();
    std::thread::scope(|scope| {
        let served = loop {
            match next_message(&mut messages) {
                Ok(Some(message)) => match react(&message) {
                    Reaction::Answer(answer) => send(&answer),
                    Reaction::Cancel(id) => server.cancel(&id),
                    Reaction::Nothing => {}
                    Reaction::Call(call) => {
                        let server = &server;
                        if let Some(started) = server.start(&call) {
                            scope.spawn(move || server.finish(&call, started));
                        }
                    }
                },
                Ok(None) => break Ok(Exit::Done),
                Err(failure) => break Err(failure),
            }
        };
        // The client has gone: its calls end in order.
        server.cancel_all();
        served
    })
}

/// The calls that run, by the id of their requests.
struct Server {
    directory: PathBuf,
    calls: Mutex<HashMap<String, RunningCall>>,
}

struct RunningCall {
    process: Pid,
    is_cancelled: bool,
}

impl Server {
    /// Starts the command of a call. One that cannot start is answered here.
    fn start(&self, call: &Call) -> Option<Child> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let key = call.id.to_string();
        let started = if calls.len() >= MAX_CALLS {
            Err(format!("{MAX_CALLS} calls are running; wait until one has ended"))
        } else if calls.contains_key(&key) {
            Err("a call with this id is running".to_owned())
        } else {
            self.spawn(&call.command)
        };
        let child = match started {
            Ok(child) => child,
            Err(errors) => {
                send(&call.answer(&ToolEnd::not_started(errors)));
                return None;
            }
        };
        if let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            calls.insert(key, RunningCall { process, is_cancelled: false });
        }
        Some(child)
    }

    fn spawn(&self, command: &ToolCommand) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = command.clone();
        if command.binds_to_server {
            command.add_option(format!("--parent={}", std::process::id()));
        }
        for (option, path) in std::mem::take(&mut command.paths) {
            command.add_option(format!("--{option}={}", self.resolve(&path)?.display()));
        }
        Command::new(program)
            .args(&command.arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the command: {error}"))
    }

    /// A path in this server's directory. A link that leaves it is refused.
    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        let found = self.directory.join(path).canonicalize();
        let found = found.map_err(|error| format!("cannot use `{path}`: {error}"))?;
        if found.starts_with(&self.directory) {
            Ok(found)
        } else {
            Err(format!("`{path}` is not in {}, which this server serves", self.directory.display()))
        }
    }

    /// Waits for the command, and answers unless the client cancelled the call.
    fn finish(&self, call: &Call, mut child: Child) {
        let mut input = child.stdin.take();
        let output = child.stdout.take();
        let errors = child.stderr.take();
        let (output, errors) = std::thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(input) = &mut input {
                    drop(input.write_all(&call.command.input));
                }
            });
            let errors =
                scope.spawn(move || errors.map(|from| read_start(from, MAX_ERRORS)).unwrap_or_default());
            let output = output.map(|from| read_start(from, MAX_OUTPUT)).unwrap_or_default();
            (output, errors.join().unwrap_or_default())
        });
        // Before the process is reaped: a signal must not reach another one with its number.
        let call_state = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.remove(&call.id.to_string())
        };
        let ended = child.wait();
        if call_state.is_some_and(|state| state.is_cancelled) {
            return;
        }
        let exit_code = ended.ok().and_then(|status| status.code());
        let errors = clean_text(String::from_utf8_lossy(&errors.bytes).trim_end());
        send(&call.answer(&ToolEnd { exit_code, output: output.bytes, is_cut: output.is_cut, errors }));
    }

    fn is_idle(&self) -> bool {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Asks a command to end in order: a run ends its sandbox and completes its record.
    fn cancel(&self, id: &Json) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = calls.get_mut(&id.to_string()) {
            call.is_cancelled = true;
            let _ = rustix::process::kill_process(call.process, Signal::TERM);
        }
    }

    fn cancel_all(&self) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        for call in calls.values_mut() {
            call.is_cancelled = true;
            let _ = rustix::process::kill_process(call.process, Signal::TERM);
        }
    }
}
