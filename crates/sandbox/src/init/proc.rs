//! The sandbox's own `/proc`: it shows only the sandbox's processes. Files that describe the host are covered; files
//! that could change the host are read-only.

use super::mount_point::{self, ReadOnly, TargetKind};
use super::root;
use crate::defences::Defences;
use crate::describe::IsolationMechanism;
use crate::step::{StartStep, StepContext, StepError};
use rustix::fs::{Mode, OFlags};
use rustix::mount::FsOpenFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Covered by `/dev/null`, or by an empty directory.
const MASKED: [&str; 12] = [
    "cmdline",
    "config.gz",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "sched_debug",
    "sysrq-trigger",
    "timer_list",
    "acpi",
    "scsi",
];
const READ_ONLY: [&str; 4] = ["bus", "fs", "irq", "sys"];

/// Whether the kernel itself refuses user namespaces inside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NestedNamespaces {
    RefusedBySysctl,
    LeftToSeccomp,
    LeftOut,
}

pub(super) fn mount(root: &OwnedFd, defences: &Defences) -> Result<NestedNamespaces, StepError> {
    let target = mount_point::make_target(root, Path::new("/proc"), TargetKind::Directory)
        .at(StartStep::Proc, "/proc")?;
    let proc = fresh().at(StartStep::Proc, "a fresh /proc")?;
    mount_point::attach(&proc, &target).at(StartStep::Proc, "attaching /proc")?;
    // While /proc/sys can still be written, and this process still may.
    let nested = if !defences.has(IsolationMechanism::NestedNamespaces) {
        NestedNamespaces::LeftOut
    } else {
        refuse_nested(&proc).at(StartStep::NestedNamespaces, "user.max_user_namespaces")?
    };
    if defences.has(IsolationMechanism::Proc) {
        mask(&proc)?;
    }
    Ok(nested)
}

fn refuse_nested(proc: &OwnedFd) -> io::Result<NestedNamespaces> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(proc, "sys/user/max_user_namespaces", flags, Mode::empty()) {
        Ok(file) => file,
        // A kernel without the sysctl; seccomp refuses the calls all the same.
        Err(rustix::io::Errno::NOENT) => return Ok(NestedNamespaces::LeftToSeccomp),
        Err(e) => return Err(e.into()),
    };
    rustix::io::write(&file, b"0")?;
    Ok(NestedNamespaces::RefusedBySysctl)
}

fn fresh() -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    root::mounted(&context)
}

fn mask(proc: &OwnedFd) -> Result<(), StepError> {
    let null = mount_point::open_path(old_root().at(StartStep::Proc, "/")?, "dev/null")
        .at(StartStep::Proc, "/dev/null")?;
    for name in MASKED {
        cover(proc, name, &null).at(StartStep::Proc, format_args!("masking /proc/{name}"))?;
    }
    for name in READ_ONLY {
        freeze(proc, name).at(StartStep::Proc, format_args!("making /proc/{name} read-only"))?;
    }
    Ok(())
}

fn old_root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/", flags, Mode::empty())?)
}

fn cover(proc: &OwnedFd, name: &str, null: &OwnedFd) -> io::Result<()> {
    let Some(entry) = open_if_there(proc, name)? else { return Ok(()) };
    let is_directory = rustix::fs::fstat(&entry)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let cover = if is_directory { root::temporary(4096, 1, 0o555)? } else { mount_point::clone_mount(null)? };
    mount_point::restrict(&cover, ReadOnly::Yes)?;
    mount_point::attach(cover, entry)
}

fn freeze(proc: &OwnedFd, name: &str) -> io::Result<()> {
    let Some(entry) = open_if_there(proc, name)? else { return Ok(()) };
    let copy = mount_point::clone_mount(&entry)?;
    mount_point::restrict(&copy, ReadOnly::Yes)?;
    mount_point::attach(copy, entry)
}

fn open_if_there(proc: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    match mount_point::open_path(proc, name) {
        Ok(entry) => Ok(Some(entry)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
