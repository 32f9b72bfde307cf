//! Where the blobs of an image are: files of an OCI layout directory, or parts of an archive, found without unpacking it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tar::{Archive, EntryType};

use super::entries;

/// The most blobs of an archive: a file with more is not an image.
const MAX_PARTS: usize = 10_000;

pub enum ImageSource {
    Layout(PathBuf),
    Archive { path: PathBuf, parts: HashMap<PathBuf, ArchivePart> },
}

/// Something in an archive.
#[derive(Clone, Debug)]
pub enum ArchivePart {
    Contents {
        position: u64,
        bytes: u64,
    },
    /// Older archives store a layer once and link to it.
    Link(PathBuf),
}

impl ImageSource {
    pub fn open(path: &Path) -> io::Result<Self> {
        if std::fs::metadata(path)?.is_dir() {
            return Ok(Self::Layout(path.to_owned()));
        }
        let mut archive = Archive::new(open_regular(path)?);
        let mut parts = HashMap::new();
        let mut index = |entry: entries::TarEntry, _: &mut dyn Read| {
            if parts.len() >= MAX_PARTS {
                return Err(io::Error::other("it has too many parts for an image"));
            }
            let part = match entry.kind {
                EntryType::Regular | EntryType::Continuous => {
                    Some(ArchivePart::Contents { position: entry.position, bytes: entry.header.size()? })
                }
                EntryType::Symlink | EntryType::Link => {
                    let link =
                        Path::new(std::ffi::OsStr::from_bytes(entry.link.as_deref().unwrap_or_default()));
                    let from = if entry.kind == EntryType::Link {
                        Path::new("")
                    } else {
                        entry.path.parent().unwrap_or(Path::new(""))
                    };
                    lexical(&from.join(link)).map(ArchivePart::Link)
                }
                _ => None,
            };
            parts.extend(part.map(|part| (entry.path, part)));
            Ok(())
        };
        entries::walk(archive.entries_with_seek()?, &mut index)?;
        Ok(Self::Archive { path: path.to_owned(), parts })
    }

    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Layout(directory) => directory.join(name).is_file(),
            Self::Archive { parts, .. } => parts.contains_key(Path::new(name)),
        }
    }

    /// The contents of a part; its name is relative and without `..`.
    pub fn read(&self, name: &str) -> io::Result<Box<dyn Read>> {
        let absent = || io::Error::new(io::ErrorKind::NotFound, format!("it has no `{name}`"));
        match self {
            Self::Layout(directory) => {
                let name = entries::relative(name.as_bytes())?;
                open_regular(&directory.join(name)).map(|file| Box::new(file) as Box<dyn Read>).map_err(
                    |error| {
                        if error.kind() == io::ErrorKind::NotFound { absent() } else { error }
                    },
                )
            }
            Self::Archive { path, parts } => {
                let mut part = parts.get(Path::new(name)).ok_or_else(absent)?;
                if let ArchivePart::Link(to) = part {
                    part = parts.get(to).ok_or_else(absent)?;
                }
                let ArchivePart::Contents { position, bytes } = part else { return Err(absent()) };
                let mut file = open_regular(path)?;
                file.seek(SeekFrom::Start(*position))?;
                Ok(Box::new(ExactSizeReader { inner: file, left: *bytes }))
            }
        }
    }

    /// A small part, whole.
    pub fn read_small(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read(name)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::other(format!("its `{name}` is larger than {most} bytes")));
        }
        Ok(bytes)
    }
}

/// Opens without blocking, in case the file was replaced by a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// `a/../b` as `b`; `None` for a path that leaves the root.
fn lexical(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::Normal(part) => clean.push(part),
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if clean.pop() => {}
            _ => return None,
        }
    }
    Some(clean)
}

/// Reads exactly the size in the archive's header; less is an error, so that a truncated archive is noticed.
struct ExactSizeReader {
    inner: File,
    left: u64,
}

impl Read for ExactSizeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.inner.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::Error::other("it is cut off"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}
