//! The cache of unpacked layers, by the digest of what they unpack to, so that images share them. A layer appears under
//! its name only when it is whole. One process unpacks at a time; layers in use are held and never removed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;

const PARTIAL: &str = "partial";
/// What a cache keeps beside what is in use.
const MAX_KEPT: usize = 200;
/// How long another process may take to unpack.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Cache {
    directory: PathBuf,
}

/// The right to change the cache, until dropped.
pub struct Exclusive<'a> {
    cache: &'a Cache,
    _lock: File,
}

impl Cache {
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

    /// The directory `name` if it is whole, held against removal.
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
        let lock = self.hold("cache")?;
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("another process has been unpacking into it for ten minutes"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Exclusive { cache: self, _lock: lock })
    }
}

impl Exclusive<'_> {
    /// An empty directory for something that is not whole yet. What a dead process left there goes.
    pub fn start(&self) -> io::Result<PathBuf> {
        let path = self.cache.directory.join(PARTIAL);
        self.discard()?;
        DirBuilder::new().mode(0o755).create(&path)?;
        Ok(path)
    }

    pub fn discard(&self) -> io::Result<()> {
        match fs::remove_dir_all(self.cache.directory.join(PARTIAL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Publishes what was unpacked. It is on disk before it has its name: a power cut must not leave half a layer.
    pub fn finish(&self, name: &str) -> io::Result<()> {
        let partial = self.cache.directory.join(PARTIAL);
        rustix::fs::syncfs(File::open(&partial)?)?;
        fs::rename(&partial, self.cache.directory.join(name))
    }

    /// Removes layers that no process holds and none used for this long. Returns the bytes of their files.
    pub fn collect(&self, unused: Duration) -> io::Result<u64> {
        let mut freed = 0;
        for entry in fs::read_dir(&self.cache.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.file_type()?.is_dir() || name == PARTIAL {
                continue;
            }
            let hold = self.cache.hold(&name)?;
            let age = hold.metadata()?.modified()?.elapsed().unwrap_or_default();
            let is_free = rustix::fs::flock(&hold, FlockOperation::NonBlockingLockExclusive).is_ok();
            if age >= unused && is_free {
                freed += bytes_below(&entry.path())?;
                fs::remove_dir_all(entry.path())?;
                fs::remove_file(self.cache.directory.join(format!("{name}.lock")))?;
            }
        }
        Ok(freed)
    }

    /// Removes the least recently used layers that no process holds.
    pub fn prune(&self) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.cache.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() && name != PARTIAL {
                let used = self.cache.hold(&name)?.metadata()?.modified()?;
                kept.push((used, name));
            }
        }
        kept.sort();
        let surplus = kept.len().saturating_sub(MAX_KEPT);
        for (_, name) in kept.into_iter().take(surplus) {
            let hold = self.cache.hold(&name)?;
            if rustix::fs::flock(&hold, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_dir_all(self.cache.directory.join(&name))?;
                fs::remove_file(self.cache.directory.join(format!("{name}.lock")))?;
            }
        }
        Ok(())
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
