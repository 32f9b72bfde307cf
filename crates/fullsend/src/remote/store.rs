//! The cache of remote resources: bytes by their digest. Whatever is read from it is hashed again, so a file that was
//! changed there counts as missing.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::event::log::sha256;

const BLOBS: &str = "sha256";
const PACKS: &str = "packs";
const OPEN: &str = "open";

#[derive(Debug)]
pub struct RemoteStore {
    directory: PathBuf,
}

/// A directory of one command, with the files that it reads. Removed when dropped, or by a later command.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    /// Held while the directory is in use.
    _lock: File,
}

impl PrivateDirectory {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // The next command removes what is left.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Where remote resources are kept.
pub fn store_directory(variables: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: &String| path.starts_with('/');
    let home = || variables("HOME").filter(absolute).map(|home| PathBuf::from(home).join(".cache"));
    let cache = variables("XDG_CACHE_HOME").filter(absolute).map(PathBuf::from);
    cache.or_else(home).map(|cache| cache.join("fullsend/remote"))
}

impl RemoteStore {
    pub fn open(directory: &Path) -> io::Result<Self> {
        for below in [BLOBS, PACKS, OPEN] {
            DirBuilder::new().recursive(true).mode(0o700).create(directory.join(below))?;
        }
        let about = fs::metadata(directory)?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
            return Err(io::Error::other("others can write to it"));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// The bytes with this digest, if they are here and still have it.
    pub fn get(&self, digest: &str, most: usize) -> Option<Vec<u8>> {
        let file = File::open(self.directory.join(BLOBS).join(digest)).ok()?;
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
        (sha256(&bytes) == digest).then_some(bytes)
    }

    pub fn put(&self, bytes: &[u8]) -> io::Result<()> {
        replace(&self.directory.join(BLOBS).join(sha256(bytes)), bytes)
    }

    /// The pack of a commit, if it is here. The caller must check that the commit is in it.
    pub fn pack(&self, repository: &str, commit: &str, most: usize) -> Option<Vec<u8>> {
        let file = File::open(self.pack_path(repository, commit)).ok()?;
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() <= most).then_some(bytes)
    }

    pub fn put_pack(&self, repository: &str, commit: &str, pack: &[u8]) -> io::Result<()> {
        replace(&self.pack_path(repository, commit), pack)
    }

    fn pack_path(&self, repository: &str, commit: &str) -> PathBuf {
        let name = sha256(format!("{repository}@{commit}").as_bytes());
        self.directory.join(PACKS).join(name)
    }

    /// A new directory of this command. Those of commands that were killed go first.
    pub fn private_directory(&self) -> io::Result<PrivateDirectory> {
        let open = self.directory.join(OPEN);
        for entry in fs::read_dir(&open)?.flatten() {
            let is_dead =
                |file: &File| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if File::open(entry.path()).is_ok_and(|file| is_dead(&file)) {
                drop(fs::remove_dir_all(entry.path()));
            }
        }
        // It is moved there when it is locked: until then no other command sees it.
        let made = tempfile::Builder::new().prefix("new-").tempdir_in(&self.directory)?.keep();
        let lock = File::open(&made)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = open.join(made.file_name().unwrap_or_default());
        fs::rename(&made, &path)?;
        Ok(PrivateDirectory { path, _lock: lock })
    }
}

/// A file has its name only when it is whole.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_in_the_cache_counts_as_missing() {
        let place = tempfile::tempdir().unwrap();
        let store = RemoteStore::open(place.path()).unwrap();
        store.put(b"text").unwrap();
        let digest = sha256(b"text");
        assert_eq!(store.get(&digest, 10), Some(b"text".to_vec()));
        assert_eq!(store.get(&digest, 2), None, "more than may be read");
        fs::write(place.path().join(BLOBS).join(&digest), "other").unwrap();
        assert_eq!(store.get(&digest, 10), None);
    }

    #[test]
    fn directories_of_dead_commands_are_removed_and_others_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let store = RemoteStore::open(place.path()).unwrap();
        let mine = store.private_directory().unwrap();
        let dead = place.path().join(OPEN).join("new-dead");
        fs::create_dir(&dead).unwrap();
        let other = store.private_directory().unwrap();
        assert!(mine.path().is_dir() && other.path().is_dir() && !dead.exists());
        let path = mine.path().to_owned();
        drop(mine);
        assert!(!path.exists());
    }
}
