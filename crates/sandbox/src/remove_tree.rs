//! Removes a directory on the host that the sandbox could write in.

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Below this depth a directory is moved to the top instead of entered.
const MAX_DEPTH: usize = 64;

/// Removes a directory and all in it, following no link. The sandbox could write there, so it may be deeper than any
/// stack and closed to its owner: every directory gets mode 0700 first, and what is too deep is moved to the top and
/// removed from there. Call it only after all processes of the sandbox have ended.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut remover = Remover { top: &top, moved: 0 };
    loop {
        let names = names_in(&top)?;
        if names.is_empty() {
            return fs::remove_dir(path);
        }
        for name in names {
            remover.remove(&top, &name, 0)?;
        }
    }
}

struct Remover<'a> {
    top: &'a OwnedFd,
    moved: u64,
}

impl Remover<'_> {
    fn remove(&mut self, parent: &OwnedFd, name: &CStr, depth: usize) -> io::Result<()> {
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR) => {}
            Err(e) => return Err(e.into()),
        }
        // A directory that moves must be writable itself too, because its `..` changes.
        let directory = open_after_chmod(parent, name)?;
        if depth > MAX_DEPTH {
            self.moved += 1;
            return Ok(rustix::fs::renameat(parent, name, self.top, format!(".removing-{}", self.moved))?);
        }
        for inner in names_in(&directory)? {
            self.remove(&directory, &inner, depth + 1)?;
        }
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }
}

fn open_after_chmod(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    rustix::fs::chmodat(parent, name, Mode::from_raw_mode(0o700), AtFlags::empty())?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if name.as_c_str() != c"." && name.as_c_str() != c".." {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn deep_closed_and_linked_trees_are_removed() {
        let base = std::path::PathBuf::from(format!("/tmp/sandbox-tree-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let outside = base.join("outside");
        fs::write(&outside, "stays").unwrap();
        let victim = base.join("victim");
        fs::create_dir(&victim).unwrap();
        std::os::unix::fs::symlink(&outside, victim.join("link")).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here = rustix::fs::open(&victim, flags, Mode::empty()).unwrap();
        for _ in 0..300 {
            rustix::fs::mkdirat(&here, "d", Mode::from_raw_mode(0o700)).unwrap();
            rustix::fs::symlinkat("/", &here, "root").unwrap();
            here = rustix::fs::openat(&here, "d", flags, Mode::empty()).unwrap();
        }
        fs::set_permissions(victim.join("d/d"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_all(&victim).unwrap();
        assert!(!victim.exists());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "stays");
        remove_all(&base).unwrap();
        remove_all(&base).unwrap();
    }
}
