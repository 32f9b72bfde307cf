//! Limits that the host side enforces: by cgroups if it can use them, else by watching. The description reports how
//! each is kept, and one that is too weak stops the start.

mod cgroup;
mod hierarchy;
mod usage;
mod watch;

pub(crate) use cgroup::{Cgroup, remove_cgroup};
pub(crate) use watch::Watch;

use crate::describe::{Description, Limit, SandboxPart, Status};
use crate::error::StartError;
use crate::spec::SandboxLimits;
use std::collections::BTreeSet;

/// Asking for this needs no cgroup.
const DEFAULT_CPU_WEIGHT: u32 = 100;

/// A limit that a sandbox reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExceeded {
    pub limit: Limit,
    pub detail: String,
}

/// The strengths that are good enough without being accepted by name.
fn floor(limit: Limit) -> Status {
    match limit {
        Limit::Memory | Limit::Disk | Limit::WallClock => Status::Watched,
        Limit::Processes | Limit::CpuWeight | Limit::FileSize | Limit::OpenFiles | Limit::CoreDumps => {
            Status::Enforced
        }
    }
}

/// Adds the host side's limits to those that PID 1 described.
pub(crate) fn describe(limits: &SandboxLimits, cgroup: &Cgroup, description: &mut Description) {
    let SandboxLimits {
        memory_bytes,
        processes,
        cpu_weight,
        file_bytes: _,
        open_files: _,
        disk_bytes,
        wall_clock,
    } = limits;
    let why_none = cgroup.why_not();
    let mut add = |limit, asked: bool, status, reason: String| {
        let (status, reason) =
            if asked { (status, reason) } else { (Status::Absent, "not asked for".to_owned()) };
        description.add(SandboxPart::Limit(limit), status, reason);
    };
    match cgroup.enforced_by(Limit::Memory) {
        Some(how) => add(Limit::Memory, memory_bytes.is_some(), Status::Enforced, how),
        None => add(
            Limit::Memory,
            memory_bytes.is_some(),
            Status::Watched,
            format!("the tree's memory is summed every 50 ms; {why_none}"),
        ),
    }
    match cgroup.enforced_by(Limit::CpuWeight) {
        Some(how) => add(Limit::CpuWeight, cpu_weight.is_some(), Status::Enforced, how),
        None if *cpu_weight == Some(DEFAULT_CPU_WEIGHT) => {
            add(Limit::CpuWeight, true, Status::Enforced, "the kernel's default".to_owned());
        }
        None => add(Limit::CpuWeight, cpu_weight.is_some(), Status::Absent, why_none.clone()),
    }
    add(Limit::Disk, disk_bytes.is_some(), Status::Watched, "views are summed as they grow".to_owned());
    add(Limit::WallClock, wall_clock.is_some(), Status::Watched, "killed at the deadline".to_owned());
    if let (Some(how), true) = (cgroup.enforced_by(Limit::Processes), processes.is_some()) {
        // Beside the resource limit, which PID 1 has described already.
        if let Some(fact) =
            description.facts.iter_mut().find(|fact| fact.part == SandboxPart::Limit(Limit::Processes))
        {
            fact.reason = format!("{}, {how}", fact.reason);
        }
    }
}

/// Refuses a sandbox in which something asked for is weaker than the floor and not accepted as such.
pub(crate) fn check_floor(
    limits: &SandboxLimits,
    accepted: &BTreeSet<SandboxPart>,
    description: &Description,
) -> Result<(), StartError> {
    let asked = |limit| match limit {
        Limit::Memory => limits.memory_bytes.is_some(),
        Limit::Processes => limits.processes.is_some(),
        Limit::CpuWeight => limits.cpu_weight.is_some(),
        Limit::FileSize => limits.file_bytes.is_some(),
        Limit::OpenFiles => limits.open_files.is_some(),
        Limit::Disk => limits.disk_bytes.is_some(),
        Limit::WallClock => limits.wall_clock.is_some(),
        Limit::CoreDumps => true,
    };
    for fact in &description.facts {
        let weak = match fact.part {
            SandboxPart::Limit(limit) => asked(limit) && fact.status < floor(limit),
            SandboxPart::Mechanism(_) => fact.status < Status::Enforced,
        };
        if weak && !accepted.contains(&fact.part) {
            return Err(StartError::TooWeak { part: fact.part, reason: fact.reason.clone() });
        }
    }
    Ok(())
}
