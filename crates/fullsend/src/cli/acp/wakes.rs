//! A prompt of a session: a message, and wakes until the agent has answered. Tool calls of `confirm_tools` are questions to the
//! person at the editor.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;
use session::ToolRequestKind;

use super::Server;
use super::child::{ChildCommand, ChildEnd};
use super::prompts::FollowedRun;
use crate::acp::{PromptEnd, failed, is_allowed, permission};
use crate::cli::exit::Exit;
use crate::json_rpc::RpcFailure;

/// What `session create` prints.
#[derive(Deserialize)]
struct Created {
    id: String,
}

/// What `session show --json` prints, as far as it is needed.
#[derive(Deserialize)]
struct SessionStatusForm {
    requests: Vec<OpenRequest>,
}

#[derive(Deserialize)]
struct OpenRequest {
    id: String,
    kind: ToolRequestKind,
    tool: String,
    input: Json,
    input_digest: String,
}

/// What `session run --json` prints last.
#[derive(Deserialize)]
struct WakeLine {
    response: String,
    reason: String,
}

/// A new session of the harness.
pub(super) fn create(harness: &str, project: &Path) -> Result<String, RpcFailure> {
    let option = format!("--agent={harness}");
    let output = ChildCommand::new(project, &["session", "create", &option]).succeed()?;
    let created: Created = parse(&output)?;
    Ok(created.id)
}

fn parse<T: for<'a> Deserialize<'a>>(output: &str) -> Result<T, RpcFailure> {
    serde_json::from_str(output)
        .map_err(|error| failed(format!("cannot read the output of a command: {error}")))
}

impl Server {
    pub(super) fn wake_session(&self, session: &str, text: &str) -> Result<PromptEnd, RpcFailure> {
        let project = self.project(session)?;
        let mut message = ChildCommand::new(&project, &["session", "send", "--", session, "-"]);
        message.input = text.as_bytes().to_vec();
        message.succeed()?;
        loop {
            let waits = self.ask_requests(session, &project)?;
            if waits || self.prompts.is_cancelled(session) {
                let is_cancelled = self.prompts.is_cancelled(session);
                let exit_code = Some(Exit::Paused.code().into());
                return Ok(PromptEnd { exit_code, is_cancelled, reason: String::new() });
            }
            let end = self.wake(session, &project)?;
            if end.is_cancelled || end.exit_code != Some(Exit::Paused.code().into()) {
                return Ok(end);
            }
        }
    }

    /// One wake.
    fn wake(&self, session: &str, project: &Path) -> Result<PromptEnd, RpcFailure> {
        let command = ChildCommand::new(project, &["session", "run", "--json", "--events", "--", session]);
        let mut run = FollowedRun::new(self, session);
        let mut result: Option<WakeLine> = None;
        let mut line = |line: &str| {
            if !run.line(line) {
                result = serde_json::from_str(line).ok();
            }
        };
        let ended = self.follow(session, &command, &mut line)?;
        let is_paused = ended.exit_code == Some(Exit::Paused.code().into());
        let Some(result) = result else { return Ok(self.without_result(session, run, &ended)) };
        if !result.response.is_empty() {
            self.tell(session, &result.response);
        }
        let ended = ChildEnd { errors: if is_paused { String::new() } else { result.reason }, ..ended };
        Ok(run.end(&ended))
    }

    /// A wake that was not run: the configuration is wrong, or another worker runs the session.
    fn without_result(&self, session: &str, run: FollowedRun<'_>, ended: &ChildEnd) -> PromptEnd {
        if ended.exit_code == Some(Exit::Done.code().into()) {
            self.tell(
                session,
                "Nothing was run here. A worker may run this session; `fullsend session watch` follows it.",
            );
        }
        run.end(ended)
    }

    /// Asks the person about every call that needs a confirmation. Returns whether the session waits for something
    /// else.
    fn ask_requests(&self, session: &str, project: &Path) -> Result<bool, RpcFailure> {
        let output = ChildCommand::new(project, &["session", "show", "--json", "--", session]).succeed()?;
        let shown: SessionStatusForm = parse(&output)?;
        let mut waits = false;
        for request in &shown.requests {
            match request.kind {
                ToolRequestKind::Confirmation => self.confirm(session, project, request)?,
                ToolRequestKind::CustomTool => {
                    waits = true;
                    self.tell(session, &tool_result_advice(session, request));
                }
            }
        }
        Ok(waits)
    }

    /// A question that was cancelled stays open: the interrupt has ended it.
    fn confirm(&self, session: &str, project: &Path, request: &OpenRequest) -> Result<(), RpcFailure> {
        let question = permission(session, &request.id, &request.tool, &request.input);
        let answer = self.ask(session, &question);
        if self.prompts.is_cancelled(session) {
            return Ok(());
        }
        let decision = if answer.as_ref().is_some_and(is_allowed) { "allow" } else { "deny" };
        let digest = format!("--digest={}", request.input_digest);
        let words = ["session", "confirm", &digest, "--", session, &request.id, decision];
        ChildCommand::new(project, &words).succeed().map(drop)
    }
}

fn tool_result_advice(session: &str, request: &OpenRequest) -> String {
    let OpenRequest { id, tool, input, .. } = request;
    format!(
        "The agent waits for the result of `{tool}` with {input}. Answer with \
         `fullsend session tool-result {session} {id} JSON`, and then send another prompt."
    )
}
