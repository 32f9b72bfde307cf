//! Which secret-like files git tracks, read from its index (versions 2 to 4). An index that cannot be read counts as
//! empty: then more files are hidden, never fewer.

use super::secret_files::looks_secret;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_INDEX_BYTES: u64 = 512 << 20;

/// Tracked paths of which some part has a secret's name.
pub fn tracked_secrets(path: &Path) -> BTreeSet<PathBuf> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_INDEX_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return BTreeSet::new();
    }
    parse(&bytes).unwrap_or_default()
}

/// How many files the index of a git directory lists; `None` if the index cannot be read.
pub fn tracked_count(git: &Path) -> u32 {
    let mut head = [0; 12];
    let read = fs::File::open(git.join("index")).and_then(|mut file| file.read_exact(&mut head));
    let [b'D', b'I', b'R', b'C', _, _, _, _, a, b, c, d] = head else { return 0 };
    if read.is_ok() { u32::from_be_bytes([a, b, c, d]) } else { 0 }
}

/// The header is "DIRC", version, number of entries; an entry is 62 bytes of facts, more in version 3 if a flag says so,
/// then the path: padded with zeros to a multiple of eight, or in version 4 as a difference to the path before.
fn parse(bytes: &[u8]) -> Option<BTreeSet<PathBuf>> {
    let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut found = BTreeSet::new();
    let mut at = 12;
    let mut previous: Vec<u8> = Vec::new();
    for _ in 0..number(8)? {
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        let extended = version >= 3 && flags & 0x4000 != 0;
        let mut name_at = at + if extended { 64 } else { 62 };
        let kept = if version == 4 {
            let (strip, length) = variable_number(bytes.get(name_at..)?)?;
            name_at += length;
            previous.len().checked_sub(strip)?
        } else {
            0
        };
        let length = bytes.get(name_at..)?.iter().position(|byte| *byte == 0)?;
        previous.truncate(kept);
        previous.extend(&bytes[name_at..name_at + length]);
        at = if version == 4 { name_at + length + 1 } else { at + ((name_at - at + length + 8) & !7) };
        let path = Path::new(OsStr::from_bytes(&previous));
        if path.components().any(|part| looks_secret(part.as_os_str())) {
            found.insert(path.to_path_buf());
        }
    }
    Some(found)
}

/// The offset encoding of git's pack files.
fn variable_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value: usize = 0;
    for (position, byte) in bytes.iter().take(8).enumerate() {
        if position > 0 {
            value += 1;
        }
        value = (value << 7) | usize::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            return Some((value, position + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_v2(path: &str) -> Vec<u8> {
        let mut entry = vec![0; 60];
        entry.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
        entry.extend(path.bytes());
        let padded = (entry.len() + 8) & !7;
        entry.resize(padded, 0);
        entry
    }

    fn header(version: u32, count: u32) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(count.to_be_bytes());
        bytes
    }

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn version_two_is_read() {
        let mut bytes = header(2, 3);
        for path in [".env.test", "src/main.rs", "test/cert.pem"] {
            bytes.extend(entry_v2(path));
        }
        assert_eq!(parse(&bytes), Some(paths(&[".env.test", "test/cert.pem"])));
    }

    #[test]
    fn version_four_is_read() {
        let mut bytes = header(4, 2);
        for (strip, rest) in [(0_u8, "test/a.pem"), (5, "b.pem")] {
            bytes.extend([0; 62]);
            bytes.push(strip);
            bytes.extend(rest.bytes());
            bytes.push(0);
        }
        assert_eq!(parse(&bytes), Some(paths(&["test/a.pem", "test/b.pem"])));
    }

    #[test]
    fn a_broken_index_tracks_nothing() {
        assert_eq!(parse(b"nothing"), None);
        assert_eq!(parse(&header(9, 0)), None);
        assert_eq!(parse(&header(2, 1)), None);
    }
}
