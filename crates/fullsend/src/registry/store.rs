//! The cache of pulled images: blobs by their digest, shared by all images, and for each name an OCI layout that refers
//! to them. A blob gets its name only when it is complete; partial blobs are kept beside it, and the next download
//! continues them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::documents::Blob;
use crate::event::clock::Moment;
use crate::harness::image::ImageName;
use crate::image::BlobDigest;

const BLOBS: &str = "blobs/sha256";
const NAMES: &str = "names";
const PARTIAL: &str = "partial";
const ABOUT: &str = "image.json";
const VERSION: u32 = 1;
/// How long another process may take to download one blob before this one gives up.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// What the cache knows of one image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredImage {
    v: u32,
    pub name: String,
    /// The digest of the index or manifest that the registry has under this name.
    pub sha256: String,
    /// The manifest for this machine.
    pub manifest_sha256: String,
    pub blobs: Vec<StoredBlob>,
    pub pulled: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredBlob {
    pub sha256: String,
    pub bytes: u64,
}

impl StoredImage {
    pub fn bytes(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.bytes).sum()
    }
}

pub struct ImageStore {
    directory: PathBuf,
}

/// The right to use the cache, until dropped: many may pull, one may remove.
pub struct StoreLock(#[expect(dead_code, reason = "the file is the lock")] File);

impl ImageStore {
    pub fn open(directory: &Path) -> io::Result<Self> {
        for below in [BLOBS, NAMES, PARTIAL] {
            DirBuilder::new().recursive(true).mode(0o700).create(directory.join(below))?;
        }
        let about = fs::metadata(directory)?;
        if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
            return Err(io::Error::other(
                "others can write to it: set XDG_CACHE_HOME to a directory of your own",
            ));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// The same without creating anything: a missing cache has no images.
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    pub fn share(&self) -> io::Result<StoreLock> {
        self.lock(FlockOperation::LockShared)
    }

    /// Fails while someone pulls.
    pub fn exclusive(&self) -> io::Result<StoreLock> {
        self.lock(FlockOperation::NonBlockingLockExclusive).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::other("another process pulls an image right now: try again later")
            }
            _ => error,
        })
    }

    fn lock(&self, how: FlockOperation) -> io::Result<StoreLock> {
        let file =
            File::options().create(true).truncate(false).write(true).open(self.directory.join("lock"))?;
        rustix::fs::flock(&file, how)?;
        Ok(StoreLock(file))
    }

    fn blob(&self, sha256: &str) -> PathBuf {
        self.directory.join(BLOBS).join(sha256)
    }

    fn has(&self, blob: &StoredBlob) -> bool {
        fs::metadata(self.blob(&blob.sha256)).is_ok_and(|about| about.is_file() && about.len() == blob.bytes)
    }

    /// The directory of a name. `+` is in no name.
    fn directory_of(&self, name: &str) -> PathBuf {
        self.directory.join(NAMES).join(name.replace('/', "+"))
    }

    /// The layout of an image that is here with all its blobs.
    pub fn find(&self, name: &ImageName) -> Option<(StoredImage, PathBuf)> {
        let directory = self.directory_of(&name.to_string());
        let image = read_stored_image(&directory)?;
        image.blobs.iter().all(|blob| self.has(blob)).then_some((image, directory))
    }

    pub fn list(&self) -> io::Result<Vec<StoredImage>> {
        let mut images = Vec::new();
        for entry in fs::read_dir(self.directory.join(NAMES))? {
            images.extend(read_stored_image(&entry?.path()));
        }
        images.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(images)
    }

    /// Names an image whose blobs are all here. An earlier image of this name is replaced in one step.
    pub fn publish(
        &self,
        name: &ImageName,
        sha256: &BlobDigest,
        manifest: &Blob,
        blobs: &[Blob],
    ) -> io::Result<PathBuf> {
        let directory = self.directory_of(&name.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        match std::os::unix::fs::symlink("../../blobs", directory.join("blobs")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let stored =
            |blob: &Blob| StoredBlob { sha256: blob.digest.hexadecimal().to_owned(), bytes: blob.size };
        let image = StoredImage {
            v: VERSION,
            name: name.to_string(),
            sha256: sha256.hexadecimal().to_owned(),
            manifest_sha256: manifest.digest.hexadecimal().to_owned(),
            blobs: [manifest].into_iter().chain(blobs).map(stored).collect(),
            pulled: Moment::now().rfc3339(),
        };
        let digest = format!("sha256:{}", manifest.digest.hexadecimal());
        let entry = serde_json::json!({ "digest": digest, "size": manifest.size });
        let index = serde_json::json!({ "schemaVersion": 2, "manifests": [entry] });
        let about = serde_json::to_string_pretty(&image).map_err(io::Error::other)?;
        replace(&directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        replace(&directory.join("index.json"), index.to_string())?;
        replace(&directory.join(ABOUT), &about)?;
        Ok(directory)
    }

    /// Whether there was an image of this name. Its blobs go with the next collection.
    pub fn remove(&self, name: &ImageName) -> io::Result<bool> {
        let directory = self.directory_of(&name.to_string());
        if !directory.is_dir() {
            return Ok(false);
        }
        fs::remove_dir_all(directory).map(|()| true)
    }

    /// Removes blobs that no image has and downloads that were given up. Returns the bytes that this freed.
    pub fn collect(&self) -> io::Result<u64> {
        let kept = self.list()?;
        let kept: std::collections::HashSet<&str> =
            kept.iter().flat_map(|image| &image.blobs).map(|blob| blob.sha256.as_str()).collect();
        let mut freed = 0;
        for (below, keeps) in [(BLOBS, true), (PARTIAL, false)] {
            for entry in fs::read_dir(self.directory.join(below))? {
                let entry = entry?;
                if keeps && entry.file_name().to_str().is_some_and(|name| kept.contains(name)) {
                    continue;
                }
                freed += entry.metadata()?.len();
                fs::remove_file(entry.path())?;
            }
        }
        Ok(freed)
    }

    /// Puts a small document into the cache.
    pub fn put(&self, digest: &BlobDigest, bytes: &[u8]) -> io::Result<()> {
        replace(&self.blob(digest.hexadecimal()), bytes)
    }

    /// A place to download a blob to; `None` if it is here. Only one process and thread at a time has it.
    pub fn start(&self, blob: &Blob) -> io::Result<Option<PartialBlob>> {
        let path = self.directory.join(PARTIAL).join(blob.digest.hexadecimal());
        let finished = self.blob(blob.digest.hexadecimal());
        let wanted = StoredBlob { sha256: blob.digest.hexadecimal().to_owned(), bytes: blob.size };
        let deadline = Instant::now() + DOWNLOAD_TIMEOUT;
        loop {
            if self.has(&wanted) {
                return Ok(None);
            }
            let file = File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
                locked => locked?,
            }
            // The previous holder of the lock may have finished or removed the file that is open here.
            let is_current = fs::metadata(&path).is_ok_and(|about| {
                file.metadata().is_ok_and(|mine| (mine.dev(), mine.ino()) == (about.dev(), about.ino()))
            });
            if is_current && !self.has(&wanted) {
                return PartialBlob::resume(file, path, finished, blob.size).map(Some);
            }
        }
    }
}

fn read_stored_image(directory: &Path) -> Option<StoredImage> {
    let bytes = fs::read(directory.join(ABOUT)).ok()?;
    let image: StoredImage = serde_json::from_slice(&bytes).ok()?;
    (image.v == VERSION).then_some(image)
}

fn replace(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(text.as_ref())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A partial blob, and its digest so far.
pub struct PartialBlob {
    file: File,
    path: PathBuf,
    finished: PathBuf,
    hash: Sha256,
    pub bytes: u64,
}

impl PartialBlob {
    fn resume(file: File, path: PathBuf, finished: PathBuf, size: u64) -> io::Result<Self> {
        let mut partial = Self { file, path, finished, hash: Sha256::new(), bytes: 0 };
        if partial.file.metadata()?.len() > size {
            partial.restart()?;
        }
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = partial.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(partial);
            }
            partial.hash.update(&buffer[..count]);
            partial.bytes += count as u64;
        }
    }

    pub fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.hash = Sha256::new();
        self.bytes = 0;
        Ok(())
    }

    pub fn append(&mut self, part: &[u8]) -> io::Result<()> {
        self.file.write_all(part)?;
        self.hash.update(part);
        self.bytes += part.len() as u64;
        Ok(())
    }

    /// Whether all bytes so far have this digest.
    pub fn matches(&self, digest: &BlobDigest) -> bool {
        BlobDigest::of_hash(self.hash.clone()) == *digest
    }

    /// Gives the blob its name, after it was flushed to disk: a power cut must not leave an incomplete blob.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.finished)
    }

    /// The content is not the blob, so it is removed.
    pub fn discard(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
