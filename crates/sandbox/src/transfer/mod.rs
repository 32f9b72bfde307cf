//! Files into and out of a running sandbox. Both directions walk by descriptor from the sandbox's root, so that a link
//! that is swapped in from inside cannot redirect them; links and special files are never followed and never copied;
//! bytes and files are capped.

mod download;
mod upload;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

pub use download::download;
pub(crate) use upload::upload;

/// How much may be copied at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferCaps {
    pub bytes: u64,
    pub files: u64,
}

impl Default for TransferCaps {
    fn default() -> Self {
        Self { bytes: 256 << 20, files: 10_000 }
    }
}

/// What was copied, and what was left out and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    pub bytes: u64,
    pub files: u64,
    pub skipped: Vec<(PathBuf, SkipReason)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    SymbolicLink,
    /// A device, a pipe or a socket.
    SpecialFile,
}

/// Why a copy failed. What was copied until then is still there.
#[derive(Debug)]
pub enum TransferError {
    Source { path: PathBuf, source: io::Error },
    Target { path: PathBuf, source: io::Error },
    TooManyBytes { cap: u64 },
    TooManyFiles { cap: u64 },
    TooDeep { path: PathBuf },
}

const MAX_DEPTH: usize = 64;

impl Transfer {
    fn count_file(&mut self, caps: TransferCaps) -> Result<(), TransferError> {
        self.files += 1;
        if self.files > caps.files { Err(TransferError::TooManyFiles { cap: caps.files }) } else { Ok(()) }
    }

    /// Copies at most what is left of the cap, and one byte more to know that it was not enough.
    fn copy(
        &mut self,
        caps: TransferCaps,
        (from, reader): (&Path, &mut File),
        (to, writer): (&Path, &mut File),
    ) -> Result<(), TransferError> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let source = |source| TransferError::Source { path: from.to_path_buf(), source };
            let length = match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(source)?,
            };
            self.bytes += length as u64;
            if self.bytes > caps.bytes {
                return Err(TransferError::TooManyBytes { cap: caps.bytes });
            }
            let target = |source| TransferError::Target { path: to.to_path_buf(), source };
            writer.write_all(&buffer[..length]).map_err(target)?;
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { path, source } => write!(f, "sandbox: cannot read {}: {source}", path.display()),
            Self::Target { path, source } => write!(f, "sandbox: cannot write {}: {source}", path.display()),
            Self::TooManyBytes { cap } => write!(f, "sandbox: more than {cap} bytes to copy"),
            Self::TooManyFiles { cap } => write!(f, "sandbox: more than {cap} files to copy"),
            Self::TooDeep { path } => {
                write!(f, "sandbox: {} lies deeper than {MAX_DEPTH} directories", path.display())
            }
        }
    }
}

impl std::error::Error for TransferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source { source, .. } | Self::Target { source, .. } => Some(source),
            Self::TooManyBytes { .. } | Self::TooManyFiles { .. } | Self::TooDeep { .. } => None,
        }
    }
}
