//! The MCP servers of the harness with their variables expanded, for every runtime to write in its own format.

use serde::{Deserialize, Serialize};

use super::launch::LaunchSpec;

/// What it takes to start a server, in the sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct McpServerSpec {
    pub name: String,
    pub command: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

/// An unset variable is an error; the preflight reports it earlier.
pub fn servers(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<McpServerSpec>> {
    let unset = |name: &str| std::io::Error::other(format!("an MCP server needs {name}, which is not set"));
    let all = spec.cleared.checked().resolved.harness.mcp_servers.0.iter().map(|(name, server)| {
        let arguments = server.args.0.iter().map(|word| word.expand(spec.value).map_err(unset));
        let environment = server.env.0.iter().map(|(name, text)| {
            text.expand(spec.value).map(|value| (name.value.clone(), value)).map_err(unset)
        });
        Ok(McpServerSpec {
            name: name.value.clone(),
            command: server.command.value.clone(),
            arguments: arguments.collect::<std::io::Result<_>>()?,
            environment: environment.collect::<std::io::Result<_>>()?,
        })
    });
    all.collect()
}
