//! fullsend as an MCP server: other agents run harnesses, test policies and use sandboxes as tools. This module turns messages
//! into answers and tools into command lines. It starts and prints nothing.
//!
//! The current revision of the protocol has no handshake: every request names its revision in `_meta`. Older revisions
//! agree on one with `initialize`.

pub mod tools;

use serde_json::{Value as Json, json};

use crate::json_rpc::{self, INVALID_PARAMETERS, RpcFailure, RpcMessage, UNKNOWN_METHOD};

/// The revision without a handshake.
const CURRENT: &str = "2026-07-28";
/// The revisions with a handshake, newest first.
const WITH_HANDSHAKE: &[&str] = &["2025-11-25", "2025-06-18"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may cache the list of tools. The tools change only with the program.
const LIST_TTL_MS: u64 = 3_600_000;

const INSTRUCTIONS: &str = "fullsend runs coding agents from harness files in a sandbox and records what they did. \
    `list_harnesses` names the harnesses of this repository, `run_harness` runs one and returns its validated result. The \
    sandbox tools run single commands in a temporary sandbox with a copy-on-write view of the repository.";

/// All supported revisions, newest first.
pub fn versions() -> Vec<&'static str> {
    std::iter::once(CURRENT).chain(WITH_HANDSHAKE.iter().copied()).collect()
}

/// What to do about one message.
#[derive(Debug, PartialEq)]
pub enum Reaction {
    /// Send this now.
    Answer(Json),
    /// Run a tool, and answer with `Call::answer`.
    Call(Call),
    /// Stop the call with this id, if it still runs.
    Cancel(Json),
    Nothing,
}

/// A tool call that must be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The id of its request.
    pub id: Json,
    pub command: tools::ToolCommand,
    is_current: bool,
}

/// How the command of a tool ended.
#[derive(Clone, Debug)]
pub struct ToolEnd {
    /// `None` if it was cancelled or could not be started.
    pub exit_code: Option<i32>,
    pub output: Vec<u8>,
    /// Whether the output is longer.
    pub is_cut: bool,
    pub errors: String,
}

impl ToolEnd {
    /// The end of a command that was not started.
    pub fn not_started(why: String) -> Self {
        Self { exit_code: None, output: Vec::new(), is_cut: false, errors: why }
    }
}

const UNSUPPORTED_VERSION: i32 = -32_022;

/// Decides about one message of a client.
pub fn react(message: &[u8]) -> Reaction {
    match json_rpc::parse(message) {
        Err(answer) => Reaction::Answer(answer),
        // The server sends no requests, so it ignores answers.
        Ok(RpcMessage::Response { .. }) => Reaction::Nothing,
        Ok(RpcMessage::Notification { method, parameters }) => {
            match (method.as_str(), parameters.get("requestId")) {
                ("notifications/cancelled", Some(call)) => Reaction::Cancel(call.clone()),
                _ => Reaction::Nothing,
            }
        }
        Ok(RpcMessage::Request { id, method, parameters }) => {
            answer(&id, &method, &parameters).unwrap_or_else(|failure| Reaction::Answer(failure.answer(&id)))
        }
    }
}

fn answer(id: &Json, method: &str, parameters: &Json) -> Result<Reaction, RpcFailure> {
    let is_current = is_current_revision(method, parameters)?;
    let mut result = match method {
        "initialize" if !is_current => initialize(parameters),
        "ping" if !is_current => json!({}),
        "server/discover" => discover(),
        "tools/list" => json!({ "tools": tools::list() }),
        "tools/call" => {
            let name = parameters.get("name").and_then(Json::as_str);
            let name = name.ok_or_else(|| RpcFailure::new(INVALID_PARAMETERS, "`name` is missing"))?;
            let none = json!({});
            let arguments = parameters.get("arguments").unwrap_or(&none);
            let command = tools::command(name, arguments)
                .map_err(|message| RpcFailure::new(INVALID_PARAMETERS, message))?;
            return Ok(Reaction::Call(Call { id: id.clone(), command, is_current }));
        }
        _ => return Err(RpcFailure::new(UNKNOWN_METHOD, format!("there is no method `{method}`"))),
    };
    if is_current {
        complete(&mut result);
        if method.ends_with("/list") || method == "server/discover" {
            result["ttlMs"] = LIST_TTL_MS.into();
            result["cacheScope"] = "public".into();
        }
    }
    Ok(Reaction::Answer(json_rpc::result(id, &result)))
}

/// Whether a request is of the revision that has no handshake. Such a request names its revision and the client's capabilities.
fn is_current_revision(method: &str, parameters: &Json) -> Result<bool, RpcFailure> {
    let meta = parameters.get("_meta");
    let version = meta.and_then(|meta| meta.get(VERSION_KEY));
    let Some(version) = version else {
        let is_discovery = method == "server/discover";
        return if is_discovery { Err(missing(VERSION_KEY)) } else { Ok(false) };
    };
    if version != CURRENT {
        return Err(RpcFailure {
            code: UNSUPPORTED_VERSION,
            message: "this revision of the protocol is not supported".to_owned(),
            data: Some(json!({ "supported": [CURRENT], "requested": version })),
        });
    }
    match meta.and_then(|meta| meta.get(CAPABILITIES_KEY)) {
        Some(Json::Object(_)) => Ok(true),
        _ => Err(missing(CAPABILITIES_KEY)),
    }
}

fn missing(key: &str) -> RpcFailure {
    RpcFailure::new(INVALID_PARAMETERS, format!("`_meta` has no `{key}`"))
}

fn server() -> Json {
    json!({ "name": "fullsend", "version": env!("CARGO_PKG_VERSION") })
}

fn initialize(parameters: &Json) -> Json {
    let asked = parameters.get("protocolVersion").and_then(Json::as_str);
    let agreed = WITH_HANDSHAKE.iter().find(|version| Some(**version) == asked).unwrap_or(&WITH_HANDSHAKE[0]);
    json!({
        "protocolVersion": agreed,
        "capabilities": { "tools": {} },
        "serverInfo": server(),
        "instructions": INSTRUCTIONS,
    })
}

fn discover() -> Json {
    json!({
        "supportedVersions": [CURRENT],
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
    })
}

/// What the current revision adds to every result.
fn complete(result: &mut Json) {
    result["resultType"] = "complete".into();
    result["_meta"] = json!({ SERVER_KEY: server() });
}

impl Call {
    /// The answer to a call that its client cancelled, for a transport that answers every request.
    pub fn cancelled(&self) -> Json {
        self.answer(&ToolEnd::not_started("the client cancelled the call".to_owned()))
    }

    /// The answer to the request. A command that failed is a result too, so that the agent reads why.
    pub fn answer(&self, end: &ToolEnd) -> Json {
        let mut result = tools::result(&self.command, end);
        if self.is_current {
            complete(&mut result);
        }
        json_rpc::result(&self.id, &result)
    }
}

#[cfg(test)]
mod tests;
