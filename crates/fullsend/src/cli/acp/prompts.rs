//! The prompts that are active, the processes that serve them, and how a prompt without a session becomes a run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal};
use serde_json::Value as Json;

use super::Server;
use super::child::{ChildCommand, ChildEnd};
use crate::acp::updates::{Updates, message, notification};
use crate::acp::{PromptEnd, failed, invalid, no_session, prompt};
use crate::cli::exit::Exit;
use crate::cli::json_lines::send;
use crate::event::{Envelope, RunEvent};
use crate::json_rpc::RpcFailure;
use crate::render::result;

/// The active prompt of each session: one at a time.
#[derive(Default)]
pub(super) struct ActivePrompts(Mutex<HashMap<String, ActivePrompt>>);

#[derive(Default)]
struct ActivePrompt {
    process: Option<Pid>,
    is_cancelled: bool,
}

impl ActivePrompts {
    pub(super) fn begin(&self, session: &str) -> Result<(), RpcFailure> {
        let mut prompts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if prompts.contains_key(session) {
            return Err(invalid("this session has an active prompt; cancel it first"));
        }
        prompts.insert(session.to_owned(), ActivePrompt::default());
        Ok(())
    }

    pub(super) fn end(&self, session: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn is_cancelled(&self, session: &str) -> bool {
        let prompts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prompts.get(session).is_none_or(|prompt| prompt.is_cancelled)
    }

    /// Sets the process that serves a prompt, or none. A process that starts after a cancellation is ended.
    fn set_process(&self, session: &str, process: Option<Pid>) {
        let mut prompts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prompt) = prompts.get_mut(session) {
            prompt.process = process;
            if prompt.is_cancelled {
                prompt.terminate();
            }
        }
    }

    /// Whether there is a prompt to cancel.
    pub(super) fn cancel(&self, session: &str) -> bool {
        let mut prompts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let prompt = prompts.get_mut(session);
        prompt.map(|prompt| prompt.is_cancelled = true).is_some()
    }

    pub(super) fn terminate(&self, session: &str) {
        let prompts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prompts.get(session).into_iter().for_each(ActivePrompt::terminate);
    }

    pub(super) fn stop_all(&self) {
        let mut prompts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for prompt in prompts.values_mut() {
            prompt.is_cancelled = true;
            prompt.terminate();
        }
    }
}

impl ActivePrompt {
    fn terminate(&self) {
        if let Some(process) = self.process {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(process, Signal::TERM);
        }
    }
}

impl Server {
    pub(super) fn project(&self, session: &str) -> Result<PathBuf, RpcFailure> {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.get(session).cloned().ok_or_else(|| no_session(session))
    }

    pub(super) fn prompt(&self, session: &str, blocks: &[Json]) -> Result<Json, RpcFailure> {
        let project = self.project(session)?;
        let text = prompt::text(blocks, &project)?;
        let end = match self.uses_sessions {
            true => self.wake_session(session, &text)?,
            false => self.run_harness(session, &text)?,
        };
        end.result()
    }

    /// One run with the prompt.
    fn run_harness(&self, session: &str, text: &str) -> Result<PromptEnd, RpcFailure> {
        let place =
            tempfile::tempdir().map_err(|error| failed(format!("cannot keep the result: {error}")))?;
        let output = place.path().join("result");
        let mut words = vec!["run".to_owned(), "--json".to_owned(), "--prompt-file=-".to_owned()];
        words.push(format!("--output-file={}", output.display()));
        if let Some(harness) = &self.harness {
            words.extend(["--".to_owned(), harness.clone()]);
        }
        let project = self.project(session)?;
        let mut run = FollowedRun::new(self, session);
        let command = ChildCommand { directory: &project, arguments: words, input: text.as_bytes().to_vec() };
        let end = self.follow(session, &command, &mut |line| _ = run.line(line))?;
        let run_id = run.id.clone();
        let end = run.end(&end);
        if let Ok(bytes) = std::fs::read(&output) {
            self.tell(session, &result_text(&bytes));
        }
        if let Some(run_id) = run_id {
            self.tell_changes(session, &project, &run_id);
        }
        Ok(end)
    }

    /// Starts the command, which a cancellation ends, and reads its lines.
    pub(super) fn follow(
        &self,
        session: &str,
        command: &ChildCommand<'_>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<ChildEnd, RpcFailure> {
        if self.prompts.is_cancelled(session) {
            return Ok(ChildEnd::default());
        }
        let child = command.spawn()?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        self.prompts.set_process(session, process);
        // Before the process is reaped: a signal must not reach another one with its number.
        let forget = || self.prompts.set_process(session, None);
        Ok(command.read(child, on_line, forget))
    }

    /// The changes that the run proposes. The project itself stays unchanged: the person decides.
    fn tell_changes(&self, session: &str, project: &std::path::Path, run: &str) {
        let changes = ChildCommand::new(project, &["runs", "diff", "--stat", "--", run]).succeed();
        if let Ok(changes) = changes
            && !changes.trim().is_empty()
        {
            self.tell(
                session,
                &format!("\n\nChanges (`fullsend runs apply {run}` applies them):\n\n{changes}"),
            );
        }
    }

    /// Words for the person.
    pub(super) fn tell(&self, session: &str, text: &str) {
        send(&notification(session, &message(text)));
    }
}

/// A run whose events become updates.
pub(super) struct FollowedRun<'a> {
    server: &'a Server,
    session: &'a str,
    updates: Updates,
    /// The id of the run, once it has one.
    pub(super) id: Option<String>,
    reason: String,
}

impl<'a> FollowedRun<'a> {
    pub(super) fn new(server: &'a Server, session: &'a str) -> Self {
        let number = server.last_run.fetch_add(1, Ordering::SeqCst) + 1;
        Self { server, session, updates: Updates::new(number), id: None, reason: String::new() }
    }

    /// Sends the updates of a line. Returns whether it is an event.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let Ok(Envelope { event, .. }) = serde_json::from_str::<Envelope>(line) else { return false };
        for update in self.updates.of(&event) {
            send(&notification(self.session, &update));
        }
        match event {
            RunEvent::RunStarted { run_id, .. } => self.id = Some(run_id),
            RunEvent::RunFinished { reason, .. } => self.reason = reason,
            _ => {}
        }
        true
    }

    pub(super) fn end(self, ended: &ChildEnd) -> PromptEnd {
        let reason = if self.reason.is_empty() { ended.errors.clone() } else { self.reason };
        let is_cancelled = self.server.prompts.is_cancelled(self.session);
        let is_done = ended.exit_code == Some(Exit::Done.code().into());
        if !is_done && !is_cancelled && !reason.is_empty() {
            self.server.tell(self.session, &format!("\n\n{reason}"));
        }
        PromptEnd { exit_code: ended.exit_code, is_cancelled, reason }
    }
}

/// The accepted result, for people.
fn result_text(bytes: &[u8]) -> String {
    match serde_json::from_slice::<Json>(bytes) {
        Ok(document) => result::text(&document),
        Err(_) => result::other(bytes),
    }
}
