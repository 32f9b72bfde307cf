//! Linux isolation from a plain `SandboxSpec`: namespaces, a root directory that contains only what the spec lists,
//! Landlock, seccomp, limits. It knows nothing of policies, agents or runs, needs no daemon and no privilege, and is synchronous throughout.
//!
//! The host side (`Sandbox`) starts the same executable again as `__init`, which becomes PID 1 of the sandbox, confines
//! itself, and then starts commands on request. The kernel ends the sandbox when the process that holds the
//! `Sandbox` value ends.
//!
//! ```standalone_crate
//! use sandbox::{Command, Mount, MountKind, Sandbox, SandboxSpec};
//! use std::time::Duration;
//!
//! fn main() {
//!     if std::env::args().nth(1).as_deref() == Some("__init") {
//!         sandbox::init::main();
//!     }
//!     let name = format!("sandbox-example-{}", std::process::id());
//!     let mut spec = SandboxSpec::new(std::env::temp_dir().join(name));
//!     let kind = MountKind::ReadOnly { source: "/usr".into() };
//!     spec.mounts.push(Mount { target: "/usr".into(), kind });
//!     for name in ["bin", "lib", "lib64"] {
//!         let kind = MountKind::Symlink { to: format!("usr/{name}").into() };
//!         spec.mounts.push(Mount { target: format!("/{name}").into(), kind });
//!     }
//!     let sandbox = Sandbox::start(spec).unwrap();
//!     let ended = |words: [&str; 3]| {
//!         sandbox.exec(Command::new(words)).unwrap().wait(Duration::from_secs(20)).unwrap()
//!     };
//!     assert!(ended(["/usr/bin/sh", "-c", "test -d /usr"]).success());
//!     assert!(!ended(["/usr/bin/sh", "-c", "test -d /home"]).success());
//!     assert!(!ended(["/usr/bin/sh", "-c", "echo > /usr/x"]).success());
//!     sandbox.close().unwrap();
//! }
//! ```

mod beneath;
pub mod channel;
mod check;
mod command_exit;
mod defences;
mod describe;
pub mod doctor;
mod error;
mod host_programs;
mod identity;
pub mod init;
mod limits;
mod message;
mod process;
mod process_tree;
mod proof;
mod remove_tree;
mod running;
mod shared;
mod spec;
mod start;
mod state_directory;
mod step;
mod streams;
mod supervisor;
mod sys;
mod terminal;
mod transfer;
mod tree_walk;

/// System calls that the sandbox forbids. Only tests use this.
#[doc(hidden)]
pub mod call_probes {
    pub use crate::sys::call_probes::{ForbiddenCall, attempt};
}

pub use beneath::{open_beneath, open_in_root, open_within};
pub use command_exit::CommandExit;
pub use defences::{Defences, FailAction, pause_name};
pub use describe::{Description, Fact, IsolationMechanism, Limit, SandboxPart, Status};
pub use error::{CloseError, ExecError, StartError, WaitError};
pub use host_programs::{HostPrograms, MemoryBound};
pub use limits::LimitExceeded;
pub use process::{Command, Process, Stdio};
pub use proof::{ProbeName, ProbeResult, Proof, ProofError, ProofSpec};
pub use running::{Sandbox, Socket};
pub use spec::{
    CopyOnWrite, Edit, InitProgram, LandlockRequirement, LocalRange, Mount, MountKind, SandboxIdentity,
    SandboxLimits, SandboxNetwork, SandboxSpec, SocketKind, SocketSpec, SystemCalls,
};
pub use state_directory::{Sweep, sweep};
pub use step::StartStep;
pub use terminal::Terminal;
pub use transfer::{SkipReason, Transfer, TransferCaps, TransferError, download};
pub use tree_walk::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory, walk_tree};
