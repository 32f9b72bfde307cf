//! The processes of a sandbox, as a tree, and which of them hold a socket.

use super::IdentityError;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

const MAX_PROCESSES: usize = 65_536;
const MAX_DESCRIPTORS: usize = 65_536;
const MAX_ANCESTORS: usize = 64;

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
            for child in children(proc, pid) {
                if parents.len() >= MAX_PROCESSES {
                    let source = std::io::Error::other("too many processes");
                    return Err(IdentityError::Proc { what: "the sandbox's processes", source });
                }
                if child != root && parents.insert(child, pid).is_none() {
                    open.push(child);
                }
            }
        }
        Ok(Self { root, parents })
    }

    pub(super) fn owners(&self, proc: &Path, inode: u64) -> Vec<u32> {
        let wanted = format!("socket:[{inode}]");
        let mut all: Vec<u32> = self.parents.keys().copied().chain([self.root]).collect();
        all.sort_unstable();
        all.retain(|pid| holds(proc, *pid, &wanted));
        all
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

/// Of every thread: a child belongs to the thread that created it.
fn children(proc: &Path, pid: u32) -> Vec<u32> {
    let tasks = proc.join(pid.to_string()).join("task");
    let Ok(entries) = fs::read_dir(tasks) else { return Vec::new() };
    let lists = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

fn holds(proc: &Path, pid: u32, wanted: &str) -> bool {
    let Ok(entries) = fs::read_dir(proc.join(pid.to_string()).join("fd")) else { return false };
    entries
        .take(MAX_DESCRIPTORS)
        .filter_map(Result::ok)
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted))
}
