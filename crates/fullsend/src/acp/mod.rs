//! fullsend as an agent of the Agent Client Protocol, version 1: turns an editor's messages into actions, and the
//! events of a run into updates for the editor. It starts, reads and prints nothing.

pub mod prompt;
pub mod updates;

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::event::exit::Exit;
use crate::json_rpc::{self, INVALID_PARAMETERS, RpcFailure, RpcMessage, UNKNOWN_METHOD};

/// The version of the protocol.
const VERSION: u64 = 1;

const INTERNAL_ERROR: i32 = -32_603;
const NOT_FOUND: i32 = -32_002;

/// What to do about one message of an editor.
#[derive(Debug, PartialEq)]
pub enum EditorMessage {
    /// Send this now.
    Answer(Json),
    /// Perform this action, and answer the request with this id.
    Request {
        id: Json,
        request: EditorRequest,
    },
    /// Stop the prompt of this session.
    Cancel(String),
    /// The answer to a question of ours. `None` if the editor has none.
    Response {
        id: Json,
        result: Option<Json>,
    },
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum EditorRequest {
    NewSession { directory: PathBuf },
    LoadSession { session: String, directory: PathBuf },
    Prompt { session: String, blocks: Vec<Json> },
}

/// Decides about one message. `loads_sessions`: whether earlier sessions can be loaded.
pub fn decide(message: &[u8], loads_sessions: bool) -> EditorMessage {
    match json_rpc::parse(message) {
        Err(answer) => EditorMessage::Answer(answer),
        Ok(RpcMessage::Response { id, result }) => EditorMessage::Response { id, result: result.ok() },
        Ok(RpcMessage::Notification { method, parameters }) => {
            match (method.as_str(), text(&parameters, "sessionId")) {
                ("session/cancel", Ok(session)) => EditorMessage::Cancel(session),
                _ => EditorMessage::Nothing,
            }
        }
        Ok(RpcMessage::Request { id, method, .. }) if method == "initialize" => {
            EditorMessage::Answer(json_rpc::result(&id, &initialize(loads_sessions)))
        }
        Ok(RpcMessage::Request { id, method, parameters }) => {
            match requested(&method, &parameters, loads_sessions) {
                Ok(request) => EditorMessage::Request { id, request },
                Err(failure) => EditorMessage::Answer(failure.answer(&id)),
            }
        }
    }
}

/// An agent answers with its newest version; an editor that does not support that version closes the connection.
fn initialize(loads_sessions: bool) -> Json {
    json!({
        "protocolVersion": VERSION,
        "agentCapabilities": {
            "loadSession": loads_sessions,
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
        },
        "agentInfo": { "name": "fullsend", "title": "fullsend", "version": env!("CARGO_PKG_VERSION") },
        "authMethods": [],
    })
}

fn requested(method: &str, parameters: &Json, loads_sessions: bool) -> Result<EditorRequest, RpcFailure> {
    match method {
        "session/new" => Ok(EditorRequest::NewSession { directory: directory(parameters)? }),
        "session/load" if loads_sessions => Ok(EditorRequest::LoadSession {
            session: text(parameters, "sessionId")?,
            directory: directory(parameters)?,
        }),
        "session/prompt" => {
            let blocks = parameters.get("prompt").and_then(Json::as_array).cloned();
            let blocks = blocks.ok_or_else(|| invalid("`prompt` is not a list"))?;
            Ok(EditorRequest::Prompt { session: text(parameters, "sessionId")?, blocks })
        }
        _ => Err(RpcFailure::new(UNKNOWN_METHOD, format!("there is no method `{method}`"))),
    }
}

fn directory(parameters: &Json) -> Result<PathBuf, RpcFailure> {
    let directory = PathBuf::from(text(parameters, "cwd")?);
    if directory.is_absolute() { Ok(directory) } else { Err(invalid("`cwd` is not an absolute path")) }
}

fn text(parameters: &Json, key: &str) -> Result<String, RpcFailure> {
    let value = parameters.get(key).and_then(Json::as_str);
    value.map(str::to_owned).ok_or_else(|| invalid(format!("`{key}` is missing")))
}

/// The editor's request is wrong.
pub fn invalid(message: impl Into<String>) -> RpcFailure {
    RpcFailure::new(INVALID_PARAMETERS, message)
}

pub fn no_session(id: &str) -> RpcFailure {
    RpcFailure::new(NOT_FOUND, format!("there is no session `{id}`"))
}

/// A command of fullsend failed.
pub fn failed(message: impl Into<String>) -> RpcFailure {
    RpcFailure::new(INTERNAL_ERROR, message)
}

/// How a prompt ended.
#[derive(Clone, Debug, Default)]
pub struct PromptEnd {
    /// `None` if a signal ended the command.
    pub exit_code: Option<i32>,
    pub is_cancelled: bool,
    /// Why it failed; empty if it did not.
    pub reason: String,
}

impl PromptEnd {
    /// The result of the request, or the error that the editor shows.
    pub fn result(&self) -> Result<Json, RpcFailure> {
        let code = |exit: Exit| Some(i32::from(exit.code()));
        let stop = match self.exit_code {
            _ if self.is_cancelled => "cancelled",
            exit if exit == code(Exit::Done) => "end_turn",
            // The agent stopped without output; its words say why.
            exit if exit == code(Exit::NoOutput) || exit == code(Exit::Paused) => "end_turn",
            exit if exit == code(Exit::Budget) => "max_tokens",
            exit if exit == code(Exit::Security) => "refusal",
            exit => {
                let mut failure = failed(&self.reason);
                failure.data = Some(json!({ "exit_code": exit }));
                return Err(failure);
            }
        };
        Ok(json!({ "stopReason": stop }))
    }
}

/// The question whether a tool may be called, for `session/request_permission`.
pub fn permission(session: &str, call: &str, tool: &str, input: &Json) -> Json {
    json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": call, "title": updates::title(tool, &updates::input_summary(input)),
            "kind": updates::kind(tool), "status": "pending", "rawInput": input,
        },
        "options": [
            { "optionId": ALLOW, "name": "Allow this call", "kind": "allow_once" },
            { "optionId": "deny", "name": "Deny it", "kind": "reject_once" },
        ],
    })
}

const ALLOW: &str = "allow";

/// A person's answer to a question. Only an explicit `allow` allows.
pub fn is_allowed(result: &Json) -> bool {
    let outcome = &result["outcome"];
    outcome["outcome"] == "selected" && outcome["optionId"] == ALLOW
}

#[cfg(test)]
mod tests;
