//! The files around a launch, all read-only inside: managed settings with our hook and no other, the agent's definition,
//! the MCP servers of the harness. docs/decisions/0005-claude-launch.md gives the reasons.

use sandbox::{Mount, MountKind};
use serde_json::{Map, Value as Json, json};

use super::hooks;
use crate::guard::Guard;
use crate::harness::names::Backend;
use crate::inputs::ScannedInputs;
use crate::runtime::launch::{LaunchSpec, mount_only};
use crate::runtime::mcp::{self, McpEndpoint, McpServerSpec};
use crate::runtime::{contract, paths};

/// Its configuration and state, inside.
pub const CONFIG_DIRECTORY: &str = "/sandbox/claude-config";

/// Settings of the highest rank: no other file and nothing written later can change them.
const MANAGED: (&str, &str) = ("/etc/claude-code", "managed-settings.json");

/// Longer than the hook itself waits for the guard.
const HOOK_SECONDS: u32 = 30;

/// The tool that takes the output if there is a schema; the agent's list of tools must name it.
const RESULT_TOOL: &str = "StructuredOutput";

pub fn agents_file() -> String {
    format!("{}/agents.json", paths::LAUNCH)
}

pub fn servers_file() -> String {
    format!("{}/mcp.json", paths::LAUNCH)
}

/// The hooks, if managed settings cannot be mounted. Another file can switch these off; then the model gateway stops
/// the run.
pub fn hooks_file() -> String {
    format!("{}/settings.json", paths::LAUNCH)
}

pub fn mounts(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<Mount>> {
    let inputs = spec.inputs;
    let hooks = managed(spec.guard).to_string();
    let config = CONFIG_DIRECTORY;
    let file = |target: String, contents: String| Mount {
        target: target.into(),
        kind: MountKind::File { contents: contents.into_bytes(), mode: 0o444 },
    };
    Ok(vec![
        match inputs.checked().resolved.harness.sandbox.backend.value {
            Backend::Local => mount_only(spec, MANAGED.0, MANAGED.1, &hooks)?,
            Backend::Openshell => file(hooks_file(), hooks),
        },
        file(agents_file(), agents(inputs).to_string()),
        file(servers_file(), servers(&mcp::servers(spec)?).to_string()),
        // Otherwise the agent could write them, and Claude Code reads them again whenever they change.
        file(format!("{config}/settings.json"), "{}".to_owned()),
        file(format!("{config}/CLAUDE.md"), String::new()),
    ])
}

fn managed(guard: &Guard) -> Json {
    let words = guard.hook_address().arguments();
    let command = format!("{} __hook {}", paths::PROGRAM, words.join(" "));
    let hook =
        json!({ "type": "command", "command": command, "timeout": HOOK_SECONDS, "onFailure": "block" });
    let hooks: Map<String, Json> = contract::hook_names(hooks::HOOKS)
        .into_iter()
        .map(|name| (name.to_owned(), json!([{ "hooks": [hook] }])))
        .collect();
    json!({
        "hooks": hooks,
        "allowManagedHooksOnly": true,
        "disableAllHooks": false,
        "enableAllProjectMcpServers": false,
        // The policy decides which hosts may be fetched from, so Claude Code need not ask Anthropic's server for its
        // own list.
        "skipWebFetchPreflight": true,
        "includeCoAuthoredBy": false,
        "cleanupPeriodDays": 3650,
    })
}

/// An agent from the command line has precedence over every file of the same name.
fn agents(inputs: &ScannedInputs) -> Json {
    let checked = inputs.checked();
    let about = checked.agent.frontmatter.as_ref();
    let mut agent = Map::new();
    let description = about.and_then(|about| about.description.clone());
    agent.insert("description".to_owned(), description.unwrap_or_else(|| checked.agent.name.clone()).into());
    agent.insert("prompt".to_owned(), inputs.agent_text().into());
    if let Some(tools) = about.and_then(|about| about.tools.as_ref()) {
        let result_tool = checked.result_document().schema.map(|_| RESULT_TOOL.to_owned());
        let tools: Vec<String> = tools.value.0.iter().cloned().chain(result_tool).collect();
        agent.insert("tools".to_owned(), tools.into());
    }
    if let Some(tools) = about.and_then(|about| about.disallowed_tools.as_ref()) {
        agent.insert("disallowedTools".to_owned(), tools.value.0.clone().into());
    }
    json!({ checked.agent.name.as_str(): agent })
}

fn servers(all: &[McpServerSpec]) -> Json {
    let servers = all.iter().map(|server| {
        let object = |pairs: &[(String, String)]| -> Map<String, Json> {
            pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
        };
        let entry = match &server.endpoint {
            McpEndpoint::Program { command, arguments, environment } => {
                json!({ "command": command, "args": arguments, "env": object(environment) })
            }
            McpEndpoint::Address { url, headers, is_sse } => {
                let transport = if *is_sse { "sse" } else { "http" };
                json!({ "type": transport, "url": url, "headers": object(headers) })
            }
        };
        (server.name.clone(), entry)
    });
    json!({ "mcpServers": servers.collect::<Map<String, Json>>() })
}
