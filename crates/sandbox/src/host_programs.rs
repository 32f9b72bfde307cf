//! The bound on the memory of programs that run beside the sandbox, on the host: one cgroup for all of them if
//! possible, else a limit on each. They share nothing else with the sandbox.

use crate::limits::Cgroup;
use crate::spec::SandboxLimits;
use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Followed by the owner's process id and a number.
const PREFIX: &str = "fullsend-host-";

/// A group of programs with one bound on their memory. Dropping it removes its cgroup.
pub struct HostPrograms {
    cgroup: Option<Cgroup>,
    memory_bytes: u64,
}

/// How the bound is enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryBound {
    /// The kernel, for all of them together.
    Together { how: String },
    /// A resource limit, for each of them alone, because there is no cgroup.
    Each { why: String },
}

impl HostPrograms {
    /// A group with a cgroup, if this process may make one.
    pub fn with_cgroup(memory_bytes: u64) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let limits = SandboxLimits { memory_bytes: Some(memory_bytes), ..SandboxLimits::default() };
        let cgroup = Cgroup::create(&name, &limits, |directory| {
            directory.parent().into_iter().for_each(remove_abandoned);
            Ok(())
        });
        Self { cgroup: Some(cgroup), memory_bytes }
    }

    /// Programs that have a limit each.
    pub fn each(memory_bytes: u64) -> Self {
        Self { cgroup: None, memory_bytes }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    pub fn bound(&self) -> MemoryBound {
        match &self.cgroup {
            None => MemoryBound::Each { why: "no cgroup was asked for".to_owned() },
            Some(cgroup) => match cgroup.kept().pop() {
                Some((_, how)) => MemoryBound::Together { how },
                None => MemoryBound::Each { why: cgroup.why_not() },
            },
        }
    }

    /// Bounds a program that is about to be started, with all that it will start.
    pub fn admit(&self, command: &mut Command) -> io::Result<()> {
        let files = self.cgroup.as_ref().map(Cgroup::admissions).unwrap_or_default();
        let open = |path: &PathBuf| OpenOptions::new().write(true).open(path);
        let opened: io::Result<Vec<File>> = files.iter().map(open).collect();
        let files = match opened {
            // Another process removed it while it was empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            files => files?,
        };
        let data_bytes = files.is_empty().then_some(self.memory_bytes);
        sys::bound_before_exec(command, files, data_bytes);
        Ok(())
    }

    /// How many processes the kernel has killed for the memory of the group.
    pub fn killed(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, Cgroup::memory_kills)
    }
}

impl Drop for HostPrograms {
    fn drop(&mut self) {
        // One that still has a process is removed when the next group is made.
        if let Some(cgroup) = &self.cgroup {
            drop(cgroup.remove());
        }
    }
}

/// Removes the empty cgroups of dead owners beside the one that is about to be made.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let is_dead = |owner: u32| !Path::new("/proc").join(owner.to_string()).exists();
        if owner.is_some_and(is_dead) {
            // A cgroup that still has a process stays until a later run.
            drop(fs::remove_dir(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const BYTES: u64 = 64 << 20;

    /// `tail` keeps its whole input, because it never sees the end of a line.
    fn take_memory(group: &HostPrograms) -> std::process::Output {
        let mut command = Command::new("sh");
        command.args(["-c", "tail /dev/zero; code=$?; echo after; exit $code"]);
        group.admit(&mut command).unwrap();
        command.output().unwrap()
    }

    #[test]
    fn a_program_that_takes_more_than_its_group_has_ends() {
        let group = HostPrograms::with_cgroup(BYTES);
        let output = take_memory(&group);
        assert!(!output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"after\n", "what else is in the group goes on");
        match group.bound() {
            MemoryBound::Together { .. } => {
                assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");
                assert!(group.killed() > 0);
            }
            MemoryBound::Each { why } => {
                assert!(!why.is_empty());
                assert!(String::from_utf8_lossy(&output.stderr).contains("memory"), "{output:?}");
            }
        }
    }

    #[test]
    fn without_a_cgroup_each_program_has_the_limit() {
        let group = HostPrograms::each(BYTES);
        let output = take_memory(&group);
        assert!(output.status.code() == Some(1) && output.status.signal().is_none(), "{output:?}");
        assert_eq!(group.killed(), 0);
    }

    #[test]
    fn a_group_leaves_no_cgroup_and_removes_those_of_dead_owners() {
        let group = HostPrograms::with_cgroup(BYTES);
        let directories: Vec<PathBuf> =
            group.cgroup.iter().flat_map(|cgroup| cgroup.directories().to_vec()).collect();
        let Some(directory) = directories.first() else { return };
        // No process has such a number: it is above the kernel's largest.
        let abandoned = directory.with_file_name(format!("{PREFIX}{}-0", u32::MAX));
        fs::create_dir(&abandoned).unwrap();
        drop(HostPrograms::with_cgroup(BYTES));
        assert!(!abandoned.exists());
        assert!(directory.exists(), "its owner lives");
        drop(group);
        assert!(directories.iter().all(|directory| !directory.exists()));
    }
}
