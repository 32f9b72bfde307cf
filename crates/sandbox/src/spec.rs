//! What a sandbox is made of, as plain data. Nothing here touches the system; paths on the host are real paths (no
//! symlink on the way: a link that is swapped in between check and mount must not redirect us).

use crate::defences::Defences;
use crate::describe::SandboxPart;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Everything that `Sandbox::start` needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Made with mode 0700 by `start` and removed by `close`; must not exist before. Its parent must exist.
    #[serde(with = "path_bytes")]
    pub state_directory: PathBuf,
    pub init: InitProgram,
    /// Where our own program appears inside, read-only and executable.
    #[serde(with = "optional_path_bytes")]
    pub program: Option<PathBuf>,
    /// The layers of an image, unpacked, the uppermost first; `MountKind::Image` shows parts of it. Files owned by the
    /// caller, whiteouts as overlayfs marks them for users.
    #[serde(with = "all_path_bytes")]
    pub image: Vec<PathBuf>,
    /// In order: a later mount may lie inside an earlier one. Nothing else exists inside.
    pub mounts: Vec<Mount>,
    /// The environment that every command starts from; nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    pub hostname: String,
    pub identity: SandboxIdentity,
    pub limits: SandboxLimits,
    pub network: SandboxNetwork,
    pub landlock: LandlockRequirement,
    pub system_calls: SystemCalls,
    /// What may be weaker than the default. Everything else that cannot be enforced stops `start`.
    pub accept_weaker: BTreeSet<SandboxPart>,
    /// All protections, unless a test takes one away.
    pub defences: Defences,
}

impl SandboxSpec {
    /// An empty sandbox: no files but `/proc`, `/dev` and `/tmp`, no sockets, no limits beyond the defaults.
    pub fn new(state_directory: impl Into<PathBuf>) -> Self {
        Self {
            state_directory: state_directory.into(),
            init: InitProgram::default(),
            program: None,
            image: Vec::new(),
            mounts: Vec::new(),
            environment: Vec::new(),
            hostname: "sandbox".to_owned(),
            identity: SandboxIdentity::default(),
            limits: SandboxLimits::default(),
            network: SandboxNetwork::default(),
            landlock: LandlockRequirement::Required,
            system_calls: SystemCalls::AllButDenied,
            accept_weaker: BTreeSet::new(),
            defences: Defences::default(),
        }
    }
}

/// The executable that becomes PID 1: our own program, with the argument that its `main` dispatches on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InitProgram {
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
    pub argument: OsString,
}

impl Default for InitProgram {
    fn default() -> Self {
        Self { path: PathBuf::from("/proc/self/exe"), argument: OsString::from("__init") }
    }
}

/// One thing in the sandbox's tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute, without `.` or `..`. Created if it is missing.
    #[serde(with = "path_bytes")]
    pub target: PathBuf,
    pub kind: MountKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountKind {
    /// A file or directory of the host, with all below it, read-only.
    ReadOnly {
        #[serde(with = "path_bytes")]
        source: PathBuf,
    },
    /// A file or directory of the host that the sandbox may change.
    ReadWrite {
        #[serde(with = "path_bytes")]
        source: PathBuf,
    },
    /// A view of a host directory: changes land in the state directory, the host's files stay as they are.
    CopyOnWrite(CopyOnWrite),
    /// The same with its edits, in which nothing can be changed.
    ReadOnlyView(CopyOnWrite),
    /// The image's file or directory at the target's path, read-only. A link stays a link; a missing path stays
    /// missing.
    Image,
    /// A view of what the image has at the target's path, as `CopyOnWrite`; an empty directory where it has none.
    ImageView { memory_bytes: u64 },
    /// A fresh, empty, writable directory in memory.
    Temporary { size_bytes: u64, inodes: u64, mode: u32 },
    /// A Unix socket of the host that processes inside may connect to, if its mode lets every user.
    Socket {
        #[serde(with = "path_bytes")]
        source: PathBuf,
    },
    /// A read-only file with these contents.
    File {
        #[serde(with = "serde_bytes")]
        contents: Vec<u8>,
        mode: u32,
    },
    /// An empty directory; writable only if its parent is.
    Directory { mode: u32 },
    /// A symbolic link.
    Symlink {
        #[serde(with = "path_bytes")]
        to: PathBuf,
    },
}

/// A copy-on-write view and what differs in it from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOnWrite {
    #[serde(with = "path_bytes")]
    pub source: PathBuf,
    /// Applied in order, inside the view, before anything can run in it.
    pub edits: Vec<Edit>,
    /// The bound of the copy in memory where the state directory's file system cannot hold an upper layer.
    pub memory_bytes: u64,
}

/// A change to a view; paths are relative to the view's root and cross no symlink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    /// Remove the file or directory; absent is fine.
    Remove {
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
    /// Put a file with these contents there, in place of whatever was there.
    Write {
        #[serde(with = "path_bytes")]
        path: PathBuf,
        #[serde(with = "serde_bytes")]
        contents: Vec<u8>,
        mode: u32,
    },
    /// Put an empty directory there, in place of whatever was there.
    EmptyDirectory {
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
}

/// The user and group of processes, as seen inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxIdentity {
    pub uid: u32,
    pub gid: u32,
}

impl Default for SandboxIdentity {
    fn default() -> Self {
        Self { uid: 1000, gid: 1000 }
    }
}

/// Bounds on what the sandbox may use. `None` leaves the resource as the host gives it to us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    /// 1 to 10000; the default is 100.
    pub cpu_weight: Option<u32>,
    /// The largest single file.
    pub file_bytes: Option<u64>,
    pub open_files: Option<u64>,
    /// All that copy-on-write views may grow by, together.
    pub disk_bytes: Option<u64>,
    pub wall_clock: Option<Duration>,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            processes: Some(4096),
            cpu_weight: None,
            file_bytes: None,
            open_files: Some(65_536),
            disk_bytes: None,
            wall_clock: None,
        }
    }
}

/// The sandbox's own network: loopback, the sockets that the host side serves, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxNetwork {
    /// Ranges that the loopback interface answers for, beside 127.0.0.0/8 and ::1.
    pub local_ranges: Vec<LocalRange>,
    /// Made inside, handed to the host side in this order.
    pub sockets: Vec<SocketSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalRange {
    pub address: IpAddr,
    pub prefix_bits: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSpec {
    pub kind: SocketKind,
    pub address: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketKind {
    TcpListener,
    Udp,
}

/// Whether the sandbox may start where the kernel has no or only an old Landlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandlockRequirement {
    BestEffort,
    Required,
}

/// Which system calls processes inside may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SystemCalls {
    /// All but those on the deny list.
    AllButDenied,
    /// Those on the allow list: what the runtimes and the usual tools use.
    OnlyAllowed,
}

/// serde writes paths as text and refuses others; the kernel's paths are bytes.
mod path_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

mod optional_path_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::path::PathBuf;

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| path.as_os_str()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<OsString>::deserialize(deserializer)?.map(PathBuf::from))
    }
}

mod all_path_bytes {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::ffi::OsString;
    use std::path::PathBuf;

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.as_os_str()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<OsString>::deserialize(deserializer)?.into_iter().map(PathBuf::from).collect())
    }
}
