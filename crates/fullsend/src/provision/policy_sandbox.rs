//! A sandbox without an agent: a policy, a view of one directory, egress as the policy says, and the proof. It is for
//! people who test a policy, and for programs with their own agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egress::event::OnEvent;
use sandbox::{Mount, MountKind, Proof, ProofSpec, Sandbox, SandboxIdentity, SandboxLimits, SandboxSpec};

use super::{ProvisionError, files, image, network, repository};
use crate::check::policies::CheckedPolicy;
use crate::event::log::Emitter;
use crate::git::Repository;
use crate::image::Image;
use crate::runtime::paths::{PROGRAM, WORKSPACE};

/// Beside the runs: where sandboxes without one keep their state.
pub const SANDBOXES: &str = "sandboxes";

/// The limit for all writes, in the view of the directory and elsewhere.
const DISK_BYTES: u64 = 10 << 30;

/// The spec of a sandbox without an agent.
pub struct PolicySandboxSpec<'a> {
    pub policy: &'a CheckedPolicy,
    pub image: Option<&'a Image>,
    /// Shown inside as a copy-on-write view, where everything starts; an empty workspace without it.
    pub directory: Option<&'a Path>,
    pub limits: SandboxLimits,
    /// A new directory for the sandbox's own state; its parent exists.
    pub state: PathBuf,
    /// The file names that refusals show.
    pub sources: &'a yaml::Sources,
    pub on_event: OnEvent,
    /// Drives the proxy.
    pub executor: tokio::runtime::Handle,
}

/// A sandbox without an agent that passed its proof.
pub struct PolicySandbox {
    pub sandbox: Sandbox,
    pub proof: Proof,
    /// Where the view is, inside.
    pub directory: PathBuf,
    /// Who runs in it.
    pub identity: SandboxIdentity,
    served: network::NetworkServers,
    executor: tokio::runtime::Handle,
}

pub fn start(policy_sandbox: &PolicySandboxSpec<'_>) -> Result<PolicySandbox, ProvisionError> {
    let planned = network::plan_alone(policy_sandbox.policy).map_err(ProvisionError::Network)?;
    let directory = match policy_sandbox.directory {
        Some(directory) => PathBuf::from(WORKSPACE).join(repository::name(directory)),
        None => PathBuf::from(WORKSPACE),
    };
    let mut spec = SandboxSpec::new(&policy_sandbox.state);
    spec.program = Some(PROGRAM.into());
    let root = if policy_sandbox.image.is_some() { files::Root::Image } else { files::Root::Host };
    spec.mounts = files::system(policy_sandbox.policy, root);
    let fresh = MountKind::Temporary { size_bytes: DISK_BYTES, inodes: 1 << 20, mode: 0o755 };
    spec.mounts.push(Mount { target: "/sandbox".into(), kind: fresh });
    match policy_sandbox.directory {
        Some(source) => {
            let view = Repository::read(source).map_err(ProvisionError::Repository)?;
            spec.mounts.extend(view.view(&directory, &[], DISK_BYTES).mounts);
        }
        None => {
            spec.mounts.push(Mount { target: directory.clone(), kind: MountKind::Directory { mode: 0o755 } });
        }
    }
    spec.mounts.extend(planned.mounts());
    let variables = planned.environment().into_iter().chain(environment());
    spec.environment = variables.map(|(name, value)| (name.into(), value.into())).collect();
    if let Some(image) = policy_sandbox.image {
        image::apply(image, &mut spec);
    }
    spec.limits = policy_sandbox.limits.clone();
    spec.landlock = files::landlock(policy_sandbox.policy);
    let identity = files::identity(policy_sandbox.policy);
    spec.identity = identity;
    spec.network = planned.network();
    let mut sandbox = Sandbox::start(spec).map_err(ProvisionError::Sandbox)?;
    let proving = ProofSpec { writable: Some("/sandbox".into()), ..super::proof_spec(planned.resolver()) };
    let served = {
        let _entered = policy_sandbox.executor.enter();
        let on_event = Arc::clone(&policy_sandbox.on_event);
        planned.serve_alone(&mut sandbox, policy_sandbox.sources, on_event).map_err(ProvisionError::Serve)?
    };
    let proof = sandbox.prove(&proving).map_err(ProvisionError::Proof)?;
    Ok(PolicySandbox {
        sandbox,
        proof,
        directory,
        identity,
        served,
        executor: policy_sandbox.executor.clone(),
    })
}

/// The limits of a sandbox that lives for one command.
pub fn default_limits() -> SandboxLimits {
    SandboxLimits { disk_bytes: Some(DISK_BYTES), ..SandboxLimits::default() }
}

/// Basic variables that every program expects.
fn environment() -> Vec<(String, String)> {
    [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/sandbox"),
        ("USER", "sandbox"),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

impl PolicySandbox {
    /// Puts what is enforced, and what the proof showed, into a record.
    pub fn record(&self, emit: &Emitter) {
        super::record_parts(&self.sandbox, emit);
        super::record_proof(&self.proof.results, emit);
    }

    /// Closes the network, then the sandbox.
    pub fn close(self) -> Result<(), sandbox::CloseError> {
        self.executor.block_on(self.served.stop(Duration::from_millis(200)));
        self.sandbox.close()
    }
}
