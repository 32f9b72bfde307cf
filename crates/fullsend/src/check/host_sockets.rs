//! Unix sockets below host directories that a policy makes readable. A process can connect to a socket on a read-only
//! mount, and the socket may belong to a container engine or a message bus of the host.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};

/// A larger tree is treated as one with sockets.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 64;

/// Programs and libraries: packages put no sockets there, and there are too many files to look at before every run.
const OF_PROGRAMS: &[&str] = &["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/nix/store"];

/// The sandbox has its own.
const MADE_INSIDE: &[&str] = &["/proc", "/dev", "/sys", "/etc", "/sandbox"];

/// The sockets at a path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSockets {
    None,
    /// The path itself is one.
    Itself,
    /// Sockets, relative to it, or a tree that is too large to search.
    Below(Vec<PathBuf>),
}

/// Looks for sockets at and below a real path.
pub fn at(path: &Path) -> HostSockets {
    use std::os::unix::fs::FileTypeExt;
    let Ok(about) = std::fs::symlink_metadata(path) else { return HostSockets::None };
    if about.file_type().is_socket() {
        return HostSockets::Itself;
    }
    let is_skipped = OF_PROGRAMS.iter().chain(MADE_INSIDE).any(|known| path.starts_with(known));
    if !about.is_dir() || is_skipped || path == Path::new("/tmp") {
        return HostSockets::None;
    }
    let mut found = Vec::new();
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Skip };
    let walked = walk_directory(path, limits, &mut |entry: &TreeEntry<'_>| {
        if entry.kind == FileType::Socket {
            found.push(entry.path.to_path_buf());
        }
        Ok::<_, Infallible>(Descend::Yes)
    });
    match walked {
        Ok(()) if found.is_empty() => HostSockets::None,
        Ok(())
        | Err(WalkError::TooManyEntries { .. } | WalkError::TooDeep { .. } | WalkError::Read { .. }) => {
            HostSockets::Below(found)
        }
        Err(WalkError::Visit(never)) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_at_and_below_a_path() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/file"), "").unwrap();
        assert_eq!(at(place.path()), HostSockets::None);
        let socket = place.path().join("a/b/s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(at(place.path()), HostSockets::Below(vec!["a/b/s".into()]));
        assert_eq!(at(&socket), HostSockets::Itself);
        assert_eq!(at(Path::new("/usr")), HostSockets::None);
    }
}
