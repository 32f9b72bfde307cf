//! Why an image cannot be used: what is wrong, with which file, and what to try.

use std::fmt;
use std::io;
use std::path::PathBuf;

#[derive(Debug)]
pub enum ImageError {
    /// The text of `image:` is not an image reference.
    Name { why: String },
    /// There is no such file or directory, or it cannot be read.
    Missing { path: PathBuf, source: io::Error },
    /// It exists but is not an image that can be used.
    Unusable { path: PathBuf, why: String },
    /// Its contents do not match its own digests, or try to leave their directory.
    Refused { path: PathBuf, why: String },
    /// The cache cannot be written.
    Cache { path: PathBuf, source: io::Error },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { why } => write!(f, "`image` {why}"),
            Self::Missing { path, source } => {
                write!(f, "the image {} cannot be read: {source}", path.display())
            }
            Self::Unusable { path, why } => write!(f, "the image {} cannot be used: {why}", path.display()),
            Self::Refused { path, why } => write!(f, "the image {} is refused: {why}", path.display()),
            Self::Cache { path, source } => {
                write!(f, "the cache of images {} cannot be used: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Missing { source, .. } | Self::Cache { source, .. } => Some(source),
            Self::Name { .. } | Self::Unusable { .. } | Self::Refused { .. } => None,
        }
    }
}
