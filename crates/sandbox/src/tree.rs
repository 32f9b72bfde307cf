//! Trees on the host: the processes under a pid, and the removal of a directory that the sandbox could write in.

use rustix::process::Pid;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// More than this many processes are not named in a message.
const MAX_NAMED: usize = 64;

/// `pid` and its descendants, as far as they can still be seen.
pub(crate) fn processes_under(pid: Pid) -> Vec<i32> {
    let mut found = vec![pid.as_raw_nonzero().get()];
    let mut next = 0;
    while let (Some(parent), true) = (found.get(next).copied(), found.len() < MAX_NAMED) {
        next += 1;
        let children =
            fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
    }
    found
}

/// Removes a directory tree without following links. Directories that the sandbox left without permissions (overlayfs
/// itself makes one) are opened up first.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Nothing of the sandbox runs any more when this walks, so that no link can be raced in.
fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
