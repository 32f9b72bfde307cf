//! Which mount lies in which: pure decisions over the spec's list of mounts.

use crate::spec::{Mount, MountKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Whether processes inside may change what is mounted.
pub(super) fn is_writable(kind: &MountKind) -> bool {
    match kind {
        MountKind::ReadWrite { .. }
        | MountKind::CopyOnWrite(_)
        | MountKind::ImageView { .. }
        | MountKind::Temporary { .. } => true,
        MountKind::ReadOnly { .. }
        | MountKind::ReadOnlyView(_)
        | MountKind::Image
        | MountKind::Socket { .. }
        | MountKind::File { .. }
        | MountKind::Directory { .. }
        | MountKind::Symlink { .. } => false,
    }
}

/// The mount that `target` lies in: the innermost of those placed before it. `None` is the root itself.
pub(super) fn covering<'a>(before: &'a [Mount], target: &Path) -> Option<&'a Mount> {
    let is_a_mount = |mount: &&Mount| {
        !matches!(
            mount.kind,
            MountKind::Directory { .. } | MountKind::Symlink { .. } | MountKind::File { .. }
        )
    };
    before
        .iter()
        .filter(is_a_mount)
        .filter(|mount| target != mount.target && target.starts_with(&mount.target))
        .max_by_key(|mount| mount.target.components().count())
}

/// Directories that must become mount points of their own before something read-only is placed at `target`: a mount
/// point cannot be renamed, but the directory that it is in can, and with it the read-only thing would be moved away
/// and replaced.
pub(super) fn pins(before: &[Mount], target: &Path, done: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let Some(cover) = covering(before, target).filter(|cover| is_writable(&cover.kind)) else {
        return Vec::new();
    };
    let mut pins: Vec<PathBuf> = target
        .ancestors()
        .skip(1)
        .take_while(|directory| *directory != cover.target)
        .filter(|directory| !done.contains(*directory))
        .map(Path::to_path_buf)
        .collect();
    pins.reverse();
    pins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(target: &str) -> Mount {
        let kind = MountKind::Temporary { size_bytes: 1, inodes: 1, mode: 0o700 };
        Mount { target: PathBuf::from(target), kind }
    }

    fn read_only(target: &str) -> Mount {
        Mount { target: PathBuf::from(target), kind: MountKind::ReadOnly { source: PathBuf::from("/x") } }
    }

    fn check_pins(before: &[Mount], target: &str, expected: &[&str]) {
        let found = pins(before, Path::new(target), &BTreeSet::new());
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(found, expected, "{target}");
    }

    #[test]
    fn directories_between_writable_and_read_only_mounts_are_pinned() {
        let before = [temporary("/w"), read_only("/w/ro")];
        check_pins(&before, "/w/a/b/file", &["/w/a", "/w/a/b"]);
        check_pins(&before, "/w/file", &[]);
        check_pins(&before, "/w/ro/a/file", &[]);
        check_pins(&before, "/other/a/file", &[]);
        check_pins(&before, "/wide/a/file", &[]);
    }

    #[test]
    fn a_directory_is_pinned_once() {
        let done = BTreeSet::from([PathBuf::from("/w/a")]);
        assert_eq!(pins(&[temporary("/w")], Path::new("/w/a/b/c"), &done), [PathBuf::from("/w/a/b")]);
    }

    #[test]
    fn the_innermost_mount_covers() {
        let before = [temporary("/w"), read_only("/w/a"), temporary("/w/a/b")];
        let covering_of = |target: &str| covering(&before, Path::new(target)).map(|m| m.target.clone());
        assert_eq!(covering_of("/w/a/b/c"), Some(PathBuf::from("/w/a/b")));
        assert_eq!(covering_of("/w/a/c"), Some(PathBuf::from("/w/a")));
        assert_eq!(covering_of("/w"), None);
    }
}
