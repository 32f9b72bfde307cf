//! Reads the small files of a git directory, which an attacker may have written.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Why a working tree could not be read.
#[derive(Debug)]
pub struct RepositoryError {
    pub path: PathBuf,
    pub source: io::Error,
}

impl fmt::Display for RepositoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repository: cannot read {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for RepositoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Reads a small regular file: a link could lead to a file that the sandbox must not see, and a pipe would block us.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(io::Error::other("it is a symbolic link")),
        opened => fs::File::from(opened?),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    Ok(text)
}
