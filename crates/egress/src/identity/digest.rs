//! SHA-256 of program files, cached. The first digest of a path is valid for the life of the sandbox: a path that later has
//! another one was swapped.

use ring::digest::{Context, SHA256};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A larger file gets no digest and therefore no access.
const MAX_PROGRAM_BYTES: u64 = 4 << 30;
const MAX_REMEMBERED: usize = 4096;
const MAX_READS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[derive(Debug)]
pub(super) enum DigestError {
    /// The process ended.
    Gone,
    Swapped,
    Io(io::Error),
}

/// Changes whenever the file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Debug, Default)]
pub struct Digests {
    known: Mutex<HashMap<String, (Fingerprint, Sha256)>>,
}

impl Digests {
    /// Opens `file` once, and reads its metadata and contents through the same descriptor.
    pub(super) fn of(&self, path: &str, file: &Path) -> Result<Sha256, DigestError> {
        let mut file = File::open(file).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => DigestError::Gone,
            _ if source.raw_os_error() == Some(NO_SUCH_PROCESS) => DigestError::Gone,
            _ => DigestError::Io(source),
        })?;
        let before = fingerprint(&file)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        if let Some((_, sha256)) = known.filter(|(print, _)| *print == before) {
            return Ok(sha256);
        }
        let (before, sha256) = hash_unchanged(&mut file, fingerprint)?;
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(path) {
            Some((_, first)) if *first != sha256 => Err(DigestError::Swapped),
            None if all.len() >= MAX_REMEMBERED => {
                Err(DigestError::Io(io::Error::other("too many different programs")))
            }
            _ => {
                all.insert(path.to_owned(), (before, sha256));
                Ok(sha256)
            }
        }
    }
}

/// The error of opening a file of a process that has just ended.
const NO_SUCH_PROCESS: i32 = 3;

fn fingerprint(file: &File) -> Result<Fingerprint, DigestError> {
    let data = file.metadata().map_err(DigestError::Io)?;
    if data.len() > MAX_PROGRAM_BYTES {
        return Err(DigestError::Io(io::Error::other("the program is too large to be hashed")));
    }
    Ok(Fingerprint {
        device: data.dev(),
        inode: data.ino(),
        size: data.len(),
        modified: (data.mtime(), data.mtime_nsec()),
        changed: (data.ctime(), data.ctime_nsec()),
    })
}

/// The digest of a file that did not change while it was read. A new link to it counts as a change too, so it is read again.
fn hash_unchanged(
    file: &mut File,
    mut fingerprint: impl FnMut(&File) -> Result<Fingerprint, DigestError>,
) -> Result<(Fingerprint, Sha256), DigestError> {
    for _ in 0..MAX_READS {
        let before = fingerprint(file)?;
        file.rewind().map_err(DigestError::Io)?;
        let sha256 = hash(file, before.size)?;
        if fingerprint(file)? == before {
            return Ok((before, sha256));
        }
    }
    Err(DigestError::Swapped)
}

fn hash(file: &mut File, size: u64) -> Result<Sha256, DigestError> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 256 << 10];
    // One byte more than the size: a file that grows is detected by its fingerprint instead of being read on.
    let mut limited = file.take(size + 1);
    loop {
        match limited.read(&mut buffer).map_err(DigestError::Io)? {
            0 => break,
            length => context.update(&buffer[..length]),
        }
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    Ok(Sha256(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file to which another process makes a link before each of the first `links` looks at it.
    fn linked_while_read(links: usize) -> Result<Sha256, DigestError> {
        let place = std::env::temp_dir().join(format!("egress-digest-{links}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&place));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("program"), "abc").unwrap();
        let mut looks = 0;
        let hashed = hash_unchanged(&mut File::open(place.join("program")).unwrap(), |file| {
            looks += 1;
            if looks <= links {
                std::thread::sleep(std::time::Duration::from_millis(20));
                std::fs::hard_link(place.join("program"), place.join(looks.to_string())).unwrap();
            }
            fingerprint(file)
        });
        std::fs::remove_dir_all(place).unwrap();
        hashed.map(|(_, sha256)| sha256)
    }

    #[test]
    fn a_link_that_is_made_meanwhile_is_not_a_swap() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(linked_while_read(3).unwrap().to_string(), digest);
        assert!(matches!(linked_while_read(9), Err(DigestError::Swapped)), "a file that never rests");
    }
}
