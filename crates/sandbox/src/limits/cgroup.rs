//! A cgroup of its own for a sandbox, in version two if it is delegated to us, else in version one, else none. It is made
//! before `__init` unshares anything, holds everything that the sandbox ever starts, and goes when all of that is gone.

use super::LimitExceeded;
use super::hierarchy::{self, Hierarchy, Version};
use crate::describe::Limit;
use crate::spec::SandboxLimits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One limit that a controller enforces.
struct EnforcedLimit {
    limit: Limit,
    directory: PathBuf,
    version: Version,
}

impl EnforcedLimit {
    /// How often the kernel refused or killed something.
    fn count(&self) -> u64 {
        match (self.limit, self.version) {
            (Limit::Memory, Version::Two) => number(&self.directory.join("memory.events"), "oom_kill"),
            (Limit::Memory, Version::One) => number(&self.directory.join("memory.oom_control"), "oom_kill"),
            (Limit::Processes, _) => number(&self.directory.join("pids.events"), "max"),
            _ => 0,
        }
    }
}

pub(crate) struct Cgroup {
    kept: Vec<EnforcedLimit>,
    directories: Vec<PathBuf>,
    why_not: String,
}

impl Cgroup {
    /// Creates the available controllers for the requested limits; each is noted on disk before. Undone by `remove`.
    pub(crate) fn create(
        name: &str,
        limits: &SandboxLimits,
        mut note: impl FnMut(&Path) -> io::Result<()>,
    ) -> Self {
        let mut cgroup =
            Self { kept: Vec::new(), directories: Vec::new(), why_not: "no cgroup is mounted".to_owned() };
        let wanted = wanted(limits);
        // Processes also inherit a resource limit on their number, so this limit alone needs no cgroup.
        if wanted.iter().all(|want| want.limit == Limit::Processes) {
            return cgroup;
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut hierarchies = hierarchy::parse(&mounts, &own);
        hierarchies.sort_by_key(|hierarchy| hierarchy.version == Version::One);
        for hierarchy in hierarchies {
            let missing: Vec<_> =
                wanted.iter().filter(|want| cgroup.enforced_by(want.limit).is_none()).copied().collect();
            cgroup.take(&hierarchy, name, &missing, &mut note);
        }
        cgroup
    }

    fn take(
        &mut self,
        hierarchy: &Hierarchy,
        name: &str,
        wanted: &[RequestedLimit],
        note: &mut impl FnMut(&Path) -> io::Result<()>,
    ) {
        let offered: Vec<RequestedLimit> = match hierarchy.version {
            Version::Two => wanted.to_vec(),
            // A separate hierarchy for their number would be one more to create and remove.
            Version::One => {
                let has =
                    |want: &&RequestedLimit| hierarchy.controllers.iter().any(|name| name == want.controller);
                let wanted = wanted.iter().filter(|want| want.limit != Limit::Processes);
                wanted.filter(has).copied().collect()
            }
        };
        if offered.is_empty() {
            return;
        }
        for parent in parents(hierarchy) {
            if hierarchy.version == Version::Two {
                delegate(&parent, &offered);
            }
            let directory = parent.join(name);
            match note(&directory).and_then(|()| fs::create_dir(&directory)) {
                Ok(()) => self.fill(hierarchy.version, &directory, &offered),
                Err(e) => {
                    self.why_not = format!("no cgroup is delegated to this user ({}: {e})", parent.display());
                }
            }
            if self.directories.contains(&directory) {
                return;
            }
        }
    }

    /// Keeps the directory if at least one controller works in it.
    fn fill(&mut self, version: Version, directory: &Path, offered: &[RequestedLimit]) {
        let before = self.kept.len();
        for want in offered {
            match want.write(version, directory) {
                Ok(()) => {
                    self.kept.push(EnforcedLimit {
                        limit: want.limit,
                        directory: directory.to_path_buf(),
                        version,
                    });
                }
                Err(e) => {
                    self.why_not =
                        format!("no {} controller in {}: {e}", want.controller, directory.display());
                }
            }
        }
        if self.kept.len() == before {
            // It is empty and new; if it cannot be removed now, a later sweep removes it.
            drop(fs::remove_dir(directory));
        } else {
            self.directories.push(directory.to_path_buf());
        }
    }

    /// The files that a process writes to in order to enter the cgroup with everything that it will start. A single
    /// thread that moves itself costs nothing; moving another process makes the kernel wait for every processor.
    pub(crate) fn admissions(&self) -> Vec<PathBuf> {
        let file = |kept: &EnforcedLimit| match kept.version {
            Version::One => kept.directory.join("tasks"),
            Version::Two => kept.directory.join("cgroup.procs"),
        };
        let mut files: Vec<PathBuf> = self.kept.iter().map(file).collect();
        files.dedup();
        files
    }

    /// What enforces a limit here, if anything does.
    pub(crate) fn enforced_by(&self, limit: Limit) -> Option<String> {
        let kept = self.kept.iter().find(|kept| kept.limit == limit)?;
        Some(match kept.version {
            Version::One => "cgroup v1".to_owned(),
            Version::Two => "cgroup v2".to_owned(),
        })
    }

    /// Each limit that is kept, and by what.
    pub(crate) fn kept(&self) -> Vec<(Limit, String)> {
        self.kept.iter().filter_map(|kept| Some((kept.limit, self.enforced_by(kept.limit)?))).collect()
    }

    pub(crate) fn why_not(&self) -> String {
        self.why_not.clone()
    }

    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// How many processes the kernel killed for their memory.
    pub(crate) fn memory_kills(&self) -> u64 {
        self.kept.iter().filter(|kept| kept.limit == Limit::Memory).map(EnforcedLimit::count).sum()
    }

    /// What the kernel counted as refused or killed.
    pub(crate) fn exceeded(&self) -> Vec<LimitExceeded> {
        let counted = self.kept.iter().map(|kept| (kept.limit, kept.count())).filter(|(_, count)| *count > 0);
        counted
            .map(|(limit, count)| LimitExceeded { limit, detail: format!("{count} times, by the kernel") })
            .collect()
    }

    /// Only after everything in it has ended.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.directories.iter().try_for_each(|directory| remove_cgroup(directory))
    }
}

/// A cgroup is empty a moment after its last process was reaped.
pub(crate) fn remove_cgroup(directory: &Path) -> io::Result<()> {
    for _ in 0..100 {
        match fs::remove_dir(directory) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
    fs::remove_dir(directory)
}

#[derive(Clone, Copy)]
struct RequestedLimit {
    limit: Limit,
    controller: &'static str,
    value: u64,
}

fn wanted(limits: &SandboxLimits) -> Vec<RequestedLimit> {
    let memory =
        limits.memory_bytes.map(|value| RequestedLimit { limit: Limit::Memory, controller: "memory", value });
    let pids =
        limits.processes.map(|value| RequestedLimit { limit: Limit::Processes, controller: "pids", value });
    let weight =
        |value| RequestedLimit { limit: Limit::CpuWeight, controller: "cpu", value: u64::from(value) };
    [memory, pids, limits.cpu_weight.map(weight)].into_iter().flatten().collect()
}

impl RequestedLimit {
    fn write(self, version: Version, directory: &Path) -> io::Result<()> {
        let put = |name: &str, value: u64| fs::write(directory.join(name), value.to_string());
        match (self.limit, version) {
            (Limit::Memory, Version::Two) => {
                put("memory.max", self.value)?;
                // Without swap accounting this file does not exist, and the limit does not need it.
                drop(put("memory.swap.max", 0));
                Ok(())
            }
            (Limit::Memory, Version::One) => {
                put("memory.limit_in_bytes", self.value)?;
                drop(put("memory.memsw.limit_in_bytes", self.value));
                Ok(())
            }
            (Limit::Processes, _) => put("pids.max", self.value),
            (Limit::CpuWeight, Version::Two) => put("cpu.weight", self.value),
            (Limit::CpuWeight, Version::One) => put("cpu.shares", (self.value * 1024 / 100).max(2)),
            (_, _) => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }
}

/// Beside our own cgroup where that is allowed, because version two puts no limits below a group with processes in it.
fn parents(hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let above = hierarchy.own.parent().filter(|above| above.starts_with(&hierarchy.mount));
    match hierarchy.version {
        Version::One => vec![hierarchy.own.clone()],
        Version::Two => above.map(Path::to_path_buf).into_iter().chain([hierarchy.own.clone()]).collect(),
    }
}

fn delegate(parent: &Path, wanted: &[RequestedLimit]) {
    for want in wanted {
        // If it is not delegated to us, the file for the limit is missing, and `fill` reports that.
        drop(fs::write(parent.join("cgroup.subtree_control"), format!("+{}", want.controller)));
    }
}

fn number(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or(0)
}
