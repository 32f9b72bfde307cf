//! Everything around the agent: the model gateway, then the sandbox with its mounts and sockets, then the proof that
//! its restrictions hold. A `Provisioned` can only be made here; dropping it ends what it started.

mod client;
mod env_files;
mod environment;
mod error;
pub(crate) mod files;
pub(crate) mod gateway;
pub(crate) mod host_files;
pub(crate) mod image;
pub(crate) mod java;
mod masked_file;
mod mcp_tools;
pub(crate) mod network;
mod openshell;
mod placeholders;
pub(crate) mod policy_sandbox;
pub(crate) mod prices;
mod quoting;
pub(crate) mod repository;
pub(crate) mod servers;
pub(crate) mod service;
mod shell_variables;
mod skill_server;
mod sockets;
pub(crate) mod spending;
mod start_files;
pub(crate) mod tunnel_servers;
mod unknown_programs;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::gateway::{Gateway, SharedBudgets};
use sandbox::{
    IsolationMechanism, Limit, Mount, ProbeResult, ProofError, ProofSpec, Sandbox, SandboxPart, SandboxSpec,
};

use crate::backend::{AgentSandbox, TeardownError};
use crate::cancel::Cancel;
use crate::credentials::Credentials;
use crate::event::log::Emitter;
use crate::event::{EnforcementStatus, RunEvent};
use crate::git::RepositoryError;
use crate::guard::Guard;
use crate::harness::Harness;
use crate::harness::names::{Backend, WeakerPart};
use crate::image::Image;
use crate::inputs::ScannedInputs;
use crate::resolve::library::Library;
use crate::runtime::executable::{self, Executable};
use crate::runtime::paths::{self, PROGRAM};
use crate::runtime::programs::{Program, ProgramError, ProgramSearch};
use crate::runtime::{self, LaunchSpec};
pub use error::ProvisionError;
use gateway::Recording;
use host_files::DeliveredFiles;
use network::NetworkServers;
use placeholders::Placeholders;
use servers::ApiServers;
use shell_variables::SandboxDraft;
use sockets::RunSockets;

/// A name that the proof tries to resolve. It must be refused.
pub const PROOF_NAME: &str = "proof.invalid";

/// Where in a run's directory its sandbox keeps its state, apart from everything that must stay.
pub const SANDBOXES: &str = "sandboxes";

/// Time after the run's limit, to end the agent and collect its output.
const CLOSING_TIME: Duration = Duration::from_secs(120);

/// A sandbox that passed its proof, and the gateway through which it reaches the model.
pub struct Provisioned {
    pub inputs: ScannedInputs,
    pub sandbox: AgentSandbox,
    pub gateway: Arc<Gateway>,
    /// `None` on an OpenShell gateway, which has its own proxy.
    served: Option<NetworkServers>,
    servers: ApiServers,
    /// The hook server; closed with this value.
    listening: RunSockets,
    /// The runtime's own program, if it has one.
    pub program: Option<Executable>,
    /// The agent's variables, without those of the image.
    pub variables: Vec<(OsString, OsString)>,
    /// Host directory whose files appear read-only inside; filled before the agent starts.
    pub staging: PathBuf,
    pub repository_name: String,
    /// Held, so that its layers stay in the cache.
    image: Option<Image>,
    /// Paths in the agent's view of the repository that Path B scans.
    pub paths_to_scan: Vec<PathBuf>,
    /// Files that fullsend hid or added; they are not the agent's changes.
    pub fullsend_files: Vec<PathBuf>,
    /// The layer of the repository's view that contains the changes. `None` if the kernel gives no access to it.
    pub changed: Option<OwnedFd>,
    executor: tokio::runtime::Handle,
}

/// What provisioning needs beside the harness.
pub struct RunContext<'a> {
    /// What this run shares with others: the budgets of its session and of its day.
    pub shared_budgets: SharedBudgets,
    pub library: &'a Library,
    pub repository: &'a Path,
    /// The run's own directory.
    pub directory: &'a Path,
    pub guard: &'a Guard,
    pub credentials: &'a Credentials,
    pub recording: Option<&'a Recording>,
    pub emit: &'a Emitter,
    /// Cancels waits.
    pub cancel: &'a Cancel,
    /// The connection to the model, once it is open.
    pub gateway: &'a OnceLock<Arc<Gateway>>,
    /// Drives the gateway.
    pub executor: tokio::runtime::Handle,
    /// The host's environment, from which programs on the host get their basic variables.
    pub environment: &'a BTreeMap<String, String>,
    /// Values for `${VAR}`, without the CI's own tokens.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// Mounts and variables of the caller.
    pub mounts: &'a [Mount],
    /// How long one model request is tried again. `None`: until the run's deadline.
    pub model_retry_timeout: Option<Duration>,
}

/// Builds everything around the agent.
pub fn provision(inputs: ScannedInputs, context: &RunContext<'_>) -> Result<Provisioned, ProvisionError> {
    match inputs.checked().resolved.harness.sandbox.backend.value {
        Backend::Local => provision_here(inputs, context),
        Backend::Openshell => openshell::provision(inputs, context),
    }
}

/// The same with a sandbox of this machine. Where one step must come before another, the reason is on its line.
fn provision_here(inputs: ScannedInputs, context: &RunContext<'_>) -> Result<Provisioned, ProvisionError> {
    let harness = &inputs.checked().resolved.harness;
    let image = image::prepare(&inputs.checked().resolved, context).map_err(ProvisionError::Image)?;
    let start_deadline = StartDeadline::new(harness); // After the image: pulling it may take longer.
    let runtime = runtime::of(harness.runtime.value);
    let on_host = program_of_host(harness, context)?;
    let gateway = open_gateway(&inputs, context).map_err(ProvisionError::Model)?;
    // Before the sandbox starts: nothing can be mounted into it later.
    let staging = make_staging(context.directory)?;
    let listening = RunSockets::start(&inputs, &staging, context).map_err(ProvisionError::Guard)?;
    let repository_name = repository::name(context.repository);
    let root = if image.is_some() { files::Root::Image } else { files::Root::Host };
    // Before the network is planned: each server gets an address and a token there.
    let servers =
        servers::start(harness, start_deadline.deadline, context).map_err(ProvisionError::Server)?;
    let planned = network::plan(inputs.checked(), context.credentials, &servers, context.variables)
        .map_err(ProvisionError::Network)?;
    let mut spec =
        specify(&inputs, context, root, &staging, &repository_name).map_err(ProvisionError::Repository)?;
    // Before other mounts are added: only the repository's own view says which of its files are hidden.
    let fullsend_files = repository::fullsend_files(&spec.mounts, &repository_name);
    let placeholders = Placeholders::new(planned.placeholders(), inputs.checked(), context)
        .map_err(|error| ProvisionError::Network(error.to_string()))?;
    let value = |name: &str| placeholders.expand(name);
    // Before the variables: files in `.env.d/` set some of them.
    let mut delivered = host_files::deliver(harness, &placeholders, context)?;
    let variables = |delivered: &DeliveredFiles| {
        environment::variables(inputs.checked(), &repository_name, delivered, context, &value)
    };
    let draft = SandboxDraft { spec: &spec, planned: &planned, image: image.as_ref(), variables: &variables };
    shell_variables::evaluate(&mut delivered, &draft, &placeholders, context)?;
    spec.environment = variables(&delivered);
    // Before the file of variables is made from them.
    placeholders.filter_all("env.sandbox", &mut spec.environment);
    spec.mounts.extend(environment::mounts(inputs.checked(), &spec.environment));
    let set_by_harness = spec.environment.clone();
    // After the workspace's mounts: a later mount covers an earlier one.
    spec.mounts.extend(delivered.mounts);
    spec.network = planned.network();
    spec.mounts.extend(planned.mounts());
    // In front of the harness's variables, which have precedence: the last value of a name counts.
    put_in_front(&mut spec.environment, planned.environment());
    // After all other variables are there: the image's count only where no one else sets them.
    image::apply_in_run(image.as_ref(), &mut spec, runtime.model_variables, context.emit);
    placeholders.filter_all("the image", &mut spec.environment);
    let mounts = runtime::mounts(&LaunchSpec {
        inputs: &inputs,
        guard: context.guard,
        program: on_host.as_ref().ok().and_then(Option::as_ref),
        staging: &staging,
        repository: context.repository,
        repository_inside: &format!("{}/{repository_name}", paths::WORKSPACE),
        value: &value,
    });
    // After host files: nothing that a harness delivers may cover the runtime's settings or the guard's socket.
    spec.mounts.extend(mounts.map_err(|source| ProvisionError::Staging { path: staging.clone(), source })?);
    spec.mounts.extend(context.mounts.iter().cloned().chain(listening.mounts()));
    let search = image.as_ref().map(|_| search_path(&spec));
    // After every mount is known: each one in the repository is a place that an agent would read.
    let paths_to_scan = repository::paths_to_scan(&inputs, &spec.mounts, &repository_name);
    let mut sandbox = start(spec, context.emit)?;
    let resolver = planned.resolver();
    // Before the proof: a name that no rule allows must already be refused then.
    let entered = context.executor.enter();
    let served = planned.serve(&mut sandbox, &gateway, context).map_err(ProvisionError::Serve)?;
    drop(entered);
    // Before anything of the harness runs inside: its program is asked for its version next.
    prove(&sandbox, resolver, context.emit)?;
    start_deadline.check()?;
    let program = executable::choose(runtime.package(harness), &sandbox, search.as_deref(), on_host)
        .map_err(ProvisionError::Program)?;
    report_program(program.as_ref(), context.emit);
    Ok(Provisioned {
        inputs,
        changed: sandbox.changed_below(&repository::inside(&repository_name)),
        sandbox: AgentSandbox::Local(Box::new(sandbox)),
        gateway,
        served: Some(served),
        servers,
        listening,
        program,
        variables: set_by_harness,
        staging,
        repository_name,
        image,
        paths_to_scan,
        fullsend_files,
        executor: context.executor.clone(),
    })
}

fn put_in_front(variables: &mut Vec<(OsString, OsString)>, others: Vec<(String, String)>) {
    variables.splice(0..0, others.into_iter().map(|(name, value)| (name.into(), value.into())));
}

/// `sandbox_timeout_seconds`: the time until the servers answer and the sandbox is proved.
struct StartDeadline {
    seconds: u64,
    deadline: Instant,
}

impl StartDeadline {
    fn new(harness: &Harness) -> Self {
        let seconds = harness.sandbox_timeout_seconds.get();
        Self { seconds, deadline: Instant::now() + Duration::from_secs(seconds) }
    }

    /// Every step of a start has its own time limit, so this check comes in time.
    fn check(&self) -> Result<(), ProvisionError> {
        if Instant::now() > self.deadline {
            return Err(ProvisionError::NotReady { seconds: self.seconds });
        }
        Ok(())
    }
}

/// A missing program is an error at once, unless an image may have it.
fn program_of_host(
    harness: &Harness,
    context: &RunContext<'_>,
) -> Result<Result<Option<Program>, ProgramError>, ProvisionError> {
    let search = ProgramSearch::new(context.variables);
    let found = runtime::of(harness.runtime.value).find_package(harness, &search);
    match found {
        Err(error) if harness.image.is_none() => Err(ProvisionError::Program(error)),
        found => Ok(found),
    }
}

fn report_program(program: Option<&Executable>, emit: &Emitter) {
    if let Some(Executable { version, place, .. }) = program {
        emit.emit(RunEvent::Program { version: version.to_string(), place: place.clone() });
    }
}

fn start(spec: SandboxSpec, emit: &Emitter) -> Result<Sandbox, ProvisionError> {
    let sandbox = Sandbox::start(spec).map_err(ProvisionError::Sandbox)?;
    record_parts(&sandbox, emit);
    Ok(sandbox)
}

fn record_parts(sandbox: &Sandbox, emit: &Emitter) {
    for fact in &sandbox.describe().facts {
        emit.emit(RunEvent::SandboxPart {
            part: fact.part.to_string(),
            status: enforcement(fact.status),
            reason: fact.reason.clone(),
        });
    }
}

fn record_proof(results: &[ProbeResult], emit: &Emitter) {
    for result in results {
        emit.emit(RunEvent::Proof {
            name: result.name.to_string(),
            held: result.held,
            detail: result.detail.clone(),
        });
    }
}

fn enforcement(status: sandbox::Status) -> EnforcementStatus {
    match status {
        sandbox::Status::Enforced => EnforcementStatus::Enforced,
        sandbox::Status::Watched => EnforcementStatus::Watched,
        sandbox::Status::Absent => EnforcementStatus::Absent,
    }
}

/// Where programs are looked for inside.
fn search_path(spec: &SandboxSpec) -> String {
    let path = spec.environment.iter().rev().find(|(name, _)| name == "PATH");
    path.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
}

/// One gateway for the run: its budget covers all attempts, in any sandbox.
fn open_gateway(
    inputs: &ScannedInputs,
    context: &RunContext<'_>,
) -> Result<Arc<Gateway>, gateway::ModelSetupError> {
    let gateway = match context.gateway.get() {
        Some(gateway) => Arc::clone(gateway),
        None => gateway::open(inputs.checked(), context)?,
    };
    Ok(Arc::clone(context.gateway.get_or_init(|| gateway)))
}

/// Tries actions inside that must fail and actions that must work. One wrong result stops the run.
fn prove(sandbox: &Sandbox, resolver: SocketAddr, emit: &Emitter) -> Result<(), ProvisionError> {
    let proved = sandbox.prove(&proof_spec(resolver));
    let results = match &proved {
        Ok(proof) | Err(ProofError::NotHeld { proof }) => &proof.results[..],
        Err(ProofError::NotDone { .. }) => &[],
    };
    record_proof(results, emit);
    proved.map(drop).map_err(ProvisionError::Proof)
}

fn proof_spec(resolver: SocketAddr) -> ProofSpec {
    ProofSpec {
        unreachable: vec![SocketAddr::from(([192, 0, 2, 1], 443))],
        unresolvable: Some((resolver, PROOF_NAME.to_owned())),
        readable: Some(PROGRAM.into()),
        writable: Some("/sandbox/workspace".into()),
    }
}

/// Made before the sandbox, because nothing can be mounted later; filled by the bootstrap.
fn make_staging(directory: &Path) -> Result<PathBuf, ProvisionError> {
    let path = directory.join("staging");
    let sandboxes = directory.join(SANDBOXES);
    std::fs::create_dir_all(&sandboxes)
        .map_err(|source| ProvisionError::Staging { path: sandboxes, source })?;
    for below in ["config/agents", "config/skills", "config/plugins", "workspace"] {
        std::fs::create_dir_all(path.join(below))
            .map_err(|source| ProvisionError::Staging { path: path.clone(), source })?;
    }
    Ok(path)
}

fn specify(
    inputs: &ScannedInputs,
    context: &RunContext<'_>,
    root: files::Root,
    staging: &Path,
    repository_name: &str,
) -> Result<SandboxSpec, RepositoryError> {
    let harness = &inputs.checked().resolved.harness;
    let mut spec = SandboxSpec::new(context.directory.join(SANDBOXES).join("one"));
    spec.program = Some(PROGRAM.into());
    spec.mounts = files::system(&inputs.checked().policy, root);
    spec.mounts.extend(files::workspace(harness, staging));
    spec.mounts.extend(repository::view(harness, context.repository, repository_name, inputs)?);
    spec.limits = limits(harness);
    spec.accept_weaker = harness.sandbox.accept_weaker.iter().flat_map(|name| parts(name.value)).collect();
    spec.landlock = files::landlock(&inputs.checked().policy);
    spec.system_calls = files::system_calls(harness.sandbox.system_calls.value);
    spec.identity = files::identity(&inputs.checked().policy);
    Ok(spec)
}

fn limits(harness: &Harness) -> sandbox::SandboxLimits {
    let limits = &harness.sandbox.limits;
    let mebibyte = 1 << 20;
    sandbox::SandboxLimits {
        memory_bytes: Some(limits.memory_mb.get() * mebibyte),
        processes: Some(limits.pids.get()),
        // 100 is the weight of every process: nothing needs to be set for it.
        cpu_weight: u32::try_from(limits.cpu_weight.get()).ok().filter(|weight| *weight != 100),
        file_bytes: Some(limits.file_mb.get() * mebibyte),
        open_files: Some(limits.open_files.get()),
        disk_bytes: Some(limits.disk_mb.get() * mebibyte),
        wall_clock: Some(Duration::from_secs(harness.timeout_minutes.get() * 60) + CLOSING_TIME),
    }
}

/// The parts of the sandbox that a name in `accept_weaker` means.
fn parts(name: WeakerPart) -> Vec<SandboxPart> {
    match name {
        WeakerPart::Landlock => vec![SandboxPart::Mechanism(IsolationMechanism::Landlock)],
        WeakerPart::Seccomp => vec![SandboxPart::Mechanism(IsolationMechanism::Seccomp)],
        WeakerPart::Network => vec![SandboxPart::Mechanism(IsolationMechanism::NetworkNamespace)],
        WeakerPart::Namespaces => [
            IsolationMechanism::UserNamespace,
            IsolationMechanism::MountNamespace,
            IsolationMechanism::PidNamespace,
            IsolationMechanism::IpcNamespace,
            IsolationMechanism::UtsNamespace,
            IsolationMechanism::CgroupNamespace,
        ]
        .map(SandboxPart::Mechanism)
        .to_vec(),
        WeakerPart::Memory => vec![SandboxPart::Limit(Limit::Memory)],
        WeakerPart::Pids => vec![SandboxPart::Limit(Limit::Processes)],
        WeakerPart::Cpu => vec![SandboxPart::Limit(Limit::CpuWeight)],
        WeakerPart::Disk => vec![SandboxPart::Limit(Limit::Disk)],
    }
}

impl Provisioned {
    /// Closes the network first, then the sandbox, so nothing leaves while the sandbox ends. Scanned inputs stay valid
    /// for another sandbox.
    pub fn close(self) -> Result<ScannedInputs, TeardownError> {
        if let Some(served) = self.served {
            self.executor.block_on(served.stop(Duration::from_millis(500)));
        }
        let closed = self.sandbox.close();
        drop(self.image);
        drop(self.servers);
        drop(self.listening);
        drop(std::fs::remove_dir_all(&self.staging));
        drop(std::fs::remove_dir(self.staging.with_file_name(SANDBOXES)));
        closed.map(|()| self.inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_is_late_is_refused() {
        let now = Instant::now();
        let late = StartDeadline { seconds: 30, deadline: now };
        std::thread::sleep(Duration::from_millis(2));
        assert!(late.check().unwrap_err().to_string().contains("not ready after 30 seconds"));
        let early = StartDeadline { seconds: 30, deadline: now + Duration::from_secs(30) };
        assert!(early.check().is_ok());
    }
}
