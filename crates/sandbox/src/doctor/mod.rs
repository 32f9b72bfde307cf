//! What this machine and this user can do for a sandbox: facts read from the kernel, what they mean, and a sandbox that is
//! really started. Returns data; it prints nothing and changes nothing that it does not undo.

mod diagnose;
mod facts;

pub use diagnose::{Check, CheckState, diagnose};
pub use facts::{CgroupFact, Facts};

use crate::describe::Description;
use crate::limits::Cgroup;
use crate::proof::{Proof, ProofSpec};
use crate::running::Sandbox;
use crate::spec::{CopyOnWrite, InitProgram, Mount, MountKind, SandboxLimits, SandboxSpec};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The whole report.
#[derive(Debug)]
pub struct Doctor {
    pub facts: Facts,
    pub checks: Vec<Check>,
    pub trial: TrialSandbox,
}

/// A small sandbox with every layer, started for the purpose.
#[derive(Debug)]
pub enum TrialSandbox {
    /// It started and was proven; how long that took, and what it enforces.
    Works { description: Description, proof: Proof, start: Duration, prove: Duration },
    /// It did not start; the error message.
    Fails { message: String },
}

impl Doctor {
    /// Whether a sandbox can be started here.
    pub fn is_healthy(&self) -> bool {
        matches!(self.trial, TrialSandbox::Works { .. })
            && self.checks.iter().all(|check| check.state != CheckState::Bad)
    }
}

/// Looks at the machine. `scratch` is a directory that may be written in; it is left as it was.
pub fn doctor(scratch: &Path, init: InitProgram) -> Doctor {
    let mut facts = Facts::read();
    facts.cgroup = try_cgroup();
    let checks = diagnose(&facts);
    let trial = try_sandbox(scratch, init);
    Doctor { facts, checks, trial }
}

fn try_cgroup() -> CgroupFact {
    let limits = SandboxLimits {
        memory_bytes: Some(1 << 30),
        processes: Some(1000),
        cpu_weight: Some(50),
        ..SandboxLimits::default()
    };
    let cgroup = Cgroup::create(&format!("fullsend-doctor-{}", std::process::id()), &limits, |_| Ok(()));
    let kept = cgroup.kept();
    let why_not = cgroup.why_not();
    // Nothing was ever in it.
    drop(cgroup.remove());
    CgroupFact { kept, why_not }
}

fn try_sandbox(scratch: &Path, init: InitProgram) -> TrialSandbox {
    match run_trial(scratch, init) {
        Ok(trial) => trial,
        Err(message) => TrialSandbox::Fails { message },
    }
}

fn run_trial(scratch: &Path, init: InitProgram) -> Result<TrialSandbox, String> {
    let scratch = std::fs::canonicalize(scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let base = scratch.join(format!("doctor-{}", std::process::id()));
    let lower = base.join("lower");
    std::fs::create_dir_all(&lower).map_err(|e| format!("{}: {e}", lower.display()))?; // removed below
    let outcome = start_trial(&base, lower, init);
    let removed = crate::remove_tree::remove_all(&base);
    let trial = outcome?;
    removed.map_err(|e| format!("{}: {e}", base.display()))?;
    Ok(trial)
}

fn start_trial(base: &Path, lower: PathBuf, init: InitProgram) -> Result<TrialSandbox, String> {
    let mut spec = SandboxSpec::new(base.join("state"));
    spec.init = init;
    // The trial finds out what is available, so it requires nothing.
    spec.landlock = crate::spec::LandlockRequirement::BestEffort;
    let view = CopyOnWrite { source: lower, edits: Vec::new(), memory_bytes: 1 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    spec.limits.memory_bytes = Some(1 << 30);
    let started = Instant::now();
    let sandbox = Sandbox::start(spec).map_err(|e| e.to_string())?;
    let start = started.elapsed();
    let started = Instant::now();
    let proof_spec = ProofSpec { writable: Some("/view".into()), ..ProofSpec::default() };
    let proof = sandbox.prove(&proof_spec).map_err(|e| e.to_string())?;
    let prove = started.elapsed();
    let description = sandbox.describe().clone();
    sandbox.close().map_err(|e| e.to_string())?;
    Ok(TrialSandbox::Works { description, proof, start, prove })
}
