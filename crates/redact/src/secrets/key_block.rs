//! Private keys in PEM and its relatives. The whole block is the secret; a block that was cut off is one too.

use super::{Confidence, SecretMatch};
use crate::rule;
use crate::steps;

/// A block with fewer characters is an example, not a key.
const MIN_BODY: usize = 40;
const MAX_LABEL: usize = 64;

/// `hit` is the start of `-----BEGIN `.
pub(super) fn find(text: &str, hit: usize) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let label_start = hit + "-----BEGIN ".len();
    let window = &bytes[label_start..bytes.len().min(label_start + MAX_LABEL)];
    let label_length = memchr::memmem::find(window, b"-----")?;
    let label = std::str::from_utf8(&window[..label_length]).ok()?;
    if !is_private(label) {
        return None;
    }
    let body_start = label_start + label_length + "-----".len();
    let end = end_of_block(bytes, body_start, label);
    let body = &bytes[body_start..end];
    let is_key =
        body.iter().filter(|byte| byte.is_ascii_alphanumeric()).count() >= MIN_BODY && is_varied(body);
    is_key.then_some(SecretMatch {
        format: rule::secret::PRIVATE_KEY.name(),
        confidence: Confidence::Verified,
        range: hit..end,
    })
}

/// Whether text that ends here may be in the middle of a key; `from` is where the block began.
pub(crate) fn open_block(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let hit = memchr::memmem::rfind(bytes, b"-----BEGIN ")?;
    let label_start = hit + "-----BEGIN ".len();
    let window = &bytes[label_start..bytes.len().min(label_start + MAX_LABEL)];
    let label_length = memchr::memmem::find(window, b"-----")?;
    let label = std::str::from_utf8(&window[..label_length]).ok()?;
    let body_start = label_start + label_length + "-----".len();
    let is_open = is_private(label) && body_end(bytes, body_start) == bytes.len();
    is_open.then_some(hit)
}

fn is_private(label: &str) -> bool {
    let upper = label.to_ascii_uppercase();
    upper.ends_with("PRIVATE KEY")
        || upper == "PGP PRIVATE KEY BLOCK"
        || upper.starts_with("OPENVPN STATIC KEY")
}

fn end_of_block(bytes: &[u8], body_start: usize, label: &str) -> usize {
    let end = body_end(bytes, body_start);
    let closing = format!("-----END {label}-----");
    let has_closing =
        bytes[end..].get(..closing.len()).is_some_and(|tail| tail.eq_ignore_ascii_case(closing.as_bytes()));
    if has_closing { end + closing.len() } else { end }
}

/// Keys are base64, white space (also as the escapes `\n` and `\r`) and a few header lines.
fn body_end(bytes: &[u8], start: usize) -> usize {
    let is_body = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || byte.is_ascii_whitespace()
            || matches!(
                byte,
                b'+' | b'/' | b'=' | b'\\' | b':' | b',' | b'-' | b'.' | b'(' | b')' | b'@' | b'#' | b'"'
            )
    };
    let mut at = start;
    while at < bytes.len() && is_body(bytes[at]) {
        if bytes[at] == b'-' && bytes[at..].starts_with(b"-----") {
            break;
        }
        // A blank line ends a block without an end marker, so that prose below it is not masked. The blank line after
        // the headers of an encrypted key does not.
        if bytes[at..].starts_with(b"\n\n") && !is_after_headers(&bytes[start..at]) {
            break;
        }
        at += 1;
    }
    steps::count(at - start);
    at
}

fn is_after_headers(body: &[u8]) -> bool {
    body.len() < 400 && (memchr::memchr(b':', body).is_some() || body.iter().all(u8::is_ascii_whitespace))
}

fn is_varied(body: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in body {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count() >= 16
}
