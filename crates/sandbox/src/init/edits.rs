//! Changes to a view before anything runs in it. The view's content is the repository's, so no symlink in it is followed.

use super::mount_point;
use crate::beneath::open_beneath;
use crate::spec::Edit;
use crate::tree_walk::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_tree};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// No real repository is deeper.
const MAX_DEPTH: usize = 256;
const MAX_ENTRIES: usize = 3_000_000;

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
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(e) => return Err(e.into()),
    }
    let directory = open_beneath(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut directories = Vec::new();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Fail };
    let walked = walk_tree(&directory, limits, &mut |entry: &TreeEntry<'_>| {
        match entry.kind {
            FileType::Directory => directories.push(entry.path.to_path_buf()),
            _ => rustix::fs::unlinkat(entry.parent, entry.name, AtFlags::empty())?,
        }
        Ok(Descend::Yes)
    });
    walked.map_err(WalkError::into_io)?;
    // The walk shows a directory before what is in it, so in reverse order each directory is empty.
    for inner in directories.iter().rev() {
        rustix::fs::unlinkat(&directory, inner, AtFlags::REMOVEDIR)?;
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}
