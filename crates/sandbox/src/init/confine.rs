//! The last steps before PID 1 listens: limits, no capabilities, no new privileges, Landlock, seccomp. Each is
//! inherited by everything that PID 1 starts, so that a command needs no further step and cannot skip one.

use super::proc::NestedNamespaces;
use super::views::ViewFact;
use super::{landlock_rules, seccomp};
use crate::defences::Defences;
use crate::describe::{Description, IsolationMechanism, Limit, SandboxPart, Status};
use crate::identity::Mapping;
use crate::spec::{SandboxLimits, SandboxSpec, SystemCalls};
use crate::step::{StartStep, StepContext, StepError};
use crate::sys;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use std::fs;
use std::path::PathBuf;

pub(super) fn confine(
    spec: &SandboxSpec,
    mapping: Mapping,
    view_facts: &[(PathBuf, ViewFact)],
    nested: NestedNamespaces,
) -> Result<Description, StepError> {
    let at = |step| spec.defences.reach(step);
    let mut description = Description::default();
    namespaces(&spec.defences, &mut description);
    identity(mapping, &mut description);
    views(view_facts, &mut description);
    // Before the capabilities go: raising a hard limit needs one.
    at(StartStep::Limits)?;
    limits(&spec.limits, &mut description)?;
    nested_namespaces(nested, &mut description);
    // After the limits and every mount, which need capabilities.
    at(StartStep::Capabilities)?;
    drop_capabilities(&mut description)?;
    // Before Landlock and seccomp: without capabilities the kernel takes both only under no_new_privs.
    at(StartStep::NoNewPrivileges)?;
    no_new_privileges(&mut description)?;
    // After the pivot: its rules name paths of the new root.
    at(StartStep::Landlock)?;
    let landlock = landlock_rules::restrict(spec)?;
    description.add(SandboxPart::Mechanism(IsolationMechanism::Landlock), landlock.status, landlock.reason);
    // Last: it denies calls that the steps above make.
    at(StartStep::Seccomp)?;
    if !spec.defences.has(IsolationMechanism::Seccomp) {
        description.add(SandboxPart::Mechanism(IsolationMechanism::Seccomp), Status::Absent, "left out");
    } else {
        sys::install_filter(&seccomp::program(spec.system_calls)).at(StartStep::Seccomp, "the filter")?;
        let reason = match spec.system_calls {
            SystemCalls::AllButDenied => "deny list, foreign architectures killed",
            SystemCalls::OnlyAllowed => "allow list, foreign architectures killed",
        };
        description.add(SandboxPart::Mechanism(IsolationMechanism::Seccomp), Status::Enforced, reason);
    }
    Ok(description)
}

fn namespaces(defences: &Defences, description: &mut Description) {
    let mechanisms = [
        IsolationMechanism::UserNamespace,
        IsolationMechanism::MountNamespace,
        IsolationMechanism::PidNamespace,
        IsolationMechanism::NetworkNamespace,
        IsolationMechanism::IpcNamespace,
        IsolationMechanism::UtsNamespace,
        IsolationMechanism::CgroupNamespace,
    ];
    for mechanism in mechanisms {
        add_unless_left_out(mechanism, defences, "its own", description);
    }
    description.add(
        SandboxPart::Mechanism(IsolationMechanism::Root),
        Status::Enforced,
        "pivot_root into listed mounts only",
    );
    add_unless_left_out(IsolationMechanism::Proc, defences, "its own, masked", description);
    description.add(
        SandboxPart::Mechanism(IsolationMechanism::Descriptors),
        Status::Enforced,
        "none inherited",
    );
}

fn add_unless_left_out(
    mechanism: IsolationMechanism,
    defences: &Defences,
    reason: &str,
    description: &mut Description,
) {
    let (status, reason) =
        if defences.has(mechanism) { (Status::Enforced, reason) } else { (Status::Absent, "left out") };
    description.add(SandboxPart::Mechanism(mechanism), status, reason);
}

fn identity(mapping: Mapping, description: &mut Description) {
    let groups = rustix::process::getgroups().map_or(0, |groups| groups.len());
    let reason = match (mapping, groups) {
        (Mapping::Fresh { id }, _) => format!("unused host uid {id}"),
        (Mapping::Caller, 0) => "the caller's own, without its groups".to_owned(),
        (Mapping::Caller, count) => {
            format!("the caller's own; an ordinary user cannot drop its {count} supplementary groups")
        }
    };
    description.add(SandboxPart::Mechanism(IsolationMechanism::Identity), Status::Enforced, reason);
}

fn views(views: &[(PathBuf, ViewFact)], description: &mut Description) {
    for (path, fact) in views {
        let how = match fact {
            ViewFact::UpperOnDisk => "overlay, changes in the state directory",
            ViewFact::UpperInMemory => "overlay, changes in memory",
            ViewFact::Copied => "copied",
        };
        description.add(
            SandboxPart::Mechanism(IsolationMechanism::Views),
            Status::Enforced,
            format!("{}: {how}", path.display()),
        );
    }
}

/// The limits that processes inherit. The host side keeps the others.
fn limits(limits: &SandboxLimits, description: &mut Description) -> Result<(), StepError> {
    let SandboxLimits {
        processes,
        file_bytes,
        open_files,
        memory_bytes: _,
        cpu_weight: _,
        disk_bytes: _,
        wall_clock: _,
    } = limits;
    lower(Resource::Core, Some(0), Limit::CoreDumps, description)?;
    lower(Resource::Fsize, *file_bytes, Limit::FileSize, description)?;
    lower(Resource::Nofile, *open_files, Limit::OpenFiles, description)?;
    lower(Resource::Nproc, *processes, Limit::Processes, description)
}

/// Sets a resource limit, never above what the caller has: raising needs a privilege that even root may lack.
fn lower(
    resource: Resource,
    value: Option<u64>,
    limit: Limit,
    description: &mut Description,
) -> Result<(), StepError> {
    let Some(value) = value else {
        description.add(SandboxPart::Limit(limit), Status::Absent, "not asked for");
        return Ok(());
    };
    let ceiling = rustix::process::getrlimit(resource).maximum;
    let value = ceiling.map_or(value, |ceiling| value.min(ceiling));
    rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
        .at(StartStep::Limits, limit)?;
    description.add(SandboxPart::Limit(limit), Status::Enforced, format!("rlimit {value}"));
    Ok(())
}

fn nested_namespaces(nested: NestedNamespaces, description: &mut Description) {
    let (status, reason) = match nested {
        NestedNamespaces::RefusedBySysctl => (Status::Enforced, "sysctl and seccomp"),
        NestedNamespaces::LeftToSeccomp => (Status::Enforced, "seccomp; this kernel has no sysctl for it"),
        NestedNamespaces::LeftOut => (Status::Absent, "left out"),
    };
    description.add(SandboxPart::Mechanism(IsolationMechanism::NestedNamespaces), status, reason);
}

fn drop_capabilities(description: &mut Description) -> Result<(), StepError> {
    rustix::thread::clear_ambient_capability_set().at(StartStep::Capabilities, "the ambient set")?;
    let last =
        fs::read_to_string("/proc/sys/kernel/cap_last_cap").at(StartStep::Capabilities, "cap_last_cap")?;
    let last: u32 = last.trim().parse().unwrap_or(63);
    for number in 0..=last.min(63) {
        let one = CapabilitySet::from_bits_retain(1 << number);
        rustix::thread::remove_capability_from_bounding_set(one)
            .at(StartStep::Capabilities, format_args!("capability {number} in the bounding set"))?;
    }
    // uid 0 inside, if the spec maps one, has no special rights; the lock bits keep it so.
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).at(StartStep::Capabilities, "the secure bits")?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).at(StartStep::Capabilities, "the capability sets")?;
    description.add(
        SandboxPart::Mechanism(IsolationMechanism::Capabilities),
        Status::Enforced,
        "all five sets empty, locked",
    );
    Ok(())
}

fn no_new_privileges(description: &mut Description) -> Result<(), StepError> {
    rustix::thread::set_no_new_privs(true).at(StartStep::NoNewPrivileges, "prctl")?;
    // Keeps what runs inside from PID 1's memory: it runs under the same uid.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .at(StartStep::NoNewPrivileges, "dumpable")?;
    description.add(
        SandboxPart::Mechanism(IsolationMechanism::NoNewPrivileges),
        Status::Enforced,
        "no_new_privs",
    );
    Ok(())
}
