//! Takes out what breaks an encoded value into lines: line ends, as they are or escaped, and the spaces, quotes and commas
//! beside them. The rest is searched as if the value had never been broken.

use std::ops::Range;

/// A shorter form would be found in ordinary words with spaces between them.
pub(super) const MIN_FORM: usize = 12;
/// How much longer a value becomes by what breaks it, at most; one that is longer is found in part.
pub(super) const MAX_GROWTH: usize = 8;
/// Line ends in the escapes of JSON, of URLs and of HTML. Letters are in lower case.
const ESCAPED: &[&[u8]] =
    &[b"%0a", b"%0d", b"&#10;", b"&#13;", b"&#xa;", b"&#xd;", b"<br>", b"<br/>", b"<br />", b"<wbr>"];
/// After any number of `\`.
const AFTER_BACKSLASH: &[&[u8]] = &[b"n", b"r", b"t", b"u000a", b"u000d", b"u0009", b"x0a", b"x0d"];

/// Bytes without what breaks values.
pub(super) struct Joined {
    pub(super) bytes: Vec<u8>,
    /// For each unbroken run: where it begins in `bytes` and where it was.
    starts: Vec<(usize, usize)>,
}

impl Joined {
    /// Where a byte was.
    pub(super) fn place(&self, at: usize) -> usize {
        let run = self.starts.partition_point(|(joined, _)| *joined <= at) - 1;
        let (joined, original) = self.starts[run];
        original + (at - joined)
    }

    /// Where the bytes of a range were, without what broke them.
    pub(super) fn pieces(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let next = self.starts.partition_point(|(joined, _)| *joined <= at);
            let end = self.starts.get(next).map_or(range.end, |(joined, _)| range.end.min(*joined));
            pieces.push(self.place(at)..self.place(end - 1) + 1);
            at = end;
        }
        pieces
    }
}

pub(super) fn join(bytes: &[u8]) -> Joined {
    let mut joined = Joined { bytes: Vec::with_capacity(bytes.len()), starts: Vec::new() };
    let mut at = 0;
    let mut was_broken = true;
    while at < bytes.len() {
        let length = if MAY_BREAK[usize::from(bytes[at])] { break_at(&bytes[at..]) } else { 0 };
        if length > 0 {
            at += length;
            was_broken = true;
            continue;
        }
        if was_broken {
            joined.starts.push((joined.bytes.len(), at));
            was_broken = false;
        }
        joined.bytes.push(bytes[at]);
        at += 1;
    }
    joined
}

const MAY_BREAK: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b" \t\r\n\"',:=|>\\%&<";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// How many bytes break a value here. An escape that the end cuts off is one.
fn break_at(rest: &[u8]) -> usize {
    match rest[0] {
        b'\\' => {
            let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            slashes + escape(&rest[slashes..], AFTER_BACKSLASH)
        }
        b'%' | b'&' | b'<' => escape(rest, ESCAPED),
        _ => 1,
    }
}

fn escape(rest: &[u8], known: &[&[u8]]) -> usize {
    let fits = |known: &&&[u8]| {
        let length = known.len().min(rest.len());
        rest[..length].eq_ignore_ascii_case(&known[..length])
    };
    known.iter().find(fits).map_or(0, |known| known.len().min(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_lines_is_taken_out_and_places_are_kept() {
        let check = |text: &str, expected: &str| {
            let joined = join(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&joined.bytes), expected, "{text}");
        };
        check("ab\r\ncd", "abcd");
        check("ab\\n\\\\ncd\\/e", "abcd/e");
        check("a%0Ab%41&#10;c<br/>d<b>", "ab%41cd<b");
        check("ab\\u00", "ab");
        check("ab%0", "ab");
        let joined = join(b"x ab\ncd y");
        assert_eq!(joined.pieces(&(1..5)), [2..4, 5..7]);
        assert_eq!(joined.place(3), 5);
        assert_eq!(joined.pieces(&(0..1)).first(), Some(&(0..1)));
    }
}
