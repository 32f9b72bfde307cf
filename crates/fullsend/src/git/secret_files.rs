//! Files whose names say that they hold secrets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, walk_directory};

/// A tree with more entries is refused: files that were not checked must not be visible.
const MAX_ENTRIES: usize = 3_000_000;
const MAX_DEPTH: usize = 1_000;

/// `.env*`, `.netrc`, `.npmrc`, `.pypirc`, `.git-credentials`, `*.pem`, `id_*`; but not examples or public keys.
pub fn looks_secret(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let public: [&[u8]; 4] = [b".example", b".sample", b".template", b".pub"];
    if public.iter().any(|ending| name.ends_with(ending)) {
        return false;
    }
    let exact: [&[u8]; 4] = [b".netrc", b".npmrc", b".pypirc", b".git-credentials"];
    exact.contains(&name) || name.starts_with(b".env") || name.starts_with(b"id_") || name.ends_with(b".pem")
}

/// Everything below `root` that has a secret's name, relative to it. Links are not followed.
pub(super) fn named(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    // What the caller cannot read, the sandbox cannot read either.
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Skip };
    fs::read_dir(root)?;
    let walked = walk_directory(root, limits, &mut |entry: &TreeEntry<'_>| {
        if looks_secret(entry.name) {
            found.push(entry.path.to_path_buf());
        }
        Ok(if entry.path == Path::new(".git") { Descend::No } else { Descend::Yes })
    });
    walked.map_err(WalkError::into_io)?;
    Ok(found)
}

/// Those of the `named` paths that git does not track. A directory that is hidden as a whole is listed once, without
/// its contents.
pub(super) fn untracked(
    root: &Path,
    named: &[PathBuf],
    tracked: &BTreeSet<PathBuf>,
) -> io::Result<Vec<PathBuf>> {
    let mut named: Vec<&PathBuf> = named.iter().collect();
    named.sort();
    let mut found: Vec<PathBuf> = Vec::new();
    for path in named {
        let covered = found.last().is_some_and(|above| path.starts_with(above));
        // A file that is gone by now need not be hidden.
        let Ok(about) = fs::symlink_metadata(root.join(path)) else { continue };
        if !covered && !covers_tracked(path, about.is_dir(), tracked) {
            found.push(path.clone());
        }
    }
    add_hard_links(root, tracked, &mut found)?;
    found.sort();
    Ok(found)
}

/// A secret may have a second, harmless name: hard links to the same file are hidden too.
fn add_hard_links(root: &Path, tracked: &BTreeSet<PathBuf>, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut shared = BTreeSet::new();
    for path in found.iter() {
        let metadata = fs::symlink_metadata(root.join(path))?;
        if metadata.is_file() && metadata.nlink() > 1 {
            shared.insert((metadata.dev(), metadata.ino()));
        }
    }
    if shared.is_empty() {
        return Ok(());
    }
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH, unreadable: Unreadable::Skip };
    let walked = walk_directory(root, limits, &mut |entry: &TreeEntry<'_>| {
        if entry.kind == FileType::RegularFile {
            let status = entry.status()?;
            let is_same = shared.contains(&(status.st_dev, status.st_ino));
            if is_same && !found.iter().any(|path| path == entry.path) && !tracked.contains(entry.path) {
                found.push(entry.path.to_path_buf());
            }
        }
        Ok(Descend::Yes)
    });
    walked.map_err(WalkError::into_io)
}

/// A directory with a secret's name is hidden as a whole unless something in it is tracked.
fn covers_tracked(path: &Path, is_directory: bool, tracked: &BTreeSet<PathBuf>) -> bool {
    tracked.contains(path) || (is_directory && tracked.iter().any(|file| file.starts_with(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
        for name in [".env", ".env.local", ".envrc", ".netrc", ".npmrc", "key.pem", "id_rsa", "id_ed25519"] {
            assert!(looks_secret(OsStr::new(name)), "{name}");
        }
        for name in [
            "env",
            "src",
            ".env.example",
            "id_rsa.pub",
            "README.md",
            "pem",
            "identity",
            "a.pem.txt",
            ".npmrcx",
        ] {
            assert!(!looks_secret(OsStr::new(name)), "{name}");
        }
    }
}
