//! The processes of a sandbox, as a tree, and which of them hold a socket.

use super::IdentityError;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MAX_PROCESSES: usize = 65_536;
const MAX_DESCRIPTORS: usize = 65_536;
const MAX_ANCESTORS: usize = 64;

/// How long a process that is ending is waited for.
const ENDING: Duration = Duration::from_secs(1);

pub(super) struct ProcessTree {
    root: u32,
    parents: HashMap<u32, u32>,
}

impl ProcessTree {
    /// Walks down from the sandbox's first process. Orphans become its children, so that none is missed.
    pub(super) fn load(proc: &Path, root: u32) -> Result<Self, IdentityError> {
        let mut parents = HashMap::new();
        let mut open = vec![root];
        while let Some(pid) = open.pop() {
            for child in children(proc, pid)? {
                if parents.len() >= MAX_PROCESSES {
                    let source = io::Error::other("too many processes");
                    return Err(IdentityError::Proc { what: "the sandbox's processes", source });
                }
                if child != root && parents.insert(child, pid).is_none() {
                    open.push(child);
                }
            }
        }
        Ok(Self { root, parents })
    }

    /// All processes that hold the socket. A process whose descriptors cannot be read might hold it, so it is an error.
    pub(super) fn owners(&self, proc: &Path, inode: u64) -> Result<Vec<u32>, IdentityError> {
        let wanted = format!("socket:[{inode}]");
        let mut all: Vec<u32> = self.parents.keys().copied().chain([self.root]).collect();
        all.sort_unstable();
        let mut owners = Vec::new();
        for pid in all {
            let held = match has_descriptor(&descriptors_of(proc, pid), &wanted, MAX_DESCRIPTORS) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    if self.is_ours(pid) {
                        Ok(false)
                    } else {
                        held_by_ending(proc, pid, &wanted)
                    }
                }
                looked => looked,
            };
            let unread = |source| IdentityError::Proc { what: "a process's descriptors", source };
            owners.extend(held.map_err(unread)?.then_some(pid));
        }
        Ok(owners)
    }

    /// Whether a process that cannot be inspected is fullsend's own: the sandbox's first process, or a child of it that has
    /// not executed a program yet. Programs inside can be inspected.
    fn is_ours(&self, pid: u32) -> bool {
        pid == self.root || self.parents.get(&pid) == Some(&self.root)
    }

    /// The process and its ancestors up to the sandbox's first process, nearest first.
    pub(super) fn ancestry_of(&self, pid: u32) -> Vec<u32> {
        let mut ancestry = vec![pid];
        let mut at = pid;
        while let Some(parent) = self.parents.get(&at) {
            if ancestry.len() > MAX_ANCESTORS {
                break;
            }
            ancestry.push(*parent);
            at = *parent;
        }
        ancestry
    }
}

/// The children of every thread: a child belongs to the thread that created it.
fn children(proc: &Path, pid: u32) -> Result<Vec<u32>, IdentityError> {
    let unread = |source| IdentityError::Proc { what: "the sandbox's processes", source };
    let mut found = Vec::new();
    for task in entries(&proc.join(pid.to_string()).join("task")).map_err(unread)? {
        let list = match fs::read_to_string(task.map_err(unread)?.path().join("children")) {
            Ok(list) => list,
            Err(error) if has_ended(&error) => continue,
            Err(error) => return Err(unread(error)),
        };
        found.extend(list.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    Ok(found)
}

fn descriptors_of(proc: &Path, pid: u32) -> PathBuf {
    proc.join(pid.to_string()).join("fd")
}

/// Whether a process holds the socket although an ordinary user cannot list its descriptors: it is ending, or its first
/// thread has ended. Then its other threads are inspected.
fn held_by_ending(proc: &Path, pid: u32, wanted: &str) -> io::Result<bool> {
    let deadline = Instant::now() + ENDING;
    loop {
        match a_thread_holds(&proc.join(pid.to_string()), wanted) {
            // For a moment, an ending process has no memory but still has its descriptors.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            looked => return looked,
        }
    }
}

/// Whether a thread of the process that has not ended holds the descriptor.
fn a_thread_holds(process: &Path, wanted: &str) -> io::Result<bool> {
    for thread in entries(&process.join("task"))? {
        let thread = thread?.path();
        if !has_exited(&thread)? && has_descriptor(&thread.join("fd"), wanted, MAX_DESCRIPTORS)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the thread has ended and waits to be reaped: it has given its descriptors back.
fn has_exited(thread: &Path) -> io::Result<bool> {
    let stat = match fs::read_to_string(thread.join("stat")) {
        Ok(stat) => stat,
        Err(error) if has_ended(&error) => return Ok(true),
        Err(error) => return Err(error),
    };
    // The state follows the name, which is in parentheses and may hold any of these characters itself.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    Ok(matches!(state, Some('Z' | 'X')))
}

/// Inspects at most `most` descriptors: a process with more could hide one behind them, so that is an error.
fn has_descriptor(directory: &Path, wanted: &str, most: usize) -> io::Result<bool> {
    for (index, entry) in entries(directory)?.enumerate() {
        if index >= most {
            return Err(io::Error::other(format!("a process has more than {most} descriptors")));
        }
        match entry.and_then(|entry| fs::read_link(entry.path())) {
            Ok(target) if target.as_os_str() == wanted => return Ok(true),
            Ok(_) => {}
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The entries of a process's directory; none if the process has ended. Anything else, as when descriptors run out, is
/// an error: a process that could not be inspected may still hold the socket.
fn entries(path: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>> + use<>> {
    let listed = match fs::read_dir(path) {
        Ok(listed) => Some(listed),
        Err(error) if has_ended(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(listed.into_iter().flatten().filter(|entry| !matches!(entry, Err(error) if has_ended(error))))
}

/// The process, the thread or the descriptor is gone.
pub(super) fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

const ESRCH: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory like /proc, with one process that holds these descriptors.
    fn proc(pid: u32, descriptors: &[&str]) -> PathBuf {
        let place = std::env::temp_dir().join(format!("egress-proc-{pid}-{}", std::process::id()));
        drop(fs::remove_dir_all(&place));
        let fd = place.join(pid.to_string()).join("fd");
        fs::create_dir_all(&fd).unwrap();
        for (number, target) in descriptors.iter().enumerate() {
            std::os::unix::fs::symlink(target, fd.join(number.to_string())).unwrap();
        }
        place
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_an_error() {
        let place = proc(7, &["pipe:[1]", "socket:[2]", "pipe:[3]"]);
        let fd = place.join("7/fd");
        assert!(has_descriptor(&fd, "socket:[2]", 8).unwrap());
        assert!(!has_descriptor(&fd, "socket:[9]", 8).unwrap());
        assert!(!has_descriptor(&place.join("8/fd"), "socket:[2]", 8).unwrap(), "it has ended");
        // Behind too many others the socket could be missed.
        assert!(has_descriptor(&fd, "socket:[9]", 2).is_err());
        let tree = ProcessTree { root: 7, parents: HashMap::new() };
        assert_eq!(tree.owners(&place, 2).unwrap(), [7]);
        fs::remove_dir_all(place.join("7/fd")).unwrap();
        fs::write(place.join("7/fd"), "").unwrap();
        assert!(tree.owners(&place, 2).is_err(), "not a directory, as when no descriptor is left to open it");
        fs::write(place.join("7/task"), "").unwrap();
        assert!(ProcessTree::load(&place, 7).is_err());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn threads_are_asked_where_the_first_has_ended() {
        let place = proc(9, &["socket:[2]"]);
        let process = place.join("9");
        let thread = |id: &str, state: &str, holds: bool| {
            let thread = process.join("task").join(id);
            fs::create_dir_all(&thread).unwrap();
            fs::write(thread.join("stat"), format!("{id} (a) Z) {state} 1 1")).unwrap();
            if holds {
                fs::rename(process.join("fd"), thread.join("fd")).unwrap();
            }
        };
        thread("9", "Z", false);
        assert!(!a_thread_holds(&process, "socket:[2]").unwrap(), "all have ended");
        thread("10", "S", true);
        assert!(a_thread_holds(&process, "socket:[2]").unwrap());
        assert!(!a_thread_holds(&process, "socket:[3]").unwrap());
        fs::write(process.join("task/10/stat"), "10 (a) X 1 1").unwrap();
        assert!(!a_thread_holds(&process, "socket:[2]").unwrap(), "it has ended as well");
        fs::remove_dir_all(place).unwrap();
    }
}
