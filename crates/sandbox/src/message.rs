//! The messages between the host side and PID 1, in both directions, as closed enums. Each says which descriptors travel
//! with it.

use crate::command_exit::CommandExit;
use crate::describe::Description;
use crate::identity::Mapping;
use crate::proof::{ProbeRequest, ProbeResult};
use crate::spec::SandboxSpec;
use crate::step::StartStep;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// From the host side to `__init`, later PID 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitRequest {
    /// The first message. The sandbox's cgroups are entered by writing to the files of `admissions`.
    Begin { spec: Box<SandboxSpec>, mapping: Mapping, admissions: Vec<OsString> },
    /// The answer to `InitReport::Unshared`: the identity is mapped.
    Mapped,
    /// Carries those of the standard streams that are `Stream::Passed`.
    Exec(ExecRequest),
    /// Try what must fail and what must work.
    Prove(ProbeRequest),
    /// To the process group of a command.
    Signal { id: u64, signal: i32 },
    /// Ends a command with everything that it started.
    KillTree { id: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecRequest {
    pub(crate) id: u64,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) working_directory: OsString,
    pub(crate) streams: [Stream; 3],
    pub(crate) terminal: bool,
    /// Whether `KillTree` finds everything that the command started.
    pub(crate) whole_tree: bool,
}

/// Where one of the three standard streams comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    /// The sandbox's own `/dev/null`; no descriptor of the host is needed for it.
    Null,
    /// The next descriptor that came with the message.
    Passed,
}

/// From `__init`, later PID 1, to the host side.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitReport {
    /// The new user namespace is there; only the host side can map an identity that is not the caller's.
    Unshared,
    /// PID 1 exists: it sends this itself, and the kernel tells the host side its number there.
    PidOne,
    /// Some of the sockets of the spec, in order; carries their descriptors.
    Sockets {
        count: u32,
    },
    /// Confined and listening; carries the root directory.
    Ready {
        description: Description,
    },
    /// A step failed; nothing follows.
    Failed {
        step: StartStep,
        on: String,
        errno: i32,
    },
    Started {
        id: u64,
        pid: i32,
    },
    NotStarted {
        id: u64,
        errno: i32,
    },
    Exited {
        id: u64,
        exit: CommandExit,
    },
    Proven {
        results: Vec<ProbeResult>,
    },
    NotProven {
        why: String,
    },
}
