//! Where lasting sandboxes are on disk: one directory each, with its manifest, its event log, its socket and its state.
//! The owner holds a lock on the event log, so the lock shows whether a sandbox runs, whatever the files say.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::event::clock::Moment;
use crate::event::lasting::SandboxEnd;
use crate::event::log::{self, Emitter};
use crate::event::{LastingEvent, RunEvent};

/// The directory next to `runs/` that holds all lasting sandboxes.
pub const LASTING: &str = "lasting";

pub const MANIFEST: &str = "sandbox.json";
pub const EVENTS: &str = "events.jsonl";
pub const SOCKET: &str = "socket";
/// The sandbox's own state. `sweep` removes what a dead owner left here.
pub const STATES: &str = "state";

/// The version of the manifest.
pub const MANIFEST_VERSION: u32 = 1;
/// The directory of a sandbox that has ended is kept this long.
const RETENTION_DAYS: u64 = 7;
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// What is known of a sandbox without asking its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxManifest {
    pub v: u32,
    /// The owner's protocol.
    pub protocol: u32,
    pub id: String,
    pub name: Option<String>,
    /// RFC 3339, UTC.
    pub created: String,
    pub expires: String,
    pub policy: String,
    pub image: Option<String>,
    pub repository: Option<String>,
    /// Where commands start, inside.
    pub workspace: String,
    /// The one user of the sandbox, as it sees itself.
    pub uid: u32,
    pub owner_pid: u32,
    pub fullsend: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastingState {
    Running,
    Ended,
}

impl LastingState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// A sandbox that was found on disk.
#[derive(Clone, Debug)]
pub struct LastingSandbox {
    pub manifest: SandboxManifest,
    pub state: LastingState,
    pub path: PathBuf,
}

/// All lasting sandboxes of one user.
#[derive(Clone, Debug)]
pub struct LastingDirectory {
    root: PathBuf,
}

/// Why a sandbox was not found or its directory not made.
#[derive(Debug)]
pub enum LastingError {
    Read { path: PathBuf, source: io::Error },
    None { name: String },
    Several { name: String, ids: Vec<String> },
    NameTaken { name: String, id: String },
}

impl fmt::Display for LastingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot use {}: {source}", path.display()),
            Self::None { name } => {
                write!(f, "there is no sandbox `{name}`; `fullsend sandbox list --all` shows them")
            }
            Self::Several { name, ids } => {
                write!(f, "`{name}` matches several sandboxes: {}", ids.join(", "))
            }
            Self::NameTaken { name, id } => write!(
                f,
                "the sandbox {id} is named `{name}` already; choose another name, or remove it with `fullsend sandbox rm {name}`"
            ),
        }
    }
}

impl std::error::Error for LastingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::None { .. } | Self::Several { .. } | Self::NameTaken { .. } => None,
        }
    }
}

impl LastingDirectory {
    /// Opens the directory, which is made if it is not there.
    pub fn open(root: &Path) -> Result<Self, LastingError> {
        let failed = |source| LastingError::Read { path: root.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed)?;
        Ok(Self { root: root.canonicalize().map_err(failed)? })
    }

    /// Makes the directory of a new sandbox.
    pub fn make(&self, id: &str) -> Result<PathBuf, LastingError> {
        let path = self.root.join(id);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.and_then(|()| fs::DirBuilder::new().mode(0o700).create(path.join(STATES)))
            .map_err(|source| LastingError::Read { path: path.clone(), source })?;
        Ok(path)
    }

    /// The oldest first, without sandboxes that are being created and directories that are not ours.
    pub fn list(&self) -> Result<Vec<LastingSandbox>, LastingError> {
        let failed = |source| LastingError::Read { path: self.root.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Ok(manifest) = read_manifest(&path) {
                let state = state_of(&path);
                found.push(LastingSandbox { manifest, state, path });
            }
        }
        found.sort_by(|one, other| one.manifest.id.cmp(&other.manifest.id));
        Ok(found)
    }

    /// By its id, the name of one that runs, or the start of its id.
    pub fn find(&self, name: &str) -> Result<LastingSandbox, LastingError> {
        let all = self.list()?;
        let named = |sandbox: &LastingSandbox| {
            sandbox.manifest.name.as_deref() == Some(name) && sandbox.state == LastingState::Running
        };
        if let Some(exact) = all.iter().find(|sandbox| sandbox.manifest.id == name || named(sandbox)) {
            return Ok(exact.clone());
        }
        let mut matching =
            all.into_iter().filter(|sandbox| !name.is_empty() && sandbox.manifest.id.starts_with(name));
        let Some(first) = matching.next() else { return Err(LastingError::None { name: name.to_owned() }) };
        let rest: Vec<String> = matching.map(|sandbox| sandbox.manifest.id).collect();
        if rest.is_empty() {
            return Ok(first);
        }
        let ids = std::iter::once(first.manifest.id).chain(rest).collect();
        Err(LastingError::Several { name: name.to_owned(), ids })
    }

    /// Two sandboxes that run cannot have the same name.
    pub fn check_name(&self, name: &str) -> Result<(), LastingError> {
        let taken = self.list()?.into_iter().find(|sandbox| {
            sandbox.state == LastingState::Running && sandbox.manifest.name.as_deref() == Some(name)
        });
        match taken {
            Some(other) => Err(LastingError::NameTaken { name: name.to_owned(), id: other.manifest.id }),
            None => Ok(()),
        }
    }

    /// Cleans up after owners that died, and removes old records. Returns what could not be done.
    pub fn sweep(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Err(error) = sweep_one(&path) {
                problems.push(format!("{}: {error}", path.display()));
            }
        }
        problems
    }
}

fn sweep_one(path: &Path) -> io::Result<()> {
    let Some(_lock) = lock_if_owner_is_dead(path)? else { return Ok(()) };
    if let Some((path, error)) = sandbox::sweep(&path.join(STATES))?.failed.into_iter().next() {
        return Err(io::Error::other(format!("{}: {error}", path.display())));
    }
    match fs::remove_file(path.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let events_path = path.join(EVENTS);
    let events = log::read(&events_path).map_err(io::Error::other)?;
    let is_closed =
        |event: &RunEvent| matches!(event, RunEvent::Lasting { event: LastingEvent::Closed { .. } });
    if !events.iter().any(|envelope| is_closed(&envelope.event)) {
        let event = LastingEvent::Closed { reason: SandboxEnd::OwnerDied, detail: String::new() };
        Emitter::resume(&events_path, &events)?.emit(RunEvent::Lasting { event });
    }
    let age = fs::metadata(&events_path)?.modified()?.elapsed().unwrap_or_default();
    if age.as_secs() > RETENTION_DAYS * 86_400 {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// The event log of a sandbox whose owner is gone, locked. `None` while the owner lives, or before there is a log.
fn lock_if_owner_is_dead(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path.join(EVENTS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        opened => opened?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn state_of(path: &Path) -> LastingState {
    match lock_if_owner_is_dead(path) {
        Ok(None) => LastingState::Running,
        Ok(Some(_)) | Err(_) => LastingState::Ended,
    }
}

fn read_manifest(path: &Path) -> io::Result<SandboxManifest> {
    let file = File::open(path.join(MANIFEST))?;
    Ok(serde_json::from_reader(io::Read::take(file, MAX_MANIFEST_BYTES))?)
}

/// Written when the sandbox is up, in one step.
pub fn write_manifest(directory: &Path, manifest: &SandboxManifest) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(manifest)?;
    let new = directory.join("sandbox.json.new");
    fs::write(&new, text)?;
    fs::rename(new, directory.join(MANIFEST))
}

/// When something that starts now ends after `seconds`.
pub fn expiry(now: Moment, seconds: u64) -> Moment {
    Moment::from_millis(now.millis().saturating_add(seconds.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(id: &str, name: Option<&str>) -> SandboxManifest {
        SandboxManifest {
            v: MANIFEST_VERSION,
            protocol: 1,
            id: id.to_owned(),
            name: name.map(str::to_owned),
            created: String::new(),
            expires: String::new(),
            policy: String::new(),
            image: None,
            repository: None,
            workspace: String::new(),
            uid: 1000,
            owner_pid: 1,
            fullsend: String::new(),
        }
    }

    #[test]
    fn a_sandbox_is_found_by_id_start_or_name_and_a_dead_one_is_swept() {
        let place = tempfile::tempdir().unwrap();
        let all = LastingDirectory::open(place.path()).unwrap();
        let mut logs = Vec::new();
        for (id, name) in [("aa-1", Some("one")), ("aa-2", None), ("bb-1", None)] {
            let path = all.make(id).unwrap();
            write_manifest(&path, &manifest(id, name)).unwrap();
            logs.push(Emitter::create(&path.join(EVENTS), |_| {}).unwrap());
        }
        let id =
            |name: &str| all.find(name).map(|found| found.manifest.id).map_err(|error| error.to_string());
        assert_eq!(id("one").unwrap(), "aa-1");
        assert_eq!(id("bb").unwrap(), "bb-1");
        assert_eq!(id("aa").unwrap_err(), "`aa` matches several sandboxes: aa-1, aa-2");
        assert_eq!(
            id("cc").unwrap_err(),
            "there is no sandbox `cc`; `fullsend sandbox list --all` shows them"
        );
        assert!(all.check_name("one").is_err());
        drop(logs);
        assert!(all.check_name("one").is_ok(), "its owner is gone");
        assert_eq!(all.find("bb-1").unwrap().state, LastingState::Ended);
        assert!(all.sweep().is_empty());
        let events = log::read(&all.find("bb-1").unwrap().path.join(EVENTS)).unwrap();
        let [only] = &events[..] else { panic!("{events:?}") };
        let expected = LastingEvent::Closed { reason: SandboxEnd::OwnerDied, detail: String::new() };
        assert_eq!(only.event, RunEvent::Lasting { event: expected });
        all.sweep();
        assert_eq!(log::read(&all.find("bb-1").unwrap().path.join(EVENTS)).unwrap().len(), 1, "said once");
    }
}
