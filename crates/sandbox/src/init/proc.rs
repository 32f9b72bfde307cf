//! The sandbox's own `/proc`: it shows the sandbox's processes only; what describes the host is covered, what could
//! change the host is read-only.

use super::place::{self, ReadOnly, TargetKind};
use super::{root, sources};
use crate::describe::Layer;
use crate::step::{AtStep, Step, StepError};
use rustix::fs::{Mode, OFlags};
use rustix::mount::FsOpenFlags;
use std::collections::BTreeSet;
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

/// Whether the kernel itself was told to refuse user namespaces inside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NestedNamespaces {
    RefusedBySysctl,
    LeftToSeccomp,
    LeftOut,
}

pub(super) fn mount(root: &OwnedFd, without: &BTreeSet<Layer>) -> Result<NestedNamespaces, StepError> {
    let target =
        place::make_target(root, Path::new("/proc"), TargetKind::Directory).at(Step::Proc, "/proc")?;
    let proc = fresh().at(Step::Proc, "a fresh /proc")?;
    place::attach(&proc, &target).at(Step::Proc, "attaching /proc")?;
    // While /proc/sys can still be written, and this process still may.
    let nested = if without.contains(&Layer::NestedNamespaces) {
        NestedNamespaces::LeftOut
    } else {
        refuse_nested(&proc).at(Step::NestedNamespaces, "user.max_user_namespaces")?
    };
    if !without.contains(&Layer::Proc) {
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
    let null = place::open_path(old_root().at(Step::Proc, "/")?, "dev/null").at(Step::Proc, "/dev/null")?;
    for name in MASKED {
        cover(proc, name, &null).at(Step::Proc, format_args!("masking /proc/{name}"))?;
    }
    for name in READ_ONLY {
        freeze(proc, name).at(Step::Proc, format_args!("making /proc/{name} read-only"))?;
    }
    Ok(())
}

fn old_root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/", flags, Mode::empty())?)
}

fn cover(proc: &OwnedFd, name: &str, null: &OwnedFd) -> io::Result<()> {
    let Some(place) = open_if_there(proc, name)? else { return Ok(()) };
    let is_directory = rustix::fs::fstat(&place)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let cover = if is_directory { root::temporary(4096, 1, 0o555)? } else { sources::clone_mount(null)? };
    place::restrict(&cover, ReadOnly::Yes)?;
    place::attach(cover, place)
}

fn freeze(proc: &OwnedFd, name: &str) -> io::Result<()> {
    let Some(place) = open_if_there(proc, name)? else { return Ok(()) };
    let copy = sources::clone_mount(&place)?;
    place::restrict(&copy, ReadOnly::Yes)?;
    place::attach(copy, place)
}

fn open_if_there(proc: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    match place::open_path(proc, name) {
        Ok(place) => Ok(Some(place)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
