//! The commands of the tool calls that run, for both transports of `fullsend mcp`: how they start, end and are cancelled.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal};
use serde_json::Value as Json;

use super::own_command;
use crate::mcp::tools::ToolCommand;
use crate::mcp::{Call, ToolEnd};

/// The most bytes of output that a call returns.
const MAX_OUTPUT: u64 = 4 << 20;
/// How many calls run at once.
const MAX_CALLS: usize = 16;

/// The calls that run, by the client and the id of their requests.
pub(super) struct ToolServer {
    directory: PathBuf,
    calls: Mutex<HashMap<String, RunningCall>>,
}

struct RunningCall {
    process: Pid,
    is_cancelled: bool,
}

impl ToolServer {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, calls: Mutex::default() }
    }

    /// Starts the command of a call. The error is the answer to one that cannot start.
    pub(super) fn start(&self, key: &str, call: &Call) -> Result<Child, Json> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let started = if calls.len() >= MAX_CALLS {
            Err(format!("{MAX_CALLS} calls are running; wait until one has ended"))
        } else if calls.contains_key(key) {
            Err("a call with this id is running".to_owned())
        } else {
            self.spawn(&call.command)
        };
        let child = started.map_err(|errors| call.answer(&ToolEnd::not_started(errors)))?;
        if let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            calls.insert(key.to_owned(), RunningCall { process, is_cancelled: false });
        }
        Ok(child)
    }

    fn spawn(&self, command: &ToolCommand) -> Result<Child, String> {
        let mut command = command.clone();
        if command.binds_to_server {
            command.add_option(format!("--parent={}", std::process::id()));
        }
        for (option, path) in std::mem::take(&mut command.paths) {
            command.add_option(format!("--{option}={}", self.resolve(&path)?.display()));
        }
        own_command::spawn(&self.directory, &command.arguments)
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

    /// Waits for the command. The answer, unless the client cancelled the call.
    pub(super) fn finish(&self, key: &str, call: &Call, mut child: Child) -> Option<Json> {
        let read = |output| own_command::read_start(output, MAX_OUTPUT);
        let (output, errors) = own_command::exchange(&mut child, &call.command.input, read);
        // Before the process is reaped: a signal must not reach another one with its number.
        let call_state = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.remove(key)
        };
        let ended = child.wait();
        if call_state.is_some_and(|state| state.is_cancelled) {
            return None;
        }
        let exit_code = ended.ok().and_then(|status| status.code());
        Some(call.answer(&ToolEnd { exit_code, output: output.bytes, is_cut: output.is_cut, errors }))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Asks a command to end in an orderly way: a run closes its sandbox and completes its record.
    pub(super) fn cancel(&self, key: &str) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = calls.get_mut(key) {
            call.is_cancelled = true;
            let _ = rustix::process::kill_process(call.process, Signal::TERM);
        }
    }

    pub(super) fn cancel_all(&self) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        for call in calls.values_mut() {
            call.is_cancelled = true;
            let _ = rustix::process::kill_process(call.process, Signal::TERM);
        }
    }
}
