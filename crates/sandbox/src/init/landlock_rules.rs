//! Landlock on top of the mounts, at the highest level that the kernel has: the same tree, enforced by a second
//! mechanism, plus truncation, device commands, and no signals or abstract sockets across the border.

use super::{dev, layout};
use crate::describe::{IsolationMechanism, SandboxPart, Status};
use crate::spec::{LandlockRequirement, MountKind, SandboxSpec};
use crate::step::{StartStep, StepContext, StepError};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::io;
use std::path::Path;

/// The newest level that is known here; on an older kernel the crate leaves out what it does not have.
const NEWEST: ABI = ABI::V9;
/// The first level with truncation, device commands and scopes.
const FULL: i32 = 6;

pub(super) struct LandlockResult {
    pub(super) status: Status,
    pub(super) reason: String,
}

pub(super) fn restrict(spec: &SandboxSpec) -> Result<LandlockResult, StepError> {
    if !spec.defences.has(IsolationMechanism::Landlock) {
        return Ok(LandlockResult { status: Status::Absent, reason: "left out".to_owned() });
    }
    let ruleset = create().map_err(io::Error::other).at(StartStep::Landlock, "the ruleset")?;
    let ruleset = add_all(ruleset, spec)?;
    let status = ruleset.restrict_self().map_err(io::Error::other).at(StartStep::Landlock, "restricting")?;
    let level = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        _ => 0,
    };
    let enforced = status.ruleset != RulesetStatus::NotEnforced && level >= FULL;
    let accepted = spec.landlock == LandlockRequirement::BestEffort
        || spec.accept_weaker.contains(&SandboxPart::Mechanism(IsolationMechanism::Landlock));
    match (enforced, accepted) {
        (true, _) => Ok(LandlockResult { status: Status::Enforced, reason: format!("ABI {level}") }),
        (false, true) => {
            let reason = format!("this kernel has ABI {level}, {FULL} is needed for all rights; accepted");
            Ok(LandlockResult { status: Status::Absent, reason })
        }
        (false, false) => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
            .at(StartStep::Landlock, format_args!("ABI {level} where {FULL} is required")),
    }
}

fn create() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()
}

fn add_all(mut ruleset: RulesetCreated, spec: &SandboxSpec) -> Result<RulesetCreated, StepError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let everything = AccessFs::from_all(NEWEST);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    ruleset = add(ruleset, Path::new("/"), AccessFs::ReadDir.into())?;
    // Nothing below /proc is opened for writing: the memory of other processes of the same user is there too. A thread
    // still names itself by a system call.
    ruleset = add(ruleset, Path::new("/proc"), read)?;
    for name in dev::NODES {
        ruleset = add(ruleset, &Path::new("/dev").join(name), device)?;
    }
    ruleset = add(ruleset, Path::new("/dev/pts"), device | AccessFs::ReadDir)?;
    ruleset = add(ruleset, Path::new("/dev/shm"), everything)?;
    ruleset = add(ruleset, Path::new("/tmp"), everything)?;
    for mount in &spec.mounts {
        // A link of an image must not give its rights to its target.
        if matches!(mount.kind, MountKind::Symlink { .. }) || !is_there_itself(&mount.target) {
            continue;
        }
        let rights = match &mount.kind {
            MountKind::Socket { .. } => AccessFs::ResolveUnix.into(),
            kind if layout::is_writable(kind) => everything,
            _ => run,
        };
        ruleset = add(ruleset, &mount.target, rights)?;
    }
    match &spec.program {
        Some(program) => add(ruleset, program, AccessFs::ReadFile | AccessFs::Execute),
        None => Ok(ruleset),
    }
}

fn is_there_itself(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|status| !status.is_symlink())
}

fn add(
    ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, StepError> {
    let add = || {
        let opened = PathFd::new(path).map_err(io::Error::other)?;
        let is_directory = std::fs::metadata(path)?.is_dir();
        let rights = if is_directory { rights } else { rights & AccessFs::from_file(NEWEST) };
        ruleset.add_rule(PathBeneath::new(opened, rights)).map_err(io::Error::other)
    };
    add().at(StartStep::Landlock, path.display())
}
