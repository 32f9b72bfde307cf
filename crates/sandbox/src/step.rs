//! The steps of a start, by name, and the failure of one. The names are what a message, a failpoint and a test share.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;

/// The steps in the order in which they happen: first on the host, then in `__init`, then in PID 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StartStep {
    CheckSpec,
    MakeState,
    Spawn,
    Handshake,
    ReadSpec,
    DieWithParent,
    OpenSources,
    Unshare,
    MapIdentity,
    BecomePidOne,
    Hostname,
    Network,
    Sockets,
    Root,
    Proc,
    Dev,
    Mounts,
    Views,
    Pivot,
    Limits,
    NestedNamespaces,
    Capabilities,
    NoNewPrivileges,
    Landlock,
    Seccomp,
    Serve,
}

impl StartStep {
    pub const ALL: [Self; 26] = [
        Self::CheckSpec,
        Self::MakeState,
        Self::Spawn,
        Self::Handshake,
        Self::ReadSpec,
        Self::DieWithParent,
        Self::OpenSources,
        Self::Unshare,
        Self::MapIdentity,
        Self::BecomePidOne,
        Self::Hostname,
        Self::Network,
        Self::Sockets,
        Self::Root,
        Self::Proc,
        Self::Dev,
        Self::Mounts,
        Self::Views,
        Self::Pivot,
        Self::Limits,
        Self::NestedNamespaces,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Serve,
    ];

    /// The name in messages and failpoints.
    pub fn name(self) -> &'static str {
        match self {
            Self::CheckSpec => "check-spec",
            Self::MakeState => "make-state",
            Self::Spawn => "spawn",
            Self::Handshake => "handshake",
            Self::ReadSpec => "read-spec",
            Self::DieWithParent => "die-with-parent",
            Self::OpenSources => "open-sources",
            Self::Unshare => "unshare",
            Self::MapIdentity => "map-identity",
            Self::BecomePidOne => "become-pid-one",
            Self::Hostname => "hostname",
            Self::Network => "network",
            Self::Sockets => "sockets",
            Self::Root => "root",
            Self::Proc => "proc",
            Self::Dev => "dev",
            Self::Mounts => "mounts",
            Self::Views => "views",
            Self::Pivot => "pivot",
            Self::Limits => "limits",
            Self::NestedNamespaces => "nested-namespaces",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Serve => "serve",
        }
    }

    /// The usual cause of a failure here, and what to try.
    pub fn advice(self) -> &'static str {
        match self {
            Self::CheckSpec | Self::Mounts | Self::Views | Self::OpenSources => {
                "check that the path exists, is a real path without symlinks, and is readable by you"
            }
            Self::MakeState => "check that the parent directory exists and is writable",
            Self::Unshare => {
                "user namespaces are switched off here: see `doctor` (AppArmor's userns restriction, \
                 user.max_user_namespaces, a container's seccomp profile)"
            }
            Self::Proc => {
                "this container hides parts of /proc, so the kernel refuses a fresh one: run it with unmasked /proc"
            }
            Self::Landlock => "boot with `landlock` in lsm=, or accept a weaker Landlock by name",
            Self::Sockets => "two sockets ask for the same address, or an address is not local inside",
            _ => "see `doctor` for what this kernel and this user can do",
        }
    }
}

impl fmt::Display for StartStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A step that failed: which one, on what, with which error of the system.
#[derive(Debug)]
pub(crate) struct StepError {
    pub(crate) step: StartStep,
    pub(crate) on: String,
    pub(crate) source: io::Error,
}

/// Names the step and the thing on an error of the system.
pub(crate) trait StepContext<T> {
    fn at(self, step: StartStep, on: impl fmt::Display) -> Result<T, StepError>;
}

impl<T, E: Into<io::Error>> StepContext<T> for Result<T, E> {
    fn at(self, step: StartStep, on: impl fmt::Display) -> Result<T, StepError> {
        self.map_err(|source| StepError { step, on: on.to_string(), source: source.into() })
    }
}
