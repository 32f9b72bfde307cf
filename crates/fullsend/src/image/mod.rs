//! Images: unpacks an OCI layout directory or an archive into directories that the sandbox stacks with overlayfs.
//! Everything is checked against the image's own digests. It fetches nothing and runs nothing of an image.

pub mod entries;
mod error;
mod manifest;
pub mod platform;
mod source;
mod stream;
mod unpack;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::directory_cache::{DirectoryCache, Exclusive};
pub use error::ImageError;
pub use manifest::BlobDigest;
use manifest::{ImageLayer, Manifest};
use source::ImageSource;
use stream::{Bounded, Digesting};
use unpack::{UnpackError, Whiteouts};

/// How many layers stay in the cache beside those in use.
const MAX_KEPT: usize = 200;

/// How much one image may unpack to.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub bytes: u64,
    pub entries: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self { bytes: 32 << 30, entries: 2_000_000 }
    }
}

/// An image that is ready to be a root. Its layers stay in the cache as long as this lives.
#[derive(Debug)]
pub struct Image {
    /// The uppermost first.
    pub layers: Vec<PathBuf>,
    /// 64 hexadecimal digits.
    pub digest: String,
    /// The image's environment variables, without those that could redirect the agent or its programs.
    pub environment: Vec<(String, String)>,
    _held: Vec<File>,
}

/// Whether there is an image that this machine can use. Its layers are not read.
pub fn check(path: &Path) -> Result<(), ImageError> {
    open(path).map(drop)
}

fn open(path: &Path) -> Result<(ImageSource, Manifest), ImageError> {
    let missing = |source: io::Error| ImageError::Missing { path: path.to_owned(), source };
    std::fs::metadata(path).map_err(missing)?;
    let source = ImageSource::open(path).map_err(|error| unusable(path, &error))?;
    let manifest = manifest::choose(&source).map_err(|error| unusable(path, &error))?;
    Ok((source, manifest))
}

/// Reads, checks and unpacks what is not in the cache yet.
pub fn prepare(path: &Path, cache: &Path, caps: Caps) -> Result<Image, ImageError> {
    let (source, manifest) = open(path)?;
    let full = |source| ImageError::Cache { path: cache.to_owned(), source };
    let store = DirectoryCache::open(cache).map_err(full)?;
    let mut work = Unpacking { path, source: &source, cache, store: &store, caps };
    let held = match work.layered(&manifest) {
        Err(UnpackError::CannotMark) => work.merged(&manifest),
        done => done,
    };
    let (layers, held) = held.map_err(|failed| work.error(failed))?.into_iter().unzip();
    let environment = manifest.environment.into_iter().filter(|(name, _)| may_set(name)).collect();
    Ok(Image { layers, digest: manifest.digest.hexadecimal().to_owned(), environment, _held: held })
}

/// A layer that no one used for this long is removed by `image gc`.
pub const UNUSED_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Removes unpacked layers that no one uses. Returns the bytes that this freed.
pub fn collect(cache: &Path, unused: Duration) -> io::Result<u64> {
    DirectoryCache::open(cache)?.exclusive()?.collect(unused)
}

fn unusable(path: &Path, error: &io::Error) -> ImageError {
    let path = path.to_owned();
    let why = error.to_string();
    match error.kind() {
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            ImageError::Refused { path, why }
        }
        _ => ImageError::Unusable { path, why },
    }
}

/// Variables that load code into programs, redirect them, or that the sandbox sets itself.
fn may_set(name: &str) -> bool {
    const NEVER: &[&str] = &[
        "BASH_ENV",
        "ENV",
        "GLIBC_TUNABLES",
        "HOME",
        "JAVA_TOOL_OPTIONS",
        "NODE_OPTIONS",
        "PERL5OPT",
        "PWD",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "RUBYOPT",
        "SHELL",
        "TMPDIR",
        "USER",
        "XDG_CONFIG_HOME",
    ];
    const NEVER_BEGINS: &[&str] =
        &["LD_", "DYLD_", "FULLSEND_", "CLAUDE", "ANTHROPIC", "OPENAI", "CODEX", "GIT_", "SSL_"];
    let upper = name.to_ascii_uppercase();
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain
        && !NEVER.contains(&upper.as_str())
        && !NEVER_BEGINS.iter().any(|start| upper.starts_with(start))
        && !upper.ends_with("_PROXY")
}

struct Unpacking<'a> {
    path: &'a Path,
    source: &'a ImageSource,
    cache: &'a Path,
    store: &'a DirectoryCache,
    caps: Caps,
}

type CacheLocks = Vec<(PathBuf, File)>;

impl Unpacking<'_> {
    fn error(&self, failed: UnpackError) -> ImageError {
        match failed {
            UnpackError::Archive(error) => {
                ImageError::Refused { path: self.path.to_owned(), why: error.to_string() }
            }
            UnpackError::Directory(source) => ImageError::Cache { path: self.cache.to_owned(), source },
            UnpackError::CannotMark => {
                ImageError::Cache { path: self.cache.to_owned(), source: io::Error::other(failed) }
            }
        }
    }

    /// One directory for each layer, shared with other images.
    fn layered(&mut self, manifest: &Manifest) -> Result<CacheLocks, UnpackError> {
        let mut held = Vec::new();
        for layer in manifest.layers.iter().rev() {
            let name = layer.plain.hexadecimal();
            let found = match self.store.get(name).map_err(UnpackError::Directory)? {
                Some(found) => found,
                None => self.make(name, std::slice::from_ref(layer), Whiteouts::Mark)?,
            };
            held.push(found);
        }
        Ok(held)
    }

    /// One directory for the whole image, if the file system cannot mark files that a layer removes.
    fn merged(&mut self, manifest: &Manifest) -> Result<CacheLocks, UnpackError> {
        let mut chain = Sha256::new();
        for layer in &manifest.layers {
            chain.update(layer.plain.hexadecimal());
        }
        let name = format!("merged-{}", stream::hexadecimal(&chain.finalize()));
        if let Some(found) = self.store.get(&name).map_err(UnpackError::Directory)? {
            return Ok(vec![found]);
        }
        self.make(&name, &manifest.layers, Whiteouts::Apply).map(|found| vec![found])
    }

    fn make(
        &mut self,
        name: &str,
        layers: &[ImageLayer],
        whiteouts: Whiteouts,
    ) -> Result<(PathBuf, File), UnpackError> {
        let exclusive = self.store.exclusive().map_err(UnpackError::Directory)?;
        // Another process may have made it while we waited.
        if let Some(found) = self.store.get(name).map_err(UnpackError::Directory)? {
            return Ok(found);
        }
        let made = self.unpack_all(&exclusive, layers, whiteouts);
        match made.and_then(|()| exclusive.finish(name).map_err(UnpackError::Directory)) {
            Ok(()) => {}
            Err(failed) => {
                // Report the first failure; the next unpacking removes what is left.
                drop(exclusive.discard());
                return Err(failed);
            }
        }
        let found = self.store.get(name).map_err(UnpackError::Directory)?;
        exclusive.prune(MAX_KEPT).map_err(UnpackError::Directory)?;
        found.ok_or_else(|| UnpackError::Directory(io::Error::other("a layer vanished")))
    }

    fn unpack_all(
        &mut self,
        exclusive: &Exclusive<'_>,
        layers: &[ImageLayer],
        whiteouts: Whiteouts,
    ) -> Result<(), UnpackError> {
        let into = exclusive.start().map_err(UnpackError::Directory)?;
        for layer in layers {
            self.unpack(layer, &into, whiteouts)?;
        }
        Ok(())
    }

    fn unpack(&mut self, layer: &ImageLayer, into: &Path, whiteouts: Whiteouts) -> Result<(), UnpackError> {
        let mut blob = Digesting::new(self.source.read(&layer.name).map_err(UnpackError::Archive)?);
        let Caps { bytes, entries } = &mut self.caps;
        let decoded = stream::decoded(&mut blob).map_err(UnpackError::Archive)?;
        let mut plain = Digesting::new(Bounded { inner: decoded, left: bytes });
        unpack::unpack(&mut plain, into, whiteouts, entries)?;
        let differs = || {
            UnpackError::Archive(io::Error::other(format!(
                "its layer `{}` does not match its digest",
                layer.name
            )))
        };
        if plain.finish().map_err(UnpackError::Archive)? != layer.plain.hexadecimal() {
            return Err(differs());
        }
        let stored = blob.finish().map_err(UnpackError::Archive)?;
        match &layer.blob {
            Some(digest) if digest.hexadecimal() != stored => Err(differs()),
            _ => Ok(()),
        }
    }
}
