//! What a sandbox uses, measured from outside: the memory of its processes, the bytes of its views.

use crate::process_tree;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::process::Pid;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

const PAGE_BYTES: u64 = 4096;
/// More than any sandbox has. Another limit stops a fork bomb.
const MAX_PROCESSES: usize = 100_000;
const MAX_DEPTH: usize = 256;

/// The memory that the processes under `pid` have for themselves, quickly: what forks share is counted twice.
pub(super) fn memory_at_most(pid: Pid) -> u64 {
    process_tree::processes_under(pid, MAX_PROCESSES).into_iter().map(private_bytes).sum()
}

/// The same, with shared pages divided among those that share them. Slower.
pub(super) fn memory_exactly(pid: Pid) -> u64 {
    process_tree::processes_under(pid, MAX_PROCESSES).into_iter().map(proportional_bytes).sum()
}

fn private_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>().unwrap_or(0));
    let resident = pages.next().unwrap_or(0);
    let shared = pages.next().unwrap_or(0);
    resident.saturating_sub(shared) * PAGE_BYTES
}

fn proportional_bytes(pid: i32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return private_bytes(pid) };
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    field("Pss_Anon:").unwrap_or(0) * 1024
}

/// The free bytes of the file system that `directory` is on.
pub(super) fn free(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |about| about.f_bfree.saturating_mul(about.f_frsize))
}

/// The bytes on disk below `directory`. It walks by descriptor: what is measured can be changed by the sandbox meanwhile.
pub(super) fn disk(directory: &Path) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = rustix::fs::open(directory, flags, Mode::empty())?;
    Ok(disk_below(&open, 0))
}

fn disk_below(directory: &OwnedFd, depth: usize) -> u64 {
    let Ok(entries) = Dir::read_from(directory) else { return 0 };
    let mut sum = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(status) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        sum += u64::try_from(status.st_blocks).unwrap_or(0) * 512;
        if status.st_mode & libc::S_IFMT == libc::S_IFDIR && depth < MAX_DEPTH {
            sum += disk_inside(directory, name, status.st_mode, depth + 1);
        }
    }
    sum
}

/// A directory without permissions must not hide its contents: it gets permissions while it is read. To `stat` a file,
/// its directory must be searchable, not only readable.
fn disk_inside(parent: &OwnedFd, name: &std::ffi::CStr, mode: u32, depth: usize) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let change = |mode: u32| {
        rustix::fs::chmodat(parent, name, Mode::from_raw_mode(mode & 0o777), AtFlags::empty()).is_ok()
    };
    let is_closed = mode & 0o500 != 0o500 && !rustix::process::geteuid().is_root();
    let opened_up = is_closed && change(mode | 0o500);
    let inner = rustix::fs::openat(parent, name, flags, Mode::empty());
    let sum = inner.map_or(0, |inner| disk_below(&inner, depth));
    if opened_up {
        change(mode);
    }
    sum
}
