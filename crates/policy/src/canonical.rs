//! The canonical form of a request path. The policy decides on the same bytes that go upstream, so that an encoded `/secret` does
//! not pass a rule about `/secret`. Canonicalising twice changes nothing.

use std::fmt;

/// The longest path that is read, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;

/// A path in canonical form: starts with `/`, has no `.` or `..` segment, no `//`, no `;parameters`, and is
/// percent-encoded only where it must be, in upper case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CanonicalPath(String);

/// Whether an endpoint allows `%2F` inside a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedSlash {
    Refuse,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    TooLong,
    NotAbsolute,
    Control,
    NonAscii,
    Encoding,
    EncodedSlash,
    AboveRoot,
    HiddenDots,
    /// `?` and `#` end a path; the caller has to cut there first.
    Delimiter,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the path is longer than 4096 bytes",
            Self::NotAbsolute => "the path does not start with `/`",
            Self::Control => "the path contains a control character",
            Self::NonAscii => "the path contains a character outside ASCII that is not percent-encoded",
            Self::Encoding => "the path contains a `%` without two hexadecimal digits after it",
            Self::EncodedSlash => "the path contains `%2F`, which this endpoint does not allow",
            Self::AboveRoot => "the path leaves `/` with `..`",
            Self::HiddenDots => "the path hides a `.` or `..` segment behind an encoded separator",
            Self::Delimiter => "the path contains `?` or `#`",
        })
    }
}

impl std::error::Error for PathError {}

impl CanonicalPath {
    /// Makes the path part of a request target canonical.
    pub fn new(raw: &str, slash: EncodedSlash) -> Result<Self, PathError> {
        if raw.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        let Some(rest) = raw.strip_prefix('/') else { return Err(PathError::NotAbsolute) };
        let mut kept: Vec<Vec<u8>> = Vec::new();
        let mut open_end = true;
        for segment in rest.split('/') {
            let bytes = decode(segment, slash)?;
            let name = bytes.split(|byte| *byte == b';').next().unwrap_or_default();
            open_end = matches!(name, b"" | b"." | b"..");
            match name {
                b"" | b"." => {}
                b".." => drop(kept.pop().ok_or(PathError::AboveRoot)?),
                _ if hides_dots(name) => return Err(PathError::HiddenDots),
                _ => kept.push(name.to_vec()),
            }
        }
        let path = write(&kept, open_end);
        // Percent-encoding can make a path longer.
        if path.len() > MAX_PATH_BYTES { Err(PathError::TooLong) } else { Ok(Self(path)) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a segment holds an encoded slash, which only some endpoints allow.
    pub fn has_encoded_slash(&self) -> bool {
        self.0.contains("%2F")
    }
}

impl fmt::Display for CanonicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn decode(segment: &str, slash: EncodedSlash) -> Result<Vec<u8>, PathError> {
    let mut out = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        let decoded = match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
                    return Err(PathError::Encoding);
                };
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            b'?' | b'#' => return Err(PathError::Delimiter),
            128.. => return Err(PathError::NonAscii),
            _ => byte,
        };
        match decoded {
            b'/' if slash == EncodedSlash::Refuse => return Err(PathError::EncodedSlash),
            0..=31 | 127 => return Err(PathError::Control),
            _ => out.push(decoded),
        }
    }
    Ok(out)
}

/// `a%2F..%2Fb` is one segment here, but three to a server that decodes first; some servers split at `\` too.
fn hides_dots(name: &[u8]) -> bool {
    name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"." || part == b"..")
}

fn write(segments: &[Vec<u8>], open_end: bool) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        for byte in segment {
            if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(byte) {
                path.push(char::from(*byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    if open_end || path.is_empty() {
        path.push('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq};

    use super::{CanonicalPath, EncodedSlash, PathError};

    fn check(raw: &str, slash: EncodedSlash, expected: Result<&str, PathError>) {
        let path = CanonicalPath::new(raw, slash);
        assert_eq!(path.as_ref().map(CanonicalPath::as_str).map_err(|error| *error), expected, "{raw}");
    }

    const ROWS: &[(&str, Result<&str, PathError>)] = &[
        ("/", Ok("/")),
        ("//", Ok("/")),
        ("/a/b", Ok("/a/b")),
        ("/a/b/", Ok("/a/b/")),
        ("/a//b///c", Ok("/a/b/c")),
        ("//a", Ok("/a")),
        ("/a/./b", Ok("/a/b")),
        ("/a/b/.", Ok("/a/b/")),
        ("/a/../b", Ok("/b")),
        ("/a/b/..", Ok("/a/")),
        ("/a/..", Ok("/")),
        ("/a/%2e%2E/b", Ok("/b")),
        ("/a/.%2e/b", Ok("/b")),
        ("/%73ecret", Ok("/secret")),
        ("/x/../secret", Ok("/secret")),
        ("/a;v=1/b;w", Ok("/a/b")),
        ("/a/..;x/b", Ok("/b")),
        ("/a/%2e%2e;/b", Ok("/b")),
        ("/a%3bx/b", Ok("/a/b")),
        ("/;x/a", Ok("/a")),
        ("/a/;x", Ok("/a/")),
        ("/a%20b", Ok("/a%20b")),
        ("/a b", Ok("/a%20b")),
        ("/%e4%bd%a0", Ok("/%E4%BD%A0")),
        ("/%252e%252e/x", Ok("/%252e%252e/x")),
        ("/a%25b", Ok("/a%25b")),
        ("/a%3Fb", Ok("/a%3Fb")),
        ("/a%23b", Ok("/a%23b")),
        ("/a\\b", Ok("/a%5Cb")),
        ("/%5c", Ok("/%5C")),
        ("/a:b@c!$&'()*+,=~", Ok("/a:b@c!$&'()*+,=~")),
        ("/...", Ok("/...")),
        ("/.a/..b", Ok("/.a/..b")),
        ("/%5B%5D", Ok("/%5B%5D")),
        ("", Err(PathError::NotAbsolute)),
        ("a", Err(PathError::NotAbsolute)),
        ("*", Err(PathError::NotAbsolute)),
        ("/..", Err(PathError::AboveRoot)),
        ("/a/../..", Err(PathError::AboveRoot)),
        ("/a/../../a", Err(PathError::AboveRoot)),
        ("/%2e%2e", Err(PathError::AboveRoot)),
        ("/a%2Fb", Err(PathError::EncodedSlash)),
        ("/a%2fb", Err(PathError::EncodedSlash)),
        ("/a%", Err(PathError::Encoding)),
        ("/a%2", Err(PathError::Encoding)),
        ("/a%zz", Err(PathError::Encoding)),
        ("/a%+1", Err(PathError::Encoding)),
        ("/a%00", Err(PathError::Control)),
        ("/a%0d%0a", Err(PathError::Control)),
        ("/a%7f", Err(PathError::Control)),
        ("/a\tb", Err(PathError::Control)),
        ("/\u{e9}", Err(PathError::NonAscii)),
        ("/a?b", Err(PathError::Delimiter)),
        ("/a#b", Err(PathError::Delimiter)),
        ("/a/..%5cb", Err(PathError::HiddenDots)),
    ];

    #[test]
    fn paths_have_one_spelling() {
        for (raw, expected) in ROWS {
            check(raw, EncodedSlash::Refuse, *expected);
        }
        for (raw, expected) in [
            ("/@scope%2fname", Ok("/@scope%2Fname")),
            ("/a%2F..%2Fb", Err(PathError::HiddenDots)),
            ("/a/..%2Fb", Err(PathError::HiddenDots)),
            ("/%2F", Ok("/%2F")),
        ] {
            check(raw, EncodedSlash::Keep, expected);
        }
        check(&format!("/{}", "a".repeat(4095)), EncodedSlash::Refuse, Ok(&format!("/{}", "a".repeat(4095))));
        check(&format!("/{}", "a".repeat(4096)), EncodedSlash::Refuse, Err(PathError::TooLong));
        check(&format!("/{}", " ".repeat(2000)), EncodedSlash::Refuse, Err(PathError::TooLong));
    }

    proptest::proptest! {
        #[test]
        fn canonicalising_twice_changes_nothing(raw in "/(\\.|/|;|%|2|e|E|f|F|5|c|\\\\|a| |~){0,24}", keep in prop::bool::ANY) {
            let slash = if keep { EncodedSlash::Keep } else { EncodedSlash::Refuse };
            if let Ok(path) = CanonicalPath::new(&raw, slash) {
                let again = CanonicalPath::new(path.as_str(), slash);
                prop_assert_eq!(again.as_ref(), Ok(&path), "{}", raw);
                prop_assert!(!path.as_str().split('/').any(|segment| segment == "." || segment == ".."));
                prop_assert!(!path.as_str().contains("//"));
                prop_assert!(keep || !path.has_encoded_slash());
            }
        }

        #[test]
        fn no_path_makes_it_panic(raw in "\\PC{0,64}") {
            drop(CanonicalPath::new(&raw, EncodedSlash::Keep));
        }
    }
}
