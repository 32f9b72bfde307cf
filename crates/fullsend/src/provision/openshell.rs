//! The same run with a sandbox on an OpenShell gateway. The gateway brings the image, the policy's proxy and the
//! isolation; the guard and the model gateway stay here and are reached through the tunnel. The record lists what is
//! weaker there than in a sandbox of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use egress::proxy::GatewayService;
use sandbox::{Mount, MountKind};

use super::host_files::{DeliveredFiles, HostFileError};
use super::placeholders::Placeholders;
use super::sockets::RunSockets;
use super::{
    ProvisionError, Provisioned, RunContext, environment, files, host_files, repository, servers,
    tunnel_servers,
};
use crate::backend::AgentSandbox;
use crate::backend::openshell::endpoint::OpenshellEndpoint;
use crate::backend::openshell::files::lost_links;
use crate::backend::openshell::providers::NewProvider;
use crate::backend::openshell::sandbox::{OpenshellSandbox, OpenshellSpec};
use crate::backend::openshell::tunnel::TunnelService;
use crate::check::Checked;
use crate::check::providers::ProviderFile;
use crate::event::log::Emitter;
use crate::event::{EnforcementStatus, RunEvent};
use crate::git::RepositoryError;
use crate::inputs::ScannedInputs;
use crate::runtime::contract::Runtime;
use crate::runtime::paths::{self, PROGRAM};
use crate::runtime::{self, LaunchSpec, executable};

/// Where the tunnel listens for the model gateway: an address of the sandbox's own loopback.
const GATEWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18_018);

/// git's lowest file of settings. `/etc` is the image's there.
const GIT_CONFIG: &str = "/opt/fullsend/gitconfig";

/// What is weaker than in a sandbox of this machine.
const WEAKER: &[(&str, EnforcementStatus, &str)] = &[
    ("proof", EnforcementStatus::Absent, "the isolation is the gateway's and is not tested from inside"),
    (
        "landlock",
        EnforcementStatus::Watched,
        "the gateway uses ABI 2, which does not cover truncate and signals",
    ),
    ("read-only files", EnforcementStatus::Absent, "what is uploaded can be changed by the agent"),
    (
        "hooks",
        EnforcementStatus::Watched,
        "the agent can replace them; the model gateway stops the run after a call without its verdict",
    ),
    ("gateway client", EnforcementStatus::Absent, "every program inside can ask the model gateway"),
    ("api server client", EnforcementStatus::Absent, "every program inside can use the API servers"),
    ("egress record", EnforcementStatus::Absent, "connections are in the log of the OpenShell gateway"),
    ("memory limit", EnforcementStatus::Absent, "the limits are those of the OpenShell gateway"),
    ("process limit", EnforcementStatus::Absent, "the limits are those of the OpenShell gateway"),
    ("disk limit", EnforcementStatus::Absent, "the limits are those of the OpenShell gateway"),
];

pub fn provision(inputs: ScannedInputs, context: &RunContext<'_>) -> Result<Provisioned, ProvisionError> {
    let checked = inputs.checked();
    let harness = &checked.resolved.harness;
    let endpoint = OpenshellEndpoint::of_host(context.variables).map_err(ProvisionError::NoGateway)?;
    mask_token(&endpoint, context);
    let image =
        harness.image.as_ref().and_then(|image| image.expand(context.variables).ok()).unwrap_or_default();
    let runtime = runtime::of(harness.runtime.value);
    let start_time = Duration::from_secs(harness.sandbox_timeout_seconds.get());
    let gateway = super::open_gateway(&inputs, context).map_err(ProvisionError::Model)?;
    let staging = super::make_staging(context.directory)?;
    let listening = RunSockets::start(&inputs, &staging, context).map_err(ProvisionError::Guard)?;
    let repository_name = repository::name(context.repository);
    let view = repository::view(harness, context.repository, &repository_name, &inputs);
    let mut mounts = files::workspace(harness, &staging);
    mounts.push(git_config());
    mounts.extend(view.map_err(ProvisionError::Repository)?);
    let mut fullsend_files = repository::fullsend_files(&mounts, &repository_name);
    fullsend_files.extend(links_that_stay(context, &repository_name)?);
    let servers =
        servers::start(harness, Instant::now() + start_time, context).map_err(ProvisionError::Server)?;
    let server_proxy = tunnel_servers::service(checked, &servers, context)?;
    let placeholders = Placeholders::new(Vec::new(), checked, context)
        .map_err(|error| ProvisionError::Network(error.to_string()))?;
    let value = |name: &str| placeholders.expand(name);
    let delivered = host_files::deliver(harness, &placeholders, context)?;
    refuse_shell_files(&delivered)?;
    let mut variables = environment::variables(checked, &repository_name, &delivered, context, &value);
    variables.push(("GIT_CONFIG_SYSTEM".into(), GIT_CONFIG.into()));
    if server_proxy.is_some() {
        variables.extend(tunnel_servers::variables().map(|(name, value)| (name.into(), value.into())));
    }
    placeholders.filter_all("env.sandbox", &mut variables);
    mounts.extend(environment::mounts(checked, &variables));
    mounts.extend(delivered.mounts);
    let launch = runtime::mounts(&LaunchSpec {
        inputs: &inputs,
        guard: context.guard,
        program: None,
        staging: &staging,
        repository: context.repository,
        repository_inside: &format!("{}/{repository_name}", paths::WORKSPACE),
        value: &value,
    });
    mounts.extend(launch.map_err(|source| ProvisionError::Staging { path: staging.clone(), source })?);
    mounts.extend_from_slice(context.mounts);
    let paths_to_scan = repository::paths_to_scan(&inputs, &mounts, &repository_name);
    let service = model::gateway::service(std::sync::Arc::clone(&gateway), None);
    let spec = OpenshellSpec {
        name: format!("fullsend-{}", uuid::Uuid::new_v4().simple()),
        image: &image,
        policy: &checked.policy.policy,
        providers: providers(checked, context),
        mounts,
        staging: &staging,
        config_directory: runtime.config_directory,
        environment: variables.clone(),
        services: services(service, server_proxy, &listening),
        gateway_address: GATEWAY,
        program: PROGRAM,
        collected: collected(runtime),
        copy: context.directory.join(super::SANDBOXES).join("copy"),
        time: start_time,
        cancel: context.cancel,
        executor: context.executor.clone(),
    };
    let sandbox = OpenshellSandbox::start(endpoint, spec).map_err(ProvisionError::Openshell)?;
    record(&sandbox, context.emit);
    let sandbox = AgentSandbox::Openshell(Box::new(sandbox));
    let program =
        executable::on_gateway(runtime.program.as_ref(), &sandbox).map_err(ProvisionError::Program)?;
    super::report_program(program.as_ref(), context.emit);
    Ok(Provisioned {
        inputs,
        sandbox,
        gateway,
        served: None,
        servers,
        listening,
        program,
        variables,
        staging,
        repository_name,
        image: None,
        paths_to_scan,
        fullsend_files,
        changed: None,
        executor: context.executor.clone(),
    })
}

fn mask_token(endpoint: &OpenshellEndpoint, context: &RunContext<'_>) {
    if let Some(token) = endpoint.token() {
        // A text too short to be masked is not a token.
        drop(context.guard.add_known_value("OPENSHELL_TOKEN", token.reveal()));
    }
}

/// A runtime with a program of its own keeps its conversation in files.
fn collected(runtime: &Runtime) -> Vec<String> {
    let config = runtime.program.is_some().then_some(runtime.config_directory);
    std::iter::once(paths::WORKSPACE).chain(config).map(str::to_owned).collect()
}

/// The links of the repository that a download does not bring back. They are not the agent's deletions.
fn links_that_stay(context: &RunContext<'_>, repository_name: &str) -> Result<Vec<PathBuf>, ProvisionError> {
    let unreadable = |source| RepositoryError { path: context.repository.to_owned(), source };
    let lost = lost_links(context.repository, repository_name);
    lost.map_err(|error| ProvisionError::Repository(unreadable(error)))
}

fn refuse_shell_files(delivered: &DeliveredFiles) -> Result<(), ProvisionError> {
    let Some(file) = delivered.shell_files.first() else { return Ok(()) };
    let why = "has shell code, which is not evaluated for an OpenShell sandbox".to_owned();
    Err(ProvisionError::HostFile(HostFileError { field: "host_files", source: file.source.clone(), why }))
}

/// What the tunnel carries: the model gateway, the proxy of the API servers, and the sockets that a sandbox of this machine
/// would see.
fn services(
    gateway: GatewayService,
    servers: Option<GatewayService>,
    listening: &RunSockets,
) -> Vec<TunnelService> {
    let sockets = listening.mounts().into_iter().filter_map(|Mount { target, kind }| match kind {
        MountKind::Socket { source } => Some(TunnelService::socket(source, &target.to_string_lossy())),
        _ => None,
    });
    let servers = servers.map(|servers| TunnelService::process(servers, tunnel_servers::PROXY));
    std::iter::once(TunnelService::process(gateway, GATEWAY)).chain(servers).chain(sockets).collect()
}

fn git_config() -> Mount {
    let kind = MountKind::File { contents: files::GIT_IDENTITY.into(), mode: 0o644 };
    Mount { target: GIT_CONFIG.into(), kind }
}

/// The credentials that programs inside may use. The model's credentials stay here.
fn providers(checked: &Checked, context: &RunContext<'_>) -> Vec<NewProvider> {
    let files = checked.providers.iter().filter(|file| !file.inference_capable());
    let provider = |file: &ProviderFile| {
        let loaded = context.credentials.of(file.provider.name.as_str());
        let credentials = loaded.filter_map(|one| Some((one.key.clone(), one.source.last()?)));
        let name = file.provider.name.to_string();
        NewProvider { name, credentials: credentials.collect(), endpoints: file.endpoints.clone() }
    };
    files.map(provider).filter(|provider| !provider.credentials.is_empty()).collect()
}

fn record(sandbox: &OpenshellSandbox, emit: &Emitter) {
    let part = |part: &str, status, reason: String| {
        emit.emit(RunEvent::SandboxPart { part: part.to_owned(), status, reason });
    };
    part("openshell", EnforcementStatus::Enforced, sandbox.describe());
    for (name, status, reason) in WEAKER {
        part(name, *status, (*reason).to_owned());
    }
}
