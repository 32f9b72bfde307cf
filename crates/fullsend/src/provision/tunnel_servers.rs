//! API servers for a sandbox on an OpenShell gateway. The tunnel ends in our own proxy, which knows the names of the servers
//! and their tokens and asks the policy. It does not know which program inside asks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use egress::proxy::GatewayService;
use policy::{CallingProgram, Compiled, ConnectionRequest, Host};
use yaml::Diagnostic;

use super::servers::{self, ApiServers};
use super::unknown_programs::UNKNOWN;
use super::{ProvisionError, RunContext, network};
use crate::check::Checked;

/// Where programs inside find the proxy.
pub(super) const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18_019);

const PLAIN_PORT: u16 = 80;

/// The proxy for the servers. `None`: there is no server.
pub(super) fn service(
    checked: &Checked,
    servers: &ApiServers,
    context: &RunContext<'_>,
) -> Result<Option<GatewayService>, ProvisionError> {
    if checked.resolved.harness.api_servers.is_empty() {
        return Ok(None);
    }
    let planned = network::plan_servers(checked, servers).map_err(ProvisionError::Network)?;
    planned.tunnelled(context).map(Some).map_err(ProvisionError::Serve)
}

/// The variables by which programs find the proxy. Those for TLS stay the gateway's own.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    ["http_proxy", "HTTP_PROXY"].into_iter().map(|name| (name.to_owned(), format!("http://{PROXY}")))
}

/// What a harness with API servers cannot have on a gateway.
pub fn refused(checked: &Checked) -> Vec<Diagnostic> {
    let servers = &checked.resolved.harness.api_servers;
    let Ok(policy) = network::only_servers(checked) else { return Vec::new() };
    let compiled = Compiled::new(&policy);
    let caller = CallingProgram { binary: Path::new(UNKNOWN), ancestors: &[] };
    let mut found: Vec<Diagnostic> = Vec::new();
    for server in servers {
        let host = Host::Name(servers::host(server));
        let port = u16::try_from(server.port.get()).unwrap_or_default();
        if compiled.admit(&ConnectionRequest { host: &host, port, caller }).is_err() {
            let message = format!(
                "no rule lets every program use the API server `{}`, and `sandbox.backend: openshell` does not tell \
                 programs apart",
                server.name.value
            );
            let help = format!("add a rule with `host: {host}` and `binaries: [{{path: /**}}]`");
            found.push(Diagnostic::error("openshell", server.name.at, message).help(help));
        }
    }
    let plain = checked.policy.policy.networks.iter().flat_map(|network| &network.endpoints);
    for endpoint in plain.filter(|endpoint| !servers.is_empty() && endpoint.ports.contains(&PLAIN_PORT)) {
        let message =
            "plain HTTP cannot leave beside `api_servers` with `sandbox.backend: openshell`".to_owned();
        let help = "use HTTPS: the variable `http_proxy` leads to the API servers there";
        found.push(Diagnostic::error("openshell", endpoint.at, message).help(help.to_owned()));
    }
    found
}
