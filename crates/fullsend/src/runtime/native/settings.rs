//! The one file that our own loop finds inside: the MCP servers of the harness.

use sandbox::{Mount, MountKind};

use super::tools;
use crate::check::Checked;
use crate::runtime::contract::RefusedOption;
use crate::runtime::launch::LaunchSpec;
use crate::runtime::{mcp, paths};

/// Its configuration and state, inside.
pub const CONFIG_DIRECTORY: &str = "/sandbox/native-config";

pub fn servers_file() -> String {
    format!("{}/servers.json", paths::LAUNCH)
}

pub fn mounts(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<Mount>> {
    let contents = serde_json::to_vec(&mcp::servers(spec)?)?;
    Ok(vec![Mount { target: servers_file().into(), kind: MountKind::File { contents, mode: 0o444 } }])
}

/// It has a few tools of its own and those of its servers.
pub fn refused_options(checked: &Checked) -> Vec<RefusedOption> {
    let is_known = |name: &str| tools::NAMES.contains(&name) || name.starts_with("mcp__");
    let mut refused = Vec::new();
    let about = checked.agent.frontmatter.iter();
    for tools in about.flat_map(|about| [&about.tools, &about.disallowed_tools]).flatten() {
        for name in tools.value.0.iter().filter(|name| !is_known(name)) {
            let instead = format!("it has {}, and `mcp__SERVER__TOOL`", tools::NAMES.join(", "));
            refused.push(RefusedOption { at: Some(tools.at), option: name.clone(), instead });
        }
    }
    refused
}
