//! A cache of directories: layers of images, and checkouts. A directory gets its name only when it is complete, and
//! loses it in one step. One process writes at a time; directories in use are held and never removed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;

/// The file that a writer locks. Its time is that of the last writer.
pub const LOCK: &str = "cache.lock";
const PARTIAL: &str = "partial";
/// The directory for entries that are being removed.
const REMOVED: &str = "removed";
/// How long another process may take to write.
const WRITER_TIMEOUT: Duration = Duration::from_secs(600);

pub struct DirectoryCache {
    directory: PathBuf,
}

/// The right to change the cache, until dropped.
pub struct Exclusive<'a> {
    cache: &'a DirectoryCache,
    _lock: File,
}

impl DirectoryCache {
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let about = fs::metadata(directory)?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
            return Err(io::Error::other(
                "others can write to it: set XDG_CACHE_HOME to a directory of your own",
            ));
        }
        // The sandbox takes real paths only.
        Ok(Self { directory: directory.canonicalize()? })
    }

    /// The directory `name` if it is complete, locked against removal.
    pub fn get(&self, name: &str) -> io::Result<Option<(PathBuf, File)>> {
        let hold = self.hold(name)?;
        match rustix::fs::flock(&hold, FlockOperation::NonBlockingLockShared) {
            // It is being removed right now.
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        hold.set_modified(SystemTime::now())?;
        let path = self.directory.join(name);
        Ok(path.is_dir().then_some((path, hold)))
    }

    fn hold(&self, name: &str) -> io::Result<File> {
        let path = self.directory.join(format!("{name}.lock"));
        File::options().create(true).truncate(false).write(true).open(path)
    }

    pub fn exclusive(&self) -> io::Result<Exclusive<'_>> {
        let lock =
            File::options().create(true).truncate(false).write(true).open(self.directory.join(LOCK))?;
        let deadline = Instant::now() + WRITER_TIMEOUT;
        while let Err(error) = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("another process has been writing to it for ten minutes"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        lock.set_modified(SystemTime::now())?;
        Ok(Exclusive { cache: self, _lock: lock })
    }
}

impl Exclusive<'_> {
    /// An empty directory for an entry that is not complete yet. Leftovers of a dead process there are removed.
    pub fn start(&self) -> io::Result<PathBuf> {
        let path = self.cache.directory.join(PARTIAL);
        self.discard()?;
        DirBuilder::new().mode(0o755).create(&path)?;
        Ok(path)
    }

    pub fn discard(&self) -> io::Result<()> {
        remove_if_there(&self.cache.directory.join(PARTIAL))
    }

    /// Gives a new entry its name, after it was flushed to disk: a power cut must not leave an incomplete entry.
    pub fn finish(&self, name: &str) -> io::Result<()> {
        let partial = self.cache.directory.join(PARTIAL);
        rustix::fs::syncfs(File::open(&partial)?)?;
        fs::rename(&partial, self.cache.directory.join(name))
    }

    /// Removes directories that no process holds and none used for this long. Returns the bytes of their files.
    pub fn collect(&self, unused: Duration) -> io::Result<u64> {
        let mut freed = 0;
        for entry in fs::read_dir(&self.cache.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_entry(&entry)? {
                continue;
            }
            let hold = self.cache.hold(&name)?;
            let age = hold.metadata()?.modified()?.elapsed().unwrap_or_default();
            let is_free = rustix::fs::flock(&hold, FlockOperation::NonBlockingLockExclusive).is_ok();
            if age >= unused && is_free {
                freed += bytes_below(&entry.path())?;
                self.remove(&name)?;
            }
        }
        Ok(freed)
    }

    /// Removes the least recently used directories that no process holds, so that `most` are left. Returns their names.
    pub fn prune(&self, most: usize) -> io::Result<Vec<String>> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.cache.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_entry(&entry)? {
                let used = self.cache.hold(&name)?.metadata()?.modified()?;
                kept.push((used, name));
            }
        }
        kept.sort();
        let surplus = kept.len().saturating_sub(most);
        let mut removed = Vec::new();
        for (_, name) in kept.into_iter().take(surplus) {
            let hold = self.cache.hold(&name)?;
            if rustix::fs::flock(&hold, FlockOperation::NonBlockingLockExclusive).is_ok() {
                self.remove(&name)?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Takes the name away first, so that a killed process leaves no incomplete directory under the name.
    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.cache.directory.join(REMOVED);
        remove_if_there(&removed)?;
        fs::rename(self.cache.directory.join(name), &removed)?;
        fs::remove_file(self.cache.directory.join(format!("{name}.lock")))?;
        fs::remove_dir_all(removed)
    }
}

/// Whether this is a directory of the cache, not one that is being written or removed.
fn is_entry(entry: &fs::DirEntry) -> io::Result<bool> {
    let name = entry.file_name();
    Ok(entry.file_type()?.is_dir() && name != PARTIAL && name != REMOVED)
}

fn remove_if_there(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn bytes_below(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let about = fs::symlink_metadata(entry.path())?;
        bytes += if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}
