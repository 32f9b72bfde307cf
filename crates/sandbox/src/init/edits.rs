//! Changes to a view before anything runs in it. The view's content is the repository's, so no symlink in it is followed.

use super::mount_point;
use crate::spec::Edit;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A directory deeper than this is no honest one.
const MAX_DEPTH: usize = 256;

pub(super) fn apply(view: &OwnedFd, edits: &[Edit]) -> io::Result<()> {
    for edit in edits {
        let (Edit::Remove { path } | Edit::Write { path, .. } | Edit::EmptyDirectory { path }) = edit;
        let done = apply_one(view, edit);
        done.map_err(|e| io::Error::new(e.kind(), format!("edit of {}: {e}", path.display())))?;
    }
    Ok(())
}

fn apply_one(view: &OwnedFd, edit: &Edit) -> io::Result<()> {
    match edit {
        Edit::Remove { path } => match mount_point::open_path(view, path.parent().unwrap_or(Path::new(""))) {
            Ok(parent) => remove(&parent, path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        },
        Edit::Write { path, contents, mode } => {
            let (parent, name) = mount_point::open_parent(view, path)?;
            remove(&parent, path)?;
            mount_point::write_new(parent, name, contents, *mode)
        }
        Edit::EmptyDirectory { path } => {
            let (parent, name) = mount_point::open_parent(view, path)?;
            remove(&parent, path)?;
            Ok(rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?)
        }
    }
}

fn remove(parent: &OwnedFd, path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Err(Errno::INVAL.into()) };
    let name = CString::new(name.as_encoded_bytes())?;
    remove_entry(parent, &name, 0)
}

fn remove_entry(parent: impl AsFd, name: &std::ffi::CStr, depth: usize) -> io::Result<()> {
    match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(e) => return Err(e.into()),
    }
    if depth > MAX_DEPTH {
        return Err(Errno::LOOP.into());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let entry_name = entry.file_name();
        if entry_name != c"." && entry_name != c".." {
            remove_entry(&directory, entry_name, depth + 1)?;
        }
    }
    Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}
