//! The state directory of one sandbox: what is in it, how it is made and removed, and how a later command knows that
//! its owner is dead. The owner holds a lock on a file in it; the kernel releases the lock when the owner dies.

use crate::identity::Mapping;
use crate::limits::remove_cgroup;
use crate::remove_tree;
use crate::step::{StartStep, StepContext, StepError};
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const LOCK: &str = "lock";
/// The cgroups that belong to the sandbox, one path per line; written before they are made.
const CGROUPS: &str = "cgroups";
/// A directory without a lock is being created, or its creator died; after this time the creator counts as dead.
const UNLOCKED_GRACE: Duration = Duration::from_secs(60);

/// Where the sandbox's own identity may write: the upper layers of views.
pub(crate) fn layers(state_directory: &Path) -> PathBuf {
    state_directory.join("layers")
}

/// The name of the upper layer of the view with mount number `index`.
pub(crate) fn upper(index: usize) -> String {
    format!("upper-{index}")
}

/// Whether a sandbox has views; removing each directory costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpperLayers {
    Needed,
    NotNeeded,
}

/// Makes the directory for upper layers and gives it to the sandbox's identity.
pub(crate) fn make_layers(path: &Path, mapping: Mapping) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)?;
    match mapping {
        Mapping::Caller => Ok(()),
        Mapping::Fresh { id } => std::os::unix::fs::chown(path, Some(id), Some(id)),
    }
}

/// A state directory that we own.
pub(crate) struct StateDirectory {
    path: PathBuf,
    /// Held open for its lock.
    _lock: File,
}

impl StateDirectory {
    /// Makes the directory and what belongs into it. Undone by `remove`.
    pub(crate) fn make(path: &Path, layers: UpperLayers, mapping: Mapping) -> Result<Self, StepError> {
        fs::DirBuilder::new().mode(0o700).create(path).at(StartStep::MakeState, path.display())?;
        match Self::fill(path, layers, mapping) {
            Ok(lock) => Ok(Self { path: path.to_path_buf(), _lock: lock }),
            Err(e) => {
                drop(remove_tree::remove_all(path));
                Err(e)
            }
        }
    }

    fn fill(path: &Path, needed: UpperLayers, mapping: Mapping) -> Result<File, StepError> {
        let lock = make_lock(path).at(StartStep::MakeState, path.join(LOCK).display())?;
        if needed == UpperLayers::Needed {
            let layers = layers(path);
            make_layers(&layers, mapping).at(StartStep::MakeState, layers.display())?;
        }
        Ok(lock)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records a cgroup before it is created, so that a later command can find it.
    pub(crate) fn note_cgroup(&self, directory: &Path) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(self.path.join(CGROUPS))?;
        file.write_all(directory.as_os_str().as_bytes())?;
        file.write_all(b"\n")
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_tree::remove_all(&self.path)
    }
}

/// It appears under its name only when it is locked.
fn make_lock(directory: &Path) -> io::Result<File> {
    let new = directory.join("lock.new");
    let file = File::create_new(&new)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(&new, directory.join(LOCK))?;
    Ok(file)
}

/// What a sweep did.
#[derive(Debug, Default)]
pub struct Sweep {
    /// State directories of dead owners that were removed.
    pub removed: Vec<PathBuf>,
    /// Those whose owner lives.
    pub alive: Vec<PathBuf>,
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes the state directories in `directory` whose owners are dead, with their cgroups. One that does not exist is
/// empty.
pub fn sweep(directory: &Path) -> io::Result<Sweep> {
    let mut sweep = Sweep::default();
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(sweep),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        match sweep_one(&entry.path()) {
            Ok(true) => sweep.removed.push(entry.path()),
            Ok(false) => sweep.alive.push(entry.path()),
            Err(e) => sweep.failed.push((entry.path(), e)),
        }
    }
    Ok(sweep)
}

/// Whether the owner was dead and everything is gone.
fn sweep_one(path: &Path) -> io::Result<bool> {
    let lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let age = SystemTime::now().duration_since(fs::metadata(path)?.modified()?).unwrap_or_default();
            if age < UNLOCKED_GRACE {
                return Ok(false);
            }
            return remove_tree::remove_all(path).map(|()| true);
        }
        Err(e) => return Err(e),
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
        locked => locked?,
    }
    let noted = match fs::read(path.join(CGROUPS)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        noted => noted?,
    };
    for line in noted.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        remove_cgroup(Path::new(std::ffi::OsStr::from_bytes(line)))?;
    }
    remove_tree::remove_all(path).map(|()| true)
}
