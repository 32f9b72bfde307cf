//! MCP servers: each is a program or an address, and has only the fields of its kind.

use hyper::header::HeaderName;
use yaml::Diagnostic;

use crate::harness::{Harness, McpServer};

/// Headers that the client itself sends.
const RESERVED: &[&str] = &[
    "host",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept",
    "mcp-session-id",
    "mcp-protocol-version",
];

pub fn check(harness: &Harness, problems: &mut Vec<Diagnostic>) {
    for (name, server) in harness.mcp_servers.iter() {
        let wrong = |message: String| Diagnostic::error("mcp-server", name.at, message);
        let name = &name.value;
        match (&server.command, &server.url) {
            (None, None) => problems.push(
                wrong(format!("the MCP server `{name}` has neither a `command` nor a `url`"))
                    .help("name a program inside the sandbox, or an address"),
            ),
            (Some(_), Some(url)) => {
                let message = format!("the MCP server `{name}` has a `command` and a `url`");
                problems.push(Diagnostic::error("mcp-server", url.at, message).help("keep one"));
            }
            (Some(_), None) if !server.headers.0.is_empty() || server.transport.is_some() => problems.push(
                wrong(format!(
                    "the MCP server `{name}` is a program: `headers` and `transport` have no effect"
                ))
                .help("leave them out, or name a `url`"),
            ),
            (Some(_), None) if server.tools.is_some() => problems.push(
                wrong(format!("the MCP server `{name}` is a program: `tools` applies only to a `url`"))
                    .help("leave it out, or list the tools in the agent's `tools`"),
            ),
            (None, Some(_)) if !server.args.0.is_empty() || !server.env.0.is_empty() => problems.push(
                wrong(format!("the MCP server `{name}` is an address: `args` and `env` have no effect"))
                    .help("leave them out, or name a `command`"),
            ),
            _ => {}
        }
        headers(server, problems);
    }
}

fn headers(server: &McpServer, problems: &mut Vec<Diagnostic>) {
    for (name, _) in server.headers.iter() {
        let is_reserved = RESERVED.contains(&name.value.to_ascii_lowercase().as_str());
        if is_reserved || HeaderName::from_bytes(name.value.as_bytes()).is_err() {
            let message = format!("`{}` is not a header that can be set", name.value);
            problems
                .push(Diagnostic::error("mcp-server", name.at, message).help("for example `Authorization`"));
        }
    }
}
