//! The one file that our own loop finds inside: the MCP servers of the harness.

use sandbox::{Mount, MountKind};
use yaml::Diagnostic;

use super::tools;
use crate::check::Checked;
use crate::runtime::contract::RefusedOption;
use crate::runtime::launch::LaunchSpec;
use crate::runtime::{mcp, paths};

pub use super::protocol::CONFIG_DIRECTORY;

pub fn servers_file() -> String {
    format!("{}/servers.json", paths::LAUNCH)
}

pub fn mounts(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<Mount>> {
    let contents = serde_json::to_vec(&mcp::servers(spec)?)?;
    Ok(vec![Mount { target: servers_file().into(), kind: MountKind::File { contents, mode: 0o444 } }])
}

/// It has a few tools of its own and those of its servers.
pub fn refused_options(checked: &Checked) -> Vec<RefusedOption> {
    let is_known = |name: &str| {
        let name = tools::without_pattern(name);
        tools::NAMES.contains(&name) || name == tools::SKILL || name.starts_with("mcp__")
    };
    let mut refused: Vec<RefusedOption> = mcp::refused_sse(checked).collect();
    let about = checked.agent.frontmatter.iter();
    for tools in about.flat_map(|about| [&about.tools, &about.disallowed_tools]).flatten() {
        for name in tools.value.0.iter().filter(|name| !is_known(name)) {
            let own = tools::NAMES.join(", ");
            let instead = format!("it has {own}, {}, and `mcp__SERVER__TOOL`", tools::SKILL);
            refused.push(RefusedOption { at: Some(tools.at), option: name.clone(), instead });
        }
    }
    refused
}

/// `Bash(gh,jq)` gives `Bash`, as every runtime here does: the policy and the guard decide about commands. A tool that
/// is disallowed for some arguments is disallowed entirely.
pub fn limited_options(checked: &Checked) -> Vec<Diagnostic> {
    let about = checked.agent.frontmatter.iter();
    let lists = about.flat_map(|about| [&about.tools, &about.disallowed_tools]).flatten();
    let limited = lists.flat_map(|names| {
        let patterned = names.value.0.iter().filter(|name| tools::without_pattern(name) != name.as_str());
        patterned.map(|name| (names.at, name))
    });
    limited
        .map(|(at, name)| {
            let tool = tools::without_pattern(name);
            let message = format!("`{name}` means `{tool}`: the list in parentheses is not enforced");
            Diagnostic::warning("tool-pattern", at, message)
                .help("the policy limits what programs may reach, and the guard judges every command")
        })
        .collect()
}
