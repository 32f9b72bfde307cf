//! Which agent a harness chooses: opencode, whose configuration we write, or a command that the harness names. Says how it
//! is started, what is mounted for it, and which options have no effect with it.

use std::ffi::OsString;

use sandbox::{Mount, MountKind};
use serde_json::{Value as Json, json};

use super::opencode;
use crate::check::Checked;
use crate::harness::Harness;
use crate::harness::names::AcpAgentName;
use crate::runtime::attempt::RuntimeError;
use crate::runtime::contract::RefusedOption;
use crate::runtime::launch::{LaunchContext, LaunchSpec};
use crate::runtime::mcp::{self, McpEndpoint, McpServerSpec};
use crate::runtime::{options, paths, skills, state};

/// Files for the agent, inside: the skills of the harness.
pub const CONFIG_DIRECTORY: &str = "/sandbox/acp-config";

/// Variables that a launch clears: they would choose another service or other rights.
pub const MODEL_VARIABLES: &[&str] = opencode::VARIABLES;

/// The key is a placeholder: the gateway has the real one.
const KEY: &str = "held-by-fullsend";

const NO_GEMINI: &str = "gemini-cli sends Google's own requests (generateContent), which the model gateway does not \
     speak; use `acp: { agent: opencode }` or another runtime";

/// The agent of a harness.
#[derive(Clone, Copy, Debug)]
pub enum AcpProgram<'a> {
    Opencode,
    /// The harness names it. Its configuration is its own.
    Command(&'a Harness),
}

pub fn chosen(harness: &Harness) -> AcpProgram<'_> {
    let has_command = harness.acp.as_ref().is_some_and(|acp| !acp.command.0.is_empty());
    if has_command { AcpProgram::Command(harness) } else { AcpProgram::Opencode }
}

fn servers_file() -> String {
    format!("{}/servers.json", paths::LAUNCH)
}

pub fn mounts(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<Mount>> {
    let servers: Vec<Json> = mcp::servers(spec)?.iter().map(in_protocol).collect();
    let contents = serde_json::to_vec(&servers)?;
    let mut mounts =
        vec![Mount { target: servers_file().into(), kind: MountKind::File { contents, mode: 0o444 } }];
    if let AcpProgram::Opencode = chosen(&spec.inputs.checked().resolved.harness) {
        mounts.extend(opencode::mounts(spec, CONFIG_DIRECTORY)?);
    }
    Ok(mounts)
}

/// The MCP servers, as the launch wrote them: their variables were expanded then.
pub fn servers(context: &LaunchContext<'_>) -> Result<Vec<Json>, RuntimeError> {
    let failed = |source| RuntimeError::State { what: "the list of MCP servers cannot be read", source };
    let file = state::read_file(context.sandbox.root(), &servers_file()).map_err(failed)?;
    let file = file.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    serde_json::from_slice(&file).map_err(|error| failed(error.into()))
}

fn in_protocol(server: &McpServerSpec) -> Json {
    let pairs = |pairs: &[(String, String)]| -> Vec<Json> {
        pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
    };
    match &server.endpoint {
        McpEndpoint::Program { command, arguments, environment } => {
            json!({ "name": server.name, "command": command, "args": arguments, "env": pairs(environment) })
        }
        McpEndpoint::Address { url, headers, is_sse } => {
            let kind = if *is_sse { "sse" } else { "http" };
            json!({ "type": kind, "name": server.name, "url": url, "headers": pairs(headers) })
        }
    }
}

impl AcpProgram<'_> {
    /// Whether it is the program that `fullsend runtimes install` puts into the cache.
    pub fn uses_program(self) -> bool {
        matches!(self, Self::Opencode)
    }

    pub fn arguments(self, context: &LaunchContext<'_>) -> Vec<String> {
        match self {
            Self::Opencode => {
                let program = context.program.map_or("opencode", |program| program.path.as_str());
                vec![program.to_owned(), "acp".to_owned()]
            }
            Self::Command(harness) => {
                let words = harness.acp.iter().flat_map(|acp| &acp.command.0);
                words.map(|word| word.value.clone()).collect()
            }
        }
    }

    /// Agents find the gateway by the variables that are usual for their vendor.
    pub fn environment(self) -> Vec<(OsString, OsString)> {
        let gateway = format!("http://{}", paths::GATEWAY_NAME);
        let mut all: Vec<(&str, String)> =
            MODEL_VARIABLES.iter().map(|name| (*name, String::new())).collect();
        match self {
            Self::Opencode => all.extend(opencode::environment(CONFIG_DIRECTORY)),
            Self::Command(_) => all.extend([
                ("ANTHROPIC_BASE_URL", gateway.clone()),
                ("ANTHROPIC_API_KEY", KEY.to_owned()),
                ("OPENAI_BASE_URL", format!("{gateway}/v1")),
                ("OPENAI_API_KEY", KEY.to_owned()),
            ]),
        }
        all.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// The protocol has no system prompt. An agent that is not configured by us reads the definition with the task.
    pub fn prompt(self, context: &LaunchContext<'_>, task: String) -> String {
        match self {
            Self::Opencode => task,
            Self::Command(_) => {
                let listing = skills::listing(context.inputs, CONFIG_DIRECTORY);
                format!("{}{listing}\n\n{task}", context.inputs.agent_text())
            }
        }
    }
}

/// An agent has its own tools and its own limit of turns, and the protocol cannot set how hard the model thinks.
pub fn refused_options(checked: &Checked) -> Vec<RefusedOption> {
    let mut refused = Vec::new();
    let mut refuse = |at, option: &str, instead: &str| {
        refused.push(RefusedOption { at, option: option.to_owned(), instead: instead.to_owned() });
    };
    let acp = checked.resolved.harness.acp.as_ref();
    let command = acp.map(|acp| &acp.command.0[..]).unwrap_or_default();
    if let Some(agent) = acp.and_then(|acp| acp.agent.as_ref()) {
        if agent.value == AcpAgentName::Gemini {
            refuse(Some(agent.at), "agent: gemini", NO_GEMINI);
        }
        if !command.is_empty() {
            refuse(Some(agent.at), "agent and command together", "write one of them");
        }
    }
    if let Some(program) = command.first().filter(|program| is_gemini(program)) {
        refuse(Some(program.at), &format!("command: {}", program.value), NO_GEMINI);
    }
    if let Some(effort) = options::effort(checked) {
        refuse(Some(effort.at), "effort", "leave it out: the protocol has no such setting");
    }
    let Some(about) = &checked.agent.frontmatter else { return refused };
    for (key, tools) in [("tools", &about.tools), ("disallowedTools", &about.disallowed_tools)] {
        if let Some(tools) = tools {
            let instead =
                "the agent has its own tools: leave it out, or limit them with `tool_allowlist_pretool`";
            refuse(Some(tools.at), key, instead);
        }
    }
    if about.max_turns.is_some() {
        refuse(None, "maxTurns", "set `budget: { turns: N }` in the harness");
    }
    refused
}

fn is_gemini(program: &str) -> bool {
    program.rsplit('/').next() == Some("gemini")
}
