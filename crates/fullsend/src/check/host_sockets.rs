//! Unix sockets below host directories that a policy makes readable. A process can connect to a socket on a read-only
//! mount, and the socket may belong to a container engine or a message bus of the host.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};

/// A larger tree is treated as one with sockets.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 64;

/// Programs and libraries: there are too many files to look at before every run. Sockets there are known from the kernel's
/// list of those that are bound.
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

/// Sockets at and below a real path that some process has bound, by the kernel's list for this network namespace.
pub fn bound_below(path: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = bound_paths(&list)
        .filter_map(|bound| bound.canonicalize().ok())
        .filter(|bound| bound.starts_with(path) && bound != path)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The last of eight columns is the path, if the socket has one in the file system.
fn bound_paths(list: &str) -> impl Iterator<Item = &Path> {
    list.lines().filter_map(|line| {
        let at = line.find(" /")?;
        Some(Path::new(&line[at + 1..]))
    })
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
        let real = place.path().canonicalize().unwrap();
        assert_eq!(bound_below(&real), [real.join("a/b/s")]);
        assert!(bound_below(&real.join("a/file")).is_empty());
    }

    #[test]
    fn the_kernels_list_is_read() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 26215 /run/a b.sock\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 26216\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 26217 @/abstract\n";
        assert_eq!(bound_paths(list).collect::<Vec<_>>(), [Path::new("/run/a b.sock")]);
    }
}
