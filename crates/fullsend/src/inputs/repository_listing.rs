//! Lists every name in a repository once, with several threads: paths that an agent would read as instructions, and names
//! of secrets. Its time grows with the repository. It opens no file.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::git::looks_secret;

use super::instruction_names::{
    IN_GITHUB, MAX_DEPTH, MAX_ENTRIES, SKIPPED, is_context, lower, whole_directory,
};

/// A tree with more entries is refused: files that were not checked must not be visible.
const MAX_LISTED: usize = 3_000_000;
/// Start another thread only if more directories than this wait.
const WORTH_HELP: usize = 32;
const MAX_THREADS: usize = 8;

/// What was found; all paths are relative, in the order of their names.
#[derive(Debug, Default)]
pub struct RepositoryListing {
    /// Files and directories that some agent would read, and directories that could not be listed.
    pub instruction_paths: Vec<PathBuf>,
    /// Files and directories with names of secrets.
    pub secrets: Vec<PathBuf>,
    /// Not everything was searched for instructions.
    pub too_many: bool,
    /// Why the tree as a whole could not be listed.
    pub failed: Option<(PathBuf, io::Error)>,
    entries: usize,
}

/// A directory that was not listed yet.
struct PendingDirectory {
    path: PathBuf,
    depth: usize,
    /// Whether an agent may read the contents, and they are not part of an entry that was found already.
    context: bool,
}

pub fn list_repository(root: &Path) -> RepositoryListing {
    let mut listing = RepositoryListing::default();
    let mut open = vec![PendingDirectory { path: PathBuf::new(), depth: 0, context: true }];
    while open.len() < WORTH_HELP
        && let Some(next) = open.pop()
    {
        listing.list(root, &next, &mut open);
    }
    let queue = WorkQueue { state: Mutex::new(QueueState { open, busy: 0 }), changed: Condvar::new() };
    if !queue.lock().open.is_empty() {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        let parts = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| queue.work(root))).collect();
            let mine = queue.work(root);
            let others = others.into_iter().map(|other| other.join().unwrap_or_default());
            others.chain([mine]).collect::<Vec<_>>()
        });
        parts.into_iter().for_each(|part| listing.add(part));
    }
    listing.too_many = listing.entries > MAX_ENTRIES;
    if listing.entries > MAX_LISTED {
        listing.failed =
            Some((root.to_owned(), io::Error::other(format!("it has more than {MAX_LISTED} files"))));
    }
    listing.instruction_paths.sort();
    listing.secrets.sort();
    listing
}

/// Directories that wait, and the number of threads that may find more.
struct WorkQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    open: Vec<PendingDirectory>,
    busy: usize,
}

impl WorkQueue {
    fn lock(&self) -> std::sync::MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists directories until none is left and no thread can find more.
    fn work(&self, root: &Path) -> RepositoryListing {
        let mut listing = RepositoryListing::default();
        let mut found = Vec::new();
        let mut state = self.lock();
        loop {
            if let Some(next) = state.open.pop() {
                state.busy += 1;
                drop(state);
                if listing.entries <= MAX_LISTED {
                    listing.list(root, &next, &mut found);
                }
                state = self.lock();
                state.busy -= 1;
                state.open.append(&mut found);
                self.changed.notify_all();
            } else if state.busy == 0 {
                return listing;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A quick test that rules out nearly all names that agents do not read. A link may lead to a directory with one of
/// these names.
fn may_count(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let ends = |ending: &[u8]| {
        name.len() >= ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending)
    };
    name.starts_with(b".")
        || [&b".md"[..], b".mdc", b".json", b".jsonc", b"-config", b"-input"]
            .iter()
            .any(|ending| ends(ending))
        || IN_GITHUB.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

impl RepositoryListing {
    fn add(&mut self, other: Self) {
        let Self { instruction_paths, secrets, too_many: _, failed, entries } = other;
        self.instruction_paths.extend(instruction_paths);
        self.secrets.extend(secrets);
        self.failed = self.failed.take().or(failed);
        self.entries += entries;
    }

    fn list(&mut self, root: &Path, directory: &PendingDirectory, found: &mut Vec<PendingDirectory>) {
        let PendingDirectory { path, depth, context } = directory;
        let listed = std::fs::read_dir(root.join(path)).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                // The sandbox cannot read it either, but it may be meant for the agent, so report it.
                if *context {
                    self.instruction_paths.push(path.clone());
                }
                if error.kind() != io::ErrorKind::PermissionDenied {
                    self.failed.get_or_insert((root.join(path), error));
                }
                return;
            }
        };
        self.entries += entries.len();
        // A skill is its whole directory; directories that are too deep are reported once.
        let is_skill =
            *depth > 0 && entries.iter().any(|entry| entry.file_name().eq_ignore_ascii_case("skill.md"));
        let whole = is_skill || *depth > MAX_DEPTH;
        if *context && whole {
            self.instruction_paths.push(path.clone());
        }
        for entry in entries {
            let name = entry.file_name();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            // Most names are of no interest; allocate nothing for them.
            if is_directory || looks_secret(&name) || (*context && may_count(&name)) {
                self.entry(directory, whole, &name, is_directory, found);
            }
        }
    }

    fn entry(
        &mut self,
        above: &PendingDirectory,
        whole: bool,
        name: &OsStr,
        is_directory: bool,
        found: &mut Vec<PendingDirectory>,
    ) {
        let context = above.context && !whole;
        let below = above.path.join(name);
        let lower = lower(name);
        let counts = context && (is_context(&lower) || whole_directory(&below, &lower).is_some());
        if looks_secret(name) {
            self.secrets.push(below.clone());
        }
        if counts {
            self.instruction_paths.push(below.clone());
        }
        if is_directory && below != Path::new(".git") {
            let context = context && !counts && !SKIPPED.contains(&lower.as_str());
            found.push(PendingDirectory { path: below, depth: above.depth + 1, context });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::instruction_names::{DIRECTORIES, ENDINGS, FILES};
    use super::*;

    #[test]
    fn no_name_that_counts_is_overlooked() {
        let endings = ENDINGS.iter().map(|ending| format!("x{ending}"));
        let known = FILES.iter().chain(DIRECTORIES).chain(IN_GITHUB).map(|name| (*name).to_owned());
        for name in known.chain(endings) {
            assert!(may_count(OsStr::new(&name)), "{name}");
            assert!(may_count(OsStr::new(&name.to_uppercase())), "{name}");
        }
        for name in ["main.rs", "README", "src", "a.txt", "x.ml"] {
            assert!(!may_count(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn several_threads_find_what_one_finds() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: String| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        for number in 0..300 {
            write(format!("d{number}/e/file.rs"));
        }
        for name in
            ["d7/e/CLAUDE.md", "d9/.env", "d200/skills/SKILL.md", "d201/.claude/x", "node_modules/x/.env"]
        {
            write(name.to_owned());
        }
        write("node_modules/x/CLAUDE.md".to_owned());
        write(".git/id_rsa".to_owned());
        let RepositoryListing { instruction_paths, secrets, too_many, failed, entries } =
            list_repository(place.path());
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(instruction_paths, paths(&["d200/skills", "d201/.claude", "d7/e/CLAUDE.md"]));
        assert_eq!(secrets, paths(&["d9/.env", "node_modules/x/.env"]));
        assert!(!too_many && failed.is_none() && entries > 900, "{failed:?} {entries}");
    }
}
