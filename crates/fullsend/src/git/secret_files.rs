//! Files whose names say that they hold secrets.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A tree with more entries is refused: what was not looked at cannot be shown.
const MAX_ENTRIES: usize = 3_000_000;

/// `.env*`, `.netrc`, `.npmrc`, `.pypirc`, `.git-credentials`, `*.pem`, `id_*`; but not what says that it is an example
/// or the public half of a key.
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
    let mut open = vec![PathBuf::new()];
    let mut entries = 0;
    while let Some(directory) = open.pop() {
        let listing = match fs::read_dir(root.join(&directory)) {
            Ok(listing) => listing,
            // What the caller cannot read, the sandbox cannot read either.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(e) => return Err(e),
        };
        for entry in listing {
            let entry = entry?;
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} files")));
            }
            let path = directory.join(entry.file_name());
            if looks_secret(&entry.file_name()) {
                found.push(path.clone());
            }
            if entry.file_type()?.is_dir() && path != Path::new(".git") {
                open.push(path);
            }
        }
    }
    Ok(found)
}

/// Those of the `named` paths that git does not track. Nothing below a directory that goes as a whole is named again.
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
        // What is gone since needs no cover.
        let Ok(about) = fs::symlink_metadata(root.join(path)) else { continue };
        if !covered && !covers_tracked(path, about.is_dir(), tracked) {
            found.push(path.clone());
        }
    }
    add_hard_links(root, tracked, &mut found)?;
    found.sort();
    Ok(found)
}

/// A secret may have a second, innocent name: other names of the same file go too.
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
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory)).into_iter().flatten() {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
                continue;
            }
            let metadata = entry.metadata()?;
            let same = shared.contains(&(metadata.dev(), metadata.ino()));
            if same && !found.contains(&path) && !tracked.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(())
}

/// A directory with a secret's name goes as a whole unless something in it is tracked.
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
