//! opencode: its package, and the configuration that we write for it. Its managed configuration in `/etc/opencode` outranks
//! every other file; projects' files are switched off, and the user's directory is read-only.

use model::wire::Wire;
use sandbox::{Mount, MountKind};
use serde_json::{Value as Json, json};

use crate::runtime::launch::{LaunchSpec, mount_only};
use crate::runtime::package::{Package, Version};
use crate::runtime::{default_model, paths, skills};

pub const PACKAGE: Package = Package {
    spec: "opencode-linux-{arch}@{version}",
    directory: "opencode-linux-{arch}",
    global_directory: "opencode-linux-{arch}",
    executable: "bin/opencode",
    command: "opencode",
    tested: Version(1, 18, 33),
    integrity: &[(
        "x64",
        "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",
    )],
    below: Version(1, 19, 0),
};

/// The managed configuration, of the highest rank.
const MANAGED: (&str, &str) = ("/etc/opencode", "opencode.json");

/// The user's configuration. It holds nothing, and the agent cannot write there.
const USER: &str = "/sandbox/.config/opencode";

/// The agent's definition, by this name.
const AGENT: &str = "fullsend";

/// Variables that name another configuration, or other rights. A launch clears them.
pub const VARIABLES: &[&str] = &[
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_CONTENT",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_PERMISSION",
    "OPENCODE_AUTH_CONTENT",
    "OPENCODE_MODELS_URL",
    "OPENCODE_MODELS_PATH",
    "OPENCODE_TEST_MANAGED_CONFIG_DIR",
    "OPENCODE_API_KEY",
];

/// No files of the repository or of other agents, no plugins, no updates, no downloads, nothing shared.
const SWITCHES: &[&str] = &[
    "OPENCODE_DISABLE_PROJECT_CONFIG",
    "OPENCODE_DISABLE_CLAUDE_CODE",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_PURE",
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_SHARE",
];

pub fn mounts(spec: &LaunchSpec<'_>, config_directory: &str) -> std::io::Result<Vec<Mount>> {
    let user = spec.staging.join("opencode-user");
    std::fs::create_dir_all(&user)?;
    // It would write this file, and stop if it cannot.
    std::fs::write(user.join(".gitignore"), "")?;
    Ok(vec![
        mount_only(spec, MANAGED.0, MANAGED.1, &text(&configuration(spec, config_directory)))?,
        Mount { target: USER.into(), kind: MountKind::ReadOnly { source: user } },
    ])
}

/// opencode replaces `{env:NAME}` and `{file:PATH}` in the file before it reads it. Ours has neither.
fn text(configuration: &Json) -> String {
    configuration.to_string().replace("{env:", "\\u007benv:").replace("{file:", "\\u007bfile:")
}

fn configuration(spec: &LaunchSpec<'_>, config_directory: &str) -> Json {
    let inputs = spec.inputs;
    let model = default_model::name(inputs.checked());
    let library = match default_model::wire(inputs.checked()) {
        Wire::Messages => "@ai-sdk/anthropic",
        Wire::Responses => "@ai-sdk/openai",
        Wire::Chat => "@ai-sdk/openai-compatible",
    };
    let listing = skills::listing(inputs, config_directory);
    let options =
        json!({ "baseURL": format!("http://{}/v1", paths::GATEWAY_NAME), "apiKey": "held-by-fullsend" });
    let models = json!({ &model: { "name": &model, "limit": { "context": 200_000, "output": 32_000 } } });
    let full_name = format!("fullsend/{model}");
    json!({
        "$schema": "https://opencode.ai/config.json",
        "model": full_name,
        "small_model": full_name,
        "enabled_providers": ["fullsend"],
        "provider": { "fullsend": { "npm": library, "name": "fullsend", "options": options, "models": models } },
        "default_agent": AGENT,
        "agent": {
            AGENT: {
                "mode": "primary",
                "description": "The agent of the harness.",
                "prompt": format!("{}{listing}", inputs.agent_text()),
            },
            // It would ask the model for a title of the conversation.
            "title": { "disable": true },
        },
        // It asks us about every call. Its own skills are not the harness's.
        "permission": { "*": "ask", "skill": "deny" },
        "share": "disabled",
        "autoupdate": false,
        "snapshot": false,
        "lsp": false,
        "formatter": false,
    })
}

pub fn environment(config_directory: &str) -> Vec<(&'static str, String)> {
    let switches = SWITCHES.iter().map(|name| (*name, "1".to_owned()));
    let home = ("OPENCODE_TEST_HOME", format!("{config_directory}/home"));
    switches.chain([home]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_agent_are_not_replaced() {
        let written = text(&json!({ "prompt": "a {env:HOME} {file:/etc/passwd} {\"env\":1}" }));
        assert!(!written.contains("{env:") && !written.contains("{file:"), "{written}");
        let read: Json = serde_json::from_str(&written).unwrap();
        assert_eq!(read["prompt"], "a {env:HOME} {file:/etc/passwd} {\"env\":1}");
    }
}
