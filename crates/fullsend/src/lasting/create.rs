//! Creating a lasting sandbox: its directory is made, its owner is started, and the owner's first answer is awaited.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags};
use sandbox::channel;

use super::directory::{LastingDirectory, LastingError};
use super::owner;
use super::protocol::{LastingLimits, OwnerSpec, OwnerStart};

/// An image may have to be unpacked first.
const START_LIMIT: Duration = Duration::from_secs(600);

/// The settings of a new sandbox.
#[derive(Debug)]
pub struct CreateRequest {
    pub name: Option<String>,
    pub policy_name: String,
    pub policy_text: String,
    pub image: Option<(PathBuf, PathBuf)>,
    pub repository: Option<PathBuf>,
    pub ttl_seconds: u64,
    /// The sandbox ends with this process.
    pub parent: Option<u32>,
    pub limits: LastingLimits,
}

/// Why there is no new sandbox.
#[derive(Debug)]
pub enum CreateError {
    Directory(LastingError),
    NoParent { pid: u32, source: io::Error },
    Owner { source: io::Error },
    Refused { message: String },
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::NoParent { pid, source } => {
                write!(f, "the parent process {pid} cannot be watched: {source}; name one that runs")
            }
            Self::Owner { source } => write!(f, "the sandbox's owner process did not start: {source}"),
            Self::Refused { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for CreateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Directory(error) => Some(error),
            Self::NoParent { source, .. } | Self::Owner { source } => Some(source),
            Self::Refused { .. } => None,
        }
    }
}

/// Creates a sandbox and returns its id.
pub fn create(root: &Path, request: CreateRequest) -> Result<String, CreateError> {
    let CreateRequest { name, policy_name, policy_text, image, repository, ttl_seconds, parent, limits } =
        request;
    let all = LastingDirectory::open(root).map_err(CreateError::Directory)?;
    // The next command tries again to clean up.
    drop(all.sweep());
    if let Some(name) = &name {
        all.check_name(name).map_err(CreateError::Directory)?;
    }
    let parent = parent.map(watched).transpose()?;
    let id = uuid::Uuid::now_v7().to_string();
    let directory = all.make(&id).map_err(CreateError::Directory)?;
    let spec = OwnerSpec {
        id: id.clone(),
        name,
        directory: directory.clone(),
        policy_name,
        policy_text,
        image,
        repository,
        ttl_seconds,
        limits,
    };
    match start_owner(&spec, parent.as_ref()) {
        Ok(OwnerStart::Ready) => Ok(id),
        Ok(OwnerStart::Failed { message }) => {
            remove_failed(&directory);
            Err(CreateError::Refused { message })
        }
        Err(source) => {
            remove_failed(&directory);
            Err(CreateError::Owner { source })
        }
    }
}

/// Nothing ran in it, so nothing is recorded. The next sweep removes what is left.
fn remove_failed(directory: &Path) {
    drop(sandbox::sweep(&directory.join(super::directory::STATES)));
    drop(std::fs::remove_dir_all(directory));
}

fn watched(pid: u32) -> Result<OwnedFd, CreateError> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let opened = raw
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
    opened.map_err(|error| CreateError::NoParent { pid, source: error.into() })
}

/// The owner is this same program, with an empty environment.
fn start_owner(spec: &OwnerSpec, parent: Option<&OwnedFd>) -> io::Result<OwnerStart> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut child = Command::new("/proc/self/exe")
        .arg(owner::COMMAND)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Reap it while this process lives; otherwise it outlives this process.
    std::thread::Builder::new().stack_size(64 << 10).spawn(move || child.wait())?;
    ours.set_read_timeout(Some(START_LIMIT))?;
    let descriptors: Vec<_> = parent.iter().map(|parent| parent.as_fd()).collect();
    channel::send(&ours, spec, &descriptors)?;
    match channel::receive(&ours)? {
        Some((start, _)) => Ok(start),
        None => Err(io::Error::other("it ended before the sandbox was up")),
    }
}
