//! The one file that our own loop finds inside: the MCP servers of the harness, with their variables filled in.

use sandbox::{Mount, MountKind};

use super::protocol::ServerTask;
use crate::runtime::{Outfit, inside};

pub fn servers_file() -> String {
    format!("{}/servers.json", inside::LAUNCH)
}

pub fn mounts(outfit: &Outfit<'_>) -> Vec<Mount> {
    let contents = serde_json::to_vec(&servers(outfit)).unwrap_or_default();
    vec![Mount { target: servers_file().into(), kind: MountKind::File { contents, mode: 0o444 } }]
}

fn servers(outfit: &Outfit<'_>) -> Vec<ServerTask> {
    let all = outfit.cleared.checked.resolved.harness.mcp_servers.0.iter();
    all.map(|(name, server)| ServerTask {
        name: name.value.clone(),
        command: server.command.value.clone(),
        arguments: server.args.0.iter().filter_map(|word| word.expand(outfit.value).ok()).collect(),
        environment: server
            .env
            .0
            .iter()
            .filter_map(|(name, text)| Some((name.value.clone(), text.expand(outfit.value).ok()?)))
            .collect(),
    })
    .collect()
}
