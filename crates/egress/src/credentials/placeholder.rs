//! Placeholders in requests: `openshell:resolve:env:` and a handle.

use std::ops::Range;

pub(super) const PREFIX: &[u8] = b"openshell:resolve:env:";
/// The spelling where colons are not allowed. It names no handle, so it is recognised only to be refused.
const ALIAS: &[u8] = b"OPENSHELL-RESOLVE-ENV-";
const MAX_HANDLE_BYTES: usize = 256;

/// The first placeholder: its range, and that of its handle.
pub(super) fn find(bytes: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let (start, length) = match (position(bytes, PREFIX), position(bytes, ALIAS)) {
        (Some(plain), Some(alias)) if alias < plain => (alias, ALIAS.len()),
        (Some(plain), _) => (plain, PREFIX.len()),
        (None, Some(alias)) => (alias, ALIAS.len()),
        (None, None) => return None,
    };
    let handle = start + length;
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let end = handle + bytes[handle..].iter().take(MAX_HANDLE_BYTES).take_while(part).count();
    Some((start..end, handle..end))
}

pub(super) fn contains_placeholder(bytes: &[u8]) -> bool {
    find(bytes).is_some()
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

/// Finds placeholders in a stream, also across the boundaries of its chunks.
#[derive(Debug, Default)]
pub struct PlaceholderScanner {
    tail: Vec<u8>,
}

impl PlaceholderScanner {
    /// Whether a placeholder is complete with this portion.
    pub fn finds(&mut self, portion: &[u8]) -> bool {
        let overlap = PREFIX.len().max(ALIAS.len()) - 1;
        let border = portion.len().min(overlap);
        self.tail.extend_from_slice(&portion[..border]);
        let found = contains_placeholder(&self.tail) || contains_placeholder(portion);
        if portion.len() >= overlap {
            self.tail.clear();
            self.tail.extend_from_slice(&portion[portion.len() - overlap..]);
        } else if self.tail.len() > overlap {
            self.tail.drain(..self.tail.len() - overlap);
        }
        found
    }
}
