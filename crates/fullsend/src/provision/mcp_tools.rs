//! The `tools` of MCP servers at an address: narrows the policy's endpoints for the address to these tools.

use policy::Policy;
use policy::file::Protocol;
use policy::model::Endpoint;
use yaml::Diagnostic;

use crate::harness::Harness;
use crate::harness::names::ServerUrl;

/// Narrows the endpoints of each server to the tools that the harness lists.
pub fn narrow(harness: &Harness, policy: &mut Policy) {
    for (_, server) in harness.mcp_servers.iter() {
        let (Some(url), Some(tools)) = (&server.url, &server.tools) else { continue };
        let listed: Vec<String> = tools.iter().map(|tool| tool.value.clone()).collect();
        for endpoint in endpoints_of(url, policy) {
            match &mut endpoint.only_tools {
                Some(known) => known.retain(|tool| listed.contains(tool)),
                none => *none = Some(listed.clone()),
            }
        }
    }
}

/// One error for each server with `tools` whose calls the proxy could not read.
pub fn unread(harness: &Harness, mut policy: Policy) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, server) in harness.mcp_servers.iter().filter(|(_, server)| server.tools.is_some()) {
        let Some(url) = &server.url else { continue };
        if endpoints_of(url, &mut policy).all(|endpoint| endpoint.protocol == Protocol::Mcp) {
            continue;
        }
        let (host, port, path) = url.parts();
        let message = format!(
            "the `tools` of the MCP server `{}` cannot be enforced: the policy does not read its calls",
            name.value
        );
        let help = format!(
            "in the policy, give every endpoint for {host}:{port}{path} `protocol: mcp` and `mcp: {{allow_all_known_mcp_methods: true}}`"
        );
        found.push(Diagnostic::error("mcp-server", url.at, message).help(help));
    }
    found
}

/// The endpoints for an address.
fn endpoints_of<'p>(url: &'p ServerUrl, policy: &'p mut Policy) -> impl Iterator<Item = &'p mut Endpoint> {
    let (host, port, path) = url.parts();
    let host = policy::Host::parse(host).ok();
    let speaks = move |endpoint: &&mut Endpoint| {
        let is_named = host.as_ref().is_some_and(|host| endpoint.host.matches(host));
        is_named && endpoint.ports.contains(&port) && endpoint.covers_path(path)
    };
    policy.networks.iter_mut().flat_map(|network| &mut network.endpoints).filter(speaks)
}
