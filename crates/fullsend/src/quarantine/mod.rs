//! Copies the agent's output out of the sandbox. The copy follows no links, is bounded, and is redacted. Redaction happens
//! here, before validation, so that the validated document is the published one. A `Quarantined` can only be made here.

pub(crate) mod changes;
pub(crate) mod checkout;
mod error;
mod repository_diff;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, open_beneath, walk_tree};
use scan::Origin;

use crate::git::recognised::RepositoryFinder;
use crate::guard::Guard;
use crate::runtime::Attempt;
use changes::{AgentRepository, Changes};

pub use error::QuarantineError;

/// Limits of one output.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: u64 = 100 << 20;
const MAX_DEPTH: usize = 16;
/// Files and directories together.
const MAX_ENTRIES: usize = 20_000;
const MAX_NAME: usize = 200;

/// An output that is copied out and redacted, and not validated yet. Everyone may read it:
///
/// ```
/// fn read(output: &fullsend::internal::Quarantined) -> &std::path::Path {
///     output.directory()
/// }
/// ```
///
/// Only this module can create it:
///
/// ```compile_fail
/// fn forge(attempt: fullsend::internal::Attempt) -> fullsend::internal::Quarantined {
///     fullsend::internal::Quarantined {
///         attempt,
///         directory: "output".into(),
///         files: Vec::new(),
///         changes: None,
///     }
/// }
/// ```
///
/// Its directory cannot be changed:
///
/// ```compile_fail
/// fn point(output: &mut fullsend::internal::Quarantined) {
///     output.directory = "elsewhere".into();
/// }
/// ```
#[derive(Debug)]
pub struct Quarantined {
    attempt: Attempt,
    directory: PathBuf,
    files: Vec<String>,
    changes: Option<Changes>,
}

impl Quarantined {
    pub fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// The directory on the host that contains the output.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The files in it, by their paths relative to it.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// What was changed in the repository; `None` if nothing changed that git does not ignore.
    pub fn changes(&self) -> Option<&Changes> {
        self.changes.as_ref()
    }
}

/// Copies the output directory out, and what was changed in the repository.
pub fn quarantine(
    attempt: Attempt,
    agent_repository: &AgentRepository<'_>,
    directory: &Path,
    guard: &Guard,
) -> Result<Quarantined, QuarantineError> {
    let CollectedOutput { files, changes } = collect(agent_repository, directory, guard)?;
    Ok(Quarantined { attempt, directory: directory.to_owned(), files, changes })
}

/// What was copied out.
#[derive(Debug)]
pub struct CollectedOutput {
    pub files: Vec<String>,
    pub changes: Option<Changes>,
}

/// Copies the output and the changes of the repository.
pub fn collect(
    agent_repository: &AgentRepository<'_>,
    directory: &Path,
    guard: &Guard,
) -> Result<CollectedOutput, QuarantineError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| QuarantineError::Write { path: directory.to_owned(), source })?;
    let mut copy = OutputCopier {
        into: directory,
        guard,
        files: Vec::new(),
        bytes: 0,
        repositories: RepositoryFinder::default(),
    };
    let output =
        open_beneath(agent_repository.root, "sandbox/workspace/output", OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|source| QuarantineError::unreadable("output".to_owned(), source))?;
    copy.copy_all(&output)?;
    let changes = changes::collect(agent_repository, &directory.with_file_name("changed"), guard)?;
    Ok(CollectedOutput { files: copy.files, changes })
}

struct OutputCopier<'a> {
    into: &'a Path,
    guard: &'a Guard,
    files: Vec<String>,
    bytes: u64,
    repositories: RepositoryFinder,
}

impl OutputCopier<'_> {
    fn copy_all(&mut self, output: &OwnedFd) -> Result<(), QuarantineError> {
        let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
        let copied = walk_tree(output, limits, &mut |entry: &TreeEntry<'_>| {
            self.copy_entry(entry)?;
            Ok(Descend::Yes)
        });
        copied.map_err(|error| match error {
            WalkError::Visit(error) => error,
            WalkError::Read { path, source } => QuarantineError::unreadable(shown(&path), source),
            WalkError::TooManyEntries { .. } => refused("", "has too many entries"),
            WalkError::TooDeep { path } => {
                QuarantineError::Refused { path: shown(&path), why: "is nested too deep" }
            }
        })
    }

    fn copy_entry(&mut self, entry: &TreeEntry<'_>) -> Result<(), QuarantineError> {
        let parent = entry.path.parent().unwrap_or(Path::new(""));
        let in_parent = |why| QuarantineError::Refused { path: shown(parent), why };
        let name = entry.name.to_str().ok_or_else(|| in_parent("has an entry whose name is not UTF-8"))?;
        if name.len() > MAX_NAME || name.chars().any(is_deceiving) {
            return Err(in_parent(
                "has an entry with an unusable name: too long, or with invisible characters",
            ));
        }
        if self.repositories.add(entry.path) {
            return Err(in_parent(LIKE_A_REPOSITORY));
        }
        // This function has already accepted every parent, so the whole path is UTF-8.
        let path = entry.path.to_str().unwrap_or(name);
        match entry.kind {
            FileType::Directory => return Ok(()),
            FileType::RegularFile => {}
            FileType::Symlink => return Err(refused(path, "is a symbolic link")),
            // Never opened: opening a device can have side effects.
            _ => return Err(refused(path, "is neither a file nor a directory")),
        }
        // Check and read the same descriptor, so the path cannot be replaced in between.
        let file = match entry.open() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
                return Err(refused(path, "is a symbolic link"));
            }
            opened => opened.map_err(|source| unreadable(path, source))?,
        };
        let about = rustix::fs::fstat(&file).map_err(|error| unreadable(path, error.into()))?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile if about.st_nlink > 1 => Err(refused(path, "is a hard link")),
            FileType::RegularFile => self.copy_file(file, path),
            _ => Err(refused(path, "is neither a file nor a directory")),
        }
    }

    fn copy_file(&mut self, file: OwnedFd, path: &str) -> Result<(), QuarantineError> {
        if self.files.len() >= MAX_FILES {
            return Err(refused(path, "is one of too many files; the limit is 1000"));
        }
        let mut bytes = Vec::new();
        let left = MAX_BYTES - self.bytes;
        let read = std::fs::File::from(file).take(left + 1).read_to_end(&mut bytes);
        read.map_err(|source| unreadable(path, source))?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(refused(path, "makes the output too large"));
        }
        self.guard
            .inspect(&bytes, Origin::Output, &format!("output/{path}"))
            .map_err(QuarantineError::Blocked)?;
        let target = self.into.join(path);
        let failed = |source| QuarantineError::Write { path: target.clone(), source };
        std::fs::create_dir_all(target.parent().unwrap_or(self.into)).map_err(failed)?;
        std::fs::write(&target, self.redact(path, bytes)).map_err(failed)?;
        self.files.push(path.to_owned());
        Ok(())
    }

    /// Text is cleaned and redacted; JSON stays JSON. Other bytes are redacted.
    fn redact(&self, path: &str, bytes: Vec<u8>) -> Vec<u8> {
        match String::from_utf8(bytes) {
            Ok(text) if path.ends_with(".json") => self.guard.redact_json(&text).into_owned().into_bytes(),
            Ok(text) => self.guard.redact(&text).into_owned().into_bytes(),
            Err(error) => self.guard.redact_bytes(error.as_bytes()).into_owned(),
        }
    }
}

/// Git executes commands from a repository's configuration, and the agent could have written it.
const LIKE_A_REPOSITORY: &str = "looks like a git repository";

fn shown(path: &Path) -> String {
    format!("output/{}", path.display())
}

fn refused(path: &str, why: &'static str) -> QuarantineError {
    QuarantineError::Refused { path: format!("output/{path}"), why }
}

fn unreadable(path: &str, source: std::io::Error) -> QuarantineError {
    QuarantineError::unreadable(format!("output/{path}"), source)
}

/// Characters that make a name look like another one, or invisible.
fn is_deceiving(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
