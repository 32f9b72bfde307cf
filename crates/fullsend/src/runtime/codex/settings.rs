//! The files around a launch, all read-only inside: requirements with our hook and no other, and the whole configuration.
//! docs/decisions/0006-codex-launch.md gives the reasons.

use sandbox::{Mount, MountKind};

use super::hooks;
use crate::check::Checked;
use crate::harness::names::ModelEffort;
use crate::inputs::repo_skills;
use crate::runtime::contract::RefusedOption;
use crate::runtime::launch::{LaunchSpec, mount_only};
use crate::runtime::mcp::{self, McpEndpoint, McpServerSpec};
use crate::runtime::{contract, options, paths, schema, skills};

/// The directory of Codex's configuration and state, inside the sandbox.
pub const CONFIG_DIRECTORY: &str = "/sandbox/codex-config";

/// Requirements of the highest rank: no other file can change them.
const REQUIREMENTS: (&str, &str) = ("/etc/codex", "requirements.toml");

/// Longer than the time that the hook waits for the guard.
const HOOK_SECONDS: u32 = 30;

/// Features that use the network, run tools without hooks, or change the agent.
const FEATURES_OFF: &[&str] = &[
    "apps",
    "browser_use",
    "computer_use",
    "goals",
    "image_generation",
    "in_app_browser",
    "memories",
    "multi_agent",
    "plugins",
    "remote_plugin",
    "skill_mcp_dependency_install",
    "sleep_tool",
    "tool_suggest",
    "view_image",
];

/// Where a repository keeps skills that Codex would find.
const REPOSITORY_SKILLS: &[&str] = &[".agents/skills", ".codex/skills"];

pub fn schema_file() -> String {
    format!("{}/output-schema.json", paths::LAUNCH)
}

pub fn mounts(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<Mount>> {
    let config = CONFIG_DIRECTORY;
    let file = |target: String, contents: String| Mount {
        target: target.into(),
        kind: MountKind::File { contents: contents.into_bytes(), mode: 0o444 },
    };
    let mut mounts = vec![
        mount_only(spec, REQUIREMENTS.0, REQUIREMENTS.1, &requirements(spec))?,
        file(format!("{config}/config.toml"), configuration(spec)?),
    ];
    let schema = spec.inputs.checked().result_document().schema.and_then(schema::strict);
    mounts.extend(hidden(spec));
    mounts.extend(schema.map(|schema| file(schema_file(), schema.to_string())));
    Ok(mounts)
}

fn requirements(spec: &LaunchSpec<'_>) -> String {
    let words = spec.guard.hook_address().arguments();
    let command = quoted(&format!("{} __hook {}", paths::PROGRAM, words.join(" ")));
    let mut text =
        format!("allow_managed_hooks_only = true\n\n[hooks]\nmanaged_dir = {}\n", quoted(paths::LAUNCH));
    for name in contract::hook_names(hooks::HOOKS) {
        let matcher = if name == "SessionStart" { "" } else { "matcher = \".*\"\n" };
        text.push_str(&format!(
            "\n[[hooks.{name}]]\n{matcher}[[hooks.{name}.hooks]]\ntype = \"command\"\ncommand = {command}\ntimeout = {HOOK_SECONDS}\n"
        ));
    }
    text
}

fn configuration(spec: &LaunchSpec<'_>) -> std::io::Result<String> {
    let config = CONFIG_DIRECTORY;
    let gateway = quoted(&format!("http://{}/v1", paths::GATEWAY_NAME));
    let mut text = format!(
        "model_provider = \"fullsend\"\n\
         approval_policy = \"never\"\n\
         sandbox_mode = \"danger-full-access\"\n\
         check_for_update_on_startup = false\n\
         web_search = \"disabled\"\n\
         # The repository's instructions are given as advice in the prompt, scanned before.\n\
         project_doc_max_bytes = 0\n\
         developer_instructions = {}\n\n\
         [model_providers.fullsend]\nname = \"fullsend\"\nbase_url = {gateway}\nenv_key = \"{KEY}\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 4\nstream_max_retries = 2\n\n\
         [analytics]\nenabled = false\n[feedback]\nenabled = false\n[otel]\nexporter = \"none\"\n\n\
         [projects.{}]\ntrust_level = \"untrusted\"\n\n[features]\n",
        quoted(&format!("{}{}", spec.inputs.agent_text(), skills::listing(spec.inputs, config))),
        quoted(spec.repository_inside),
    );
    text.extend(FEATURES_OFF.iter().map(|feature| format!("{feature} = false\n")));
    text.push_str(&repository_skills(spec));
    text.push_str(&servers(&mcp::servers(spec)?));
    Ok(text)
}

/// The options that Codex does not support, such as `tools:` of an agent and a limit on turns.
pub fn refused_options(checked: &Checked) -> Vec<RefusedOption> {
    let mut refused: Vec<RefusedOption> = mcp::refused_sse(checked).collect();
    let mut refuse = |at, option: &str, instead: &str| {
        refused.push(RefusedOption { at, option: option.to_owned(), instead: instead.to_owned() });
    };
    if let Some(effort) = options::effort(checked).filter(|effort| effort.value == ModelEffort::Max) {
        refuse(Some(effort.at), "effort: max", "its highest is `xhigh`");
    }
    if let Some(model) = options::model(checked).filter(|model| runs_from_code(model)) {
        let at = checked.resolved.harness.model.as_ref().map(|model| model.at);
        refuse(
            at,
            &format!("model: {model}"),
            "Codex runs its tools from code that no hook sees; use gpt-5.5",
        );
    }
    let Some(about) = &checked.agent.frontmatter else { return refused };
    for (key, tools) in [("tools", &about.tools), ("disallowedTools", &about.disallowed_tools)] {
        if let Some(tools) = tools {
            let instead =
                "Codex has a fixed set of tools: leave it out, or limit them with `tool_allowlist_pretool`";
            refuse(Some(tools.at), key, instead);
        }
    }
    if about.max_turns.is_some() {
        refuse(None, "maxTurns", "set `budget: { turns: N }` in the harness");
    }
    refused
}

/// Models that call tools only from code that they write (`code_mode_only` in the catalogue of the tested Codex). The
/// gateway sees the code and not the calls.
const FROM_CODE: &[&str] = &["codex-auto-review", "gpt-5.6-", "gpt-6-", "gpt-6.1-", "gpt-daybreak-"];

/// Codex finds a model in its catalogue by a prefix of its name.
fn runs_from_code(model: &str) -> bool {
    FROM_CODE.iter().any(|start| model.starts_with(start))
}

/// The variable with the placeholder of the key.
pub const KEY: &str = "FULLSEND_MODEL_KEY";

/// Codex also finds skills in the repository. We write the list of skills ourselves, without them, and also disable
/// each by its name, so that it cannot be called.
fn repository_skills(spec: &LaunchSpec<'_>) -> String {
    let mut text =
        "\n[skills]\ninclude_instructions = false\n\n[skills.bundled]\nenabled = false\n".to_owned();
    for place in REPOSITORY_SKILLS {
        for name in repo_skills::below(&spec.repository.join(place)).unwrap_or_default() {
            let path = format!("{}/{place}/{name}", spec.repository_inside);
            text.push_str(&format!("\n[[skills.config]]\npath = {}\nenabled = false\n", quoted(&path)));
        }
    }
    text
}

/// Directories with too many skills to switch off one by one are hidden from the agent.
fn hidden(spec: &LaunchSpec<'_>) -> Vec<Mount> {
    let places =
        REPOSITORY_SKILLS.iter().filter(|place| repo_skills::below(&spec.repository.join(place)).is_none());
    places
        .map(|place| Mount {
            target: format!("{}/{place}", spec.repository_inside).into(),
            kind: MountKind::Temporary { size_bytes: 4096, inodes: 2, mode: 0o555 },
        })
        .collect()
}

/// Codex starts MCP servers during its first request. It continues without a server that fails, unless the server is
/// marked as required.
fn servers(all: &[McpServerSpec]) -> String {
    let mut text = String::new();
    for McpServerSpec { name, endpoint } in all {
        let key = quoted(name);
        let pairs = match endpoint {
            McpEndpoint::Program { command, arguments, environment } => {
                let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
                text.push_str(&format!(
                    "\n[mcp_servers.{key}]\nrequired = true\ncommand = {}\nargs = [{}]\n[mcp_servers.{key}.env]\n",
                    quoted(command),
                    words.join(", ")
                ));
                environment
            }
            McpEndpoint::Address { url, headers, .. } => {
                let url = quoted(url);
                text.push_str(&format!(
                    "\n[mcp_servers.{key}]\nrequired = true\nurl = {url}\n[mcp_servers.{key}.http_headers]\n"
                ));
                headers
            }
        };
        text.extend(pairs.iter().map(|(name, value)| format!("{} = {}\n", quoted(name), quoted(value))));
    }
    text
}

/// A TOML string. TOML has JSON's escapes, except for one character.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn no_text_can_leave_its_quotes() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}\u{7f}é"), "\"a\\\"b\\\\c\\nd\\u0001\\u007fé\"");
    }
}
