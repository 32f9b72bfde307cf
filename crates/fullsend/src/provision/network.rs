//! What may leave the sandbox: names and sockets inside, which the proxy and the resolver on the host serve by the
//! policy. The plan is made before the sandbox, because its sockets are; serving starts before the proof, because a
//! name that no rule allows must already be refused then.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use egress::credentials::{Credential, CredentialPlacement, CredentialStore};
use egress::dial::{self, Dialer, Roots, RootsError};
use egress::event::{EgressEvent, OnEvent, RefusalCode};
use egress::identity::{Identify, ProcIdentifier};
use egress::names::{NameDirectory, NamePlan, NamedService, PlannedSocket, SocketPurpose};
use egress::proxy::{self, GatewayService, LeakWatcher, Proxy, ProxyConfig, ProxyLimits, ServedSocket};
use egress::resolver::SystemResolver;
use egress::tls::RunAuthority;
use model::gateway::{self, Gateway};
use sandbox::{LocalRange, Mount, MountKind, Sandbox, SandboxNetwork, Socket, SocketKind, SocketSpec};

use policy::Policy;
use policy::model::NetworkRule;
use yaml::{Diagnostic, MapEntry, Node, Sources, Value};

use super::servers::{self, ApiServers};
use super::unknown_programs::UnknownPrograms;
use super::{RunContext, client, java, mcp_tools};
use crate::check::Checked;
use crate::check::policies::CheckedPolicy;
use crate::credentials::Credentials;
use crate::event::finding::{FindingAction, FindingFamily, FindingSeverity};
use crate::event::log::Emitter;
use crate::event::{FindingEvent, RunEvent};
use crate::harness::provider::{self, AuthStyle, CA_BUNDLES, Profile, ProfileCredential};
use crate::resolve::variables::VariableLookup;

/// Where programs inside find the certificates they may trust.
const BUNDLE: &str = CA_BUNDLES[0];

/// The certificate of this run alone, for programs with a database of their own, such as those with NSS.
const CERTIFICATE: &str = "/etc/fullsend/ca.pem";

/// Where distributions keep the host's own bundle.
const HOST_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The plan of what will be served, made before the sandbox exists.
pub struct NetworkPlan {
    plan: NamePlan,
    policy: Arc<policy::Compiled>,
    /// `None` if no connection can leave: then nobody needs a certificate, and creating one takes a while.
    authority: Option<Arc<RunAuthority>>,
    credentials: Arc<CredentialStore>,
    services: Vec<dial::HostService>,
    /// The root certificates of this machine. Without them the proxy refuses every TLS connection.
    roots: Result<Roots, RootsError>,
    /// The proxy that this machine must use.
    proxy: Option<dial::HostProxy>,
}

/// The gateway and the proxy, while the sandbox lives.
pub struct NetworkServers {
    /// A sandbox without an agent has none.
    gateway: Option<gateway::GatewayServer>,
    proxy: proxy::RunningProxy,
}

impl NetworkServers {
    /// Accepts nothing new, and ends open connections.
    pub async fn stop(self, grace: Duration) {
        self.proxy.stop(grace).await;
        if let Some(gateway) = self.gateway {
            gateway.stop(grace).await;
        }
    }
}

pub fn plan(
    checked: &Checked,
    credentials: &Credentials,
    servers: &ApiServers,
    variables: VariableLookup<'_>,
) -> Result<NetworkPlan, String> {
    let proxy = dial::HostProxy::from_variables(variables).map_err(|error| error.to_string())?;
    let mut credentials = bound(checked, credentials).map_err(|error| error.to_string())?;
    for (service, token) in servers.tokens() {
        credentials.authorize(&service.host, service.port, token.clone());
    }
    Ok(NetworkPlan { proxy, ..plan_with(&with_servers(checked)?, credentials, servers.services())? })
}

/// The API servers alone, for a sandbox that has a proxy of its own.
pub fn plan_servers(checked: &Checked, servers: &ApiServers) -> Result<NetworkPlan, String> {
    let mut credentials = CredentialStore::new(Vec::new()).map_err(|error| error.to_string())?;
    for (service, token) in servers.tokens() {
        credentials.authorize(&service.host, service.port, token.clone());
    }
    plan_with(&only_servers(checked)?, credentials, servers.services())
}

/// The rules for the API servers. A rule for many hosts is left out: through it, a program inside would reach other
/// hosts.
pub fn only_servers(checked: &Checked) -> Result<Policy, String> {
    let mut policy = with_servers(checked)?;
    let hosts: Vec<String> = checked.resolved.harness.api_servers.iter().map(servers::host).collect();
    for network in &mut policy.networks {
        network.endpoints.retain(|endpoint| hosts.contains(&endpoint.host.to_string()));
    }
    policy.networks.retain(|network| !network.endpoints.is_empty());
    Ok(policy)
}

/// Whether the network of a run can be planned.
pub fn check(checked: &Checked) -> Result<(), String> {
    let compiled = policy::Compiled::new(&with_servers(checked)?);
    let servers = checked.resolved.harness.api_servers.iter().filter_map(|server| {
        Some(NamedService { host: servers::host(server), port: u16::try_from(server.port.get()).ok()? })
    });
    let services: Vec<NamedService> = servers.collect();
    NamePlan::new(&compiled, &services).map(drop).map_err(|error| error.to_string())
}

/// One error for each MCP server whose address no rule allows.
pub fn unreachable_servers(checked: &Checked) -> Vec<Diagnostic> {
    let Ok(policy) = with_servers(checked) else { return Vec::new() };
    let compiled = policy::Compiled::new(&policy);
    let addresses = checked.resolved.harness.mcp_servers.iter().filter_map(|(name, server)| {
        let url = server.url.as_ref()?;
        let (host, port, _) = url.parts();
        let is_named = policy::Host::parse(host).is_ok_and(|host| compiled.names_endpoint(&host, port));
        let message = format!(
            "the MCP server `{}` is at {host}:{port}, which no rule of the policy allows",
            name.value
        );
        let help = format!("add an endpoint with `host: {host}` and `port: {port}` to the policy");
        (!is_named).then(|| Diagnostic::error("mcp-server", url.at, message).help(help))
    });
    addresses.collect()
}

/// One error for each MCP server with `tools` whose calls the proxy could not read.
pub fn unread_servers(checked: &Checked) -> Vec<Diagnostic> {
    let policy = with_servers(checked);
    policy.map(|policy| mcp_tools::unread(&checked.resolved.harness, policy)).unwrap_or_default()
}

/// For a sandbox without an agent: no credentials, no servers, no gateway.
pub fn plan_alone(policy: &CheckedPolicy) -> Result<NetworkPlan, String> {
    let none = CredentialStore::new(Vec::new()).map_err(|error| error.to_string())?;
    plan_with(&policy.policy, none, Vec::new())
}

fn plan_with(
    policy: &Policy,
    credentials: CredentialStore,
    services: Vec<dial::HostService>,
) -> Result<NetworkPlan, String> {
    let compiled = policy::Compiled::new(policy);
    let named = |service: &dial::HostService| NamedService { host: service.host.clone(), port: service.port };
    let plan = NamePlan::new(&compiled, &services.iter().map(named).collect::<Vec<_>>());
    let plan = plan.map_err(|error| error.to_string())?;
    let reaches_hosts =
        !services.is_empty() || policy.networks.iter().any(|network| !network.endpoints.is_empty());
    let authority = match reaches_hosts {
        true => Some(Arc::new(RunAuthority::new().map_err(|error| error.to_string())?)),
        false => None,
    };
    Ok(NetworkPlan {
        services,
        plan,
        policy: Arc::new(compiled),
        authority,
        credentials: Arc::new(credentials),
        roots: if reaches_hosts { Roots::load() } else { Ok(Roots::only([])) },
        proxy: None,
    })
}

/// The policy, with a rule for each server that it does not mention: declaring a server allows it, and an endpoint of
/// the policy for the same host narrows it.
fn with_servers(checked: &Checked) -> Result<Policy, String> {
    let mut all = checked.policy.policy.clone();
    for server in &checked.resolved.harness.api_servers {
        let host = policy::Host::Name(servers::host(server));
        let mut endpoints = all.networks.iter().flat_map(|network| &network.endpoints);
        if endpoints.any(|endpoint| endpoint.host.matches(&host)) {
            continue;
        }
        let at = server.name.at;
        let text = |text: &str| Node::new(at, Value::Text(text.to_owned()));
        let number = Node::new(at, Value::Number(server.port.get().to_string()));
        let keys = [
            ("host", text(&host.to_string())),
            ("port", number),
            ("protocol", text("rest")),
            ("access", text("full")),
            ("enforcement", text("enforce")),
        ];
        let entry = |(key, node): (&str, Node)| MapEntry { key: key.to_owned(), key_at: at, node };
        let endpoint = Node::new(at, Value::Map(keys.into_iter().map(entry).collect()));
        let rule =
            NetworkRule::of_endpoints(&format!("api server {}", server.name.value), at, vec![endpoint]);
        all.networks.push(
            rule.map_err(|problems| {
                problems.first().map_or(String::new(), |problem| problem.message.clone())
            })?,
        );
    }
    mcp_tools::narrow(&checked.resolved.harness, &mut all);
    Ok(all)
}

/// The credentials that have placeholders in the sandbox. The model's key has none: with it, an agent could bypass the
/// gateway.
fn bound(checked: &Checked, credentials: &Credentials) -> Result<CredentialStore, impl std::fmt::Display> {
    let files = checked.providers.iter().filter(|file| !file.inference_capable());
    let all = files.flat_map(|file| {
        credentials.of(file.provider.name.as_str()).map(|loaded| Credential {
            provider: loaded.provider.clone(),
            key: loaded.key.clone(),
            source: loaded.source.clone(),
            endpoints: file.endpoints.clone(),
            placements: placements(&file.profile, &loaded.key),
            plain: provider::entries(&file.profile, &loaded.key).any(|entry| entry.plain == Some(true)),
        })
    });
    CredentialStore::new(all.collect())
}

/// A profile that names nothing allows `Authorization` only.
fn placements(profile: &Profile, variable: &str) -> Vec<CredentialPlacement> {
    let authorization = || CredentialPlacement::Header(CredentialPlacement::AUTHORIZATION.to_owned());
    let placement = |entry: &ProfileCredential| {
        Some(match entry.auth_style? {
            AuthStyle::Basic | AuthStyle::Bearer => authorization(),
            AuthStyle::Header => CredentialPlacement::Header(entry.header_name.clone()?),
            AuthStyle::Query => CredentialPlacement::QueryParameter(entry.query_param.clone()?),
            AuthStyle::Path => CredentialPlacement::Path { template: entry.path_template.clone() },
        })
    };
    let named: Vec<CredentialPlacement> =
        provider::entries(profile, variable).filter_map(placement).collect();
    if named.is_empty() { vec![authorization()] } else { named }
}

impl NetworkPlan {
    pub fn network(&self) -> SandboxNetwork {
        let range = |(address, prefix_bits)| LocalRange { address, prefix_bits };
        let socket = |planned: &PlannedSocket| {
            let udp = planned.purpose == SocketPurpose::ResolverUdp;
            SocketSpec {
                kind: if udp { SocketKind::Udp } else { SocketKind::TcpListener },
                address: planned.address,
            }
        };
        SandboxNetwork {
            local_ranges: self.plan.local_ranges().into_iter().map(range).collect(),
            sockets: self.plan.sockets().iter().map(socket).collect(),
        }
    }

    /// The resolver's address, and the certificates of the host and of this run where a connection can need them.
    pub fn mounts(&self) -> Vec<Mount> {
        let resolver = format!("nameserver {}\noptions attempts:1 timeout:5\n", self.plan.resolver_address());
        let file = |path: &str, text: String| Mount {
            target: path.into(),
            kind: MountKind::File { contents: text.into_bytes(), mode: 0o444 },
        };
        let mut mounts = vec![file("/etc/resolv.conf", resolver)];
        let of_host = HOST_BUNDLES.iter().find_map(|path| std::fs::canonicalize(path).ok());
        match of_host {
            // The bundle is large: what this run does not change is mounted, not copied.
            Some(source) if self.authority.is_none() => {
                mounts.push(Mount { target: BUNDLE.into(), kind: MountKind::ReadOnly { source } });
            }
            of_host => {
                let read = of_host.and_then(|path| std::fs::read_to_string(path).ok());
                let mut bundle = read.unwrap_or_default();
                if let Some(authority) = &self.authority {
                    bundle.push('\n');
                    bundle.push_str(authority.certificate_pem());
                    mounts.push(file(CERTIFICATE, authority.certificate_pem().to_owned()));
                    mounts.push(java::trust_store(self.roots.as_ref().ok(), authority));
                }
                mounts.push(file(BUNDLE, bundle));
            }
        }
        let link =
            |path: &&str| Mount { target: (*path).into(), kind: MountKind::Symlink { to: BUNDLE.into() } };
        mounts.extend(CA_BUNDLES[1..].iter().map(link));
        mounts
    }

    /// Variables for programs that use a proxy, and for programs with their own certificates.
    pub fn environment(&self) -> Vec<(String, String)> {
        let proxy = format!("http://{}", self.plan.proxy_address());
        let here = "127.0.0.1,localhost,::1";
        let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
        let bundles = [
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "GIT_SSL_CAINFO",
            "CARGO_HTTP_CAINFO",
            "PIP_CERT",
            "DENO_CERT",
        ];
        let mut all: Vec<(String, String)> =
            proxies.iter().map(|name| ((*name).to_owned(), proxy.clone())).collect();
        all.extend(["NO_PROXY", "no_proxy"].iter().map(|name| ((*name).to_owned(), here.to_owned())));
        if self.authority.is_some() {
            all.extend(bundles.iter().map(|name| ((*name).to_owned(), BUNDLE.to_owned())));
        }
        all.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
        all.push(java::options(self.plan.proxy_address(), self.authority.is_some()));
        all.extend(self.placeholders());
        all
    }

    /// By the names of their variables.
    pub fn placeholders(&self) -> Vec<(String, String)> {
        self.credentials.placeholders()
    }

    /// Where the resolver inside listens.
    pub fn resolver(&self) -> SocketAddr {
        (self.plan.resolver_address(), 53).into()
    }

    /// Serves the sockets that the sandbox created. Must be called within a tokio runtime.
    pub fn serve(
        self,
        sandbox: &mut Sandbox,
        gateway: &Arc<Gateway>,
        around: &RunContext<'_>,
    ) -> std::io::Result<NetworkServers> {
        let check = client::check_client(sandbox.host_pid(), around.guard.runtime_process());
        let service = gateway::service(Arc::clone(gateway), Some(Arc::clone(&check)));
        let lanes = AgentServices { gateway: Some(service), leak_watcher: around.guard.leak_watcher() };
        let identifier = Arc::new(ProcIdentifier::new(sandbox.host_pid()));
        let proxy = self.proxy(identifier, lanes, &around.library.sources, reported(around))?;
        let (gateway_listener, others) = self.sockets(sandbox);
        let listener = gateway_listener
            .ok_or_else(|| std::io::Error::other("the sandbox gave no listener for the gateway"))?;
        let gateway = Some(gateway::start(listener, Arc::clone(gateway), Some(check))?);
        Ok(NetworkServers { gateway, proxy: proxy::start(&Arc::new(proxy), others)? })
    }

    /// The same without a gateway: nothing listens at its address.
    pub fn serve_alone(
        self,
        sandbox: &mut Sandbox,
        sources: &Sources,
        on_event: OnEvent,
    ) -> std::io::Result<NetworkServers> {
        let identifier = Arc::new(ProcIdentifier::new(sandbox.host_pid()));
        let proxy = self.proxy(identifier, AgentServices::default(), sources, on_event)?;
        let (_, others) = self.sockets(sandbox);
        Ok(NetworkServers { gateway: None, proxy: proxy::start(&Arc::new(proxy), others)? })
    }

    /// The proxy for connections that a tunnel brings. Which program asks is not known there.
    pub fn tunnelled(&self, around: &RunContext<'_>) -> std::io::Result<GatewayService> {
        let lanes = AgentServices { gateway: None, leak_watcher: around.guard.leak_watcher() };
        let identifier = Arc::new(UnknownPrograms);
        let proxy = self.proxy(identifier, lanes, &around.library.sources, reported(around))?;
        Ok(proxy::service(Arc::new(proxy)))
    }

    /// The gateway's listener, and everything that the proxy serves.
    fn sockets(&self, sandbox: &mut Sandbox) -> (Option<TcpListener>, Vec<(PlannedSocket, ServedSocket)>) {
        let mut gateway = None;
        let mut others = Vec::new();
        for (planned, socket) in self.plan.sockets().iter().zip(sandbox.take_sockets()) {
            match (planned.purpose, socket) {
                (SocketPurpose::Gateway, Socket::Tcp(listener)) => gateway = Some(listener),
                (_, Socket::Tcp(listener)) => others.push((*planned, ServedSocket::Tcp(listener))),
                (_, Socket::Udp(socket)) => others.push((*planned, ServedSocket::Udp(socket))),
            }
        }
        (gateway, others)
    }

    fn proxy(
        &self,
        identifier: Arc<dyn Identify>,
        AgentServices { gateway, leak_watcher }: AgentServices,
        sources: &Sources,
        on_event: OnEvent,
    ) -> std::io::Result<Proxy> {
        let roots = self.roots.as_ref().map_err(|error| std::io::Error::other(error.to_string()))?.clone();
        let sources = sources.clone();
        Ok(Proxy::new(ProxyConfig {
            directory: Arc::new(NameDirectory::new(&self.plan, (*self.policy).clone())),
            policy: Arc::clone(&self.policy),
            dialer: Arc::new(
                Dialer::new(Arc::new(SystemResolver::load()), roots)
                    .with_services(self.services.clone())
                    .with_proxy(self.proxy.clone()),
            ),
            identifier,
            authority: self.authority.clone(),
            credentials: Arc::clone(&self.credentials),
            gateway,
            leak_watcher,
            locate: Arc::new(move |cause| format!("{} ({})", cause.rule, sources.locate(cause.at))),
            on_event,
            limits: ProxyLimits::default(),
        }))
    }
}

/// Each event of the proxy is one of the run.
fn reported(around: &RunContext<'_>) -> OnEvent {
    let emit = around.emit.clone();
    let guard = around.guard.clone();
    Arc::new(move |event| {
        misplaced(&event, &emit);
        if let EgressEvent::NameRefused { name, .. } = &event {
            guard.watch_name(name);
        }
        emit.emit(RunEvent::Egress { event });
    })
}

/// What a sandbox with an agent has beside its policy.
#[derive(Default)]
struct AgentServices {
    gateway: Option<GatewayService>,
    leak_watcher: Option<LeakWatcher>,
}

/// A placeholder in a request to another endpoint is an attempt to send the credential elsewhere, or an invented
/// placeholder.
fn misplaced(event: &EgressEvent, emit: &Emitter) {
    let EgressEvent::Connection(connection) = event else { return };
    let misplaced = [RefusalCode::CredentialEndpointMismatch, RefusalCode::CredentialInjectionFailed];
    if !connection.code.is_some_and(|code| misplaced.contains(&code)) {
        return;
    }
    emit.emit(RunEvent::Finding(FindingEvent {
        place: format!("egress to {}:{}", connection.host, connection.port),
        rule: "misplaced_credential".to_owned(),
        category: FindingFamily::Egress,
        severity: FindingSeverity::High,
        excerpt: connection.reason.clone().unwrap_or_default(),
        advice: "the request was refused; see who sent it in the egress event".to_owned(),
        action: FindingAction::Denied,
        ..FindingEvent::default()
    }));
}

#[cfg(test)]
mod tests {
    use super::NamePlan;
    use crate::runtime::paths::GATEWAY;

    #[test]
    fn the_runtimes_know_where_the_gateway_is() {
        assert_eq!(NamePlan::new(&policy::Compiled::default(), &[]).unwrap().gateway_address(), GATEWAY);
    }
}
