//! The one file that our own loop finds inside: the MCP servers of the harness.

use sandbox::{Mount, MountKind};

use crate::runtime::{Outfit, inside, mcp};

pub fn servers_file() -> String {
    format!("{}/servers.json", inside::LAUNCH)
}

pub fn mounts(outfit: &Outfit<'_>) -> std::io::Result<Vec<Mount>> {
    let contents = serde_json::to_vec(&mcp::servers(outfit)?)?;
    Ok(vec![Mount { target: servers_file().into(), kind: MountKind::File { contents, mode: 0o444 } }])
}
