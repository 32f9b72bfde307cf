//! The MCP servers of the harness with their variables expanded, for every runtime to write in its own format.

use serde::{Deserialize, Serialize};

use yaml::{Map, Spanned};

use super::contract::RefusedOption;
use super::launch::LaunchSpec;
use crate::check::Checked;
use crate::harness::McpServer;
use crate::harness::names::McpTransport;
use crate::harness::template::Template;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct McpServerSpec {
    pub name: String,
    pub endpoint: McpEndpoint,
}

/// How a server is reached from inside the sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum McpEndpoint {
    /// A program, over its standard streams.
    Program { command: String, arguments: Vec<String>, environment: Vec<(String, String)> },
    /// A URL. The policy must allow it.
    Address { url: String, headers: Vec<(String, String)>, is_sse: bool },
}

/// An unset variable is an error; the preflight reports it earlier.
pub fn servers(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<McpServerSpec>> {
    let unset = |name: &str| std::io::Error::other(format!("an MCP server needs {name}, which is not set"));
    let expand = |template: &Template| template.expand(spec.value).map_err(unset);
    let all = spec.inputs.checked().resolved.harness.mcp_servers.iter().map(|(name, server)| {
        let pairs = |map: &Map<Spanned<Template>>| -> std::io::Result<Vec<(String, String)>> {
            map.iter().map(|(name, text)| Ok((name.value.clone(), expand(text)?))).collect()
        };
        let endpoint = match &server.url {
            Some(url) => McpEndpoint::Address {
                url: url.as_str().to_owned(),
                headers: pairs(&server.headers)?,
                is_sse: is_sse(server),
            },
            None => McpEndpoint::Program {
                command: server.command.as_ref().map(|command| command.value.clone()).unwrap_or_default(),
                arguments: server.args.iter().map(expand).collect::<std::io::Result<_>>()?,
                environment: pairs(&server.env.0)?,
            },
        };
        Ok(McpServerSpec { name: name.value.clone(), endpoint })
    });
    all.collect()
}

/// One refusal for each server that speaks by server-sent events, for a runtime that does not.
pub fn refused_sse(checked: &Checked) -> impl Iterator<Item = RefusedOption> {
    let servers = checked.resolved.harness.mcp_servers.iter();
    servers.filter(|(_, server)| is_sse(server)).map(|(name, server)| RefusedOption {
        at: server.transport.as_ref().map(|transport| transport.at),
        option: format!("mcp_servers.{}.transport: sse", name.value),
        instead: "most servers have streamable HTTP at another path: name it, with `transport: http`"
            .to_owned(),
    })
}

fn is_sse(server: &McpServer) -> bool {
    server.transport.as_ref().is_some_and(|transport| transport.value == McpTransport::Sse)
}
