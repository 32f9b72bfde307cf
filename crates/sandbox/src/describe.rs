//! What a sandbox enforces, part by part: enforced by the kernel, watched by us, or absent, each with the reason.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A mechanism of the isolation or a limit on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SandboxPart {
    Mechanism(IsolationMechanism),
    Limit(Limit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IsolationMechanism {
    UserNamespace,
    MountNamespace,
    PidNamespace,
    NetworkNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    Root,
    Proc,
    Descriptors,
    Capabilities,
    NoNewPrivileges,
    NestedNamespaces,
    Landlock,
    Seccomp,
    Identity,
    Views,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Limit {
    Memory,
    Processes,
    CpuWeight,
    FileSize,
    OpenFiles,
    Disk,
    WallClock,
    CoreDumps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    Absent,
    Watched,
    Enforced,
}

/// One part, how strongly it is enforced, and by which mechanism or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub part: SandboxPart,
    pub status: Status,
    pub reason: String,
}

/// The whole sandbox, as it was really set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    pub facts: Vec<Fact>,
}

impl Description {
    pub fn status(&self, part: SandboxPart) -> Option<Status> {
        self.facts.iter().find(|fact| fact.part == part).map(|fact| fact.status)
    }

    pub(crate) fn add(&mut self, part: SandboxPart, status: Status, reason: impl Into<String>) {
        self.facts.push(Fact { part, status, reason: reason.into() });
    }
}

impl fmt::Display for SandboxPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mechanism(mechanism) => mechanism.fmt(f),
            Self::Limit(limit) => limit.fmt(f),
        }
    }
}

impl fmt::Display for IsolationMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespace => "user-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::PidNamespace => "pid-namespace",
            Self::NetworkNamespace => "network-namespace",
            Self::IpcNamespace => "ipc-namespace",
            Self::UtsNamespace => "uts-namespace",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::Root => "root",
            Self::Proc => "proc",
            Self::Descriptors => "descriptors",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::NestedNamespaces => "nested-namespaces",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Identity => "identity",
            Self::Views => "views",
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::CpuWeight => "cpu-weight",
            Self::FileSize => "file-size",
            Self::OpenFiles => "open-files",
            Self::Disk => "disk",
            Self::WallClock => "wall-clock",
            Self::CoreDumps => "core-dumps",
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Watched => "watched",
            Self::Enforced => "enforced",
        })
    }
}
