//! Takes out what breaks an encoded value into lines: line ends, as they are or escaped, and the spaces, quotes and commas
//! beside them. Characters that are written as escapes of URLs, HTML, JSON or source code are read. The rest is searched as if
//! the value had never been broken or escaped.

use std::ops::Range;

use super::escape;

/// A shorter form would be found in ordinary words with spaces between them.
pub(super) const MIN_FORM: usize = 12;
/// How much longer a value becomes by what breaks it, at most; one that is longer is found in part.
pub(super) const MAX_GROWTH: usize = 8;
/// Line ends in the escapes of JSON, of URLs and of HTML. Letters are in lower case.
const ESCAPED: &[&[u8]] =
    &[b"%0a", b"%0d", b"&#10;", b"&#13;", b"&#xa;", b"&#xd;", b"<br>", b"<br/>", b"<br />", b"<wbr>"];
/// After any number of `\`.
const AFTER_BACKSLASH: &[&[u8]] = &[b"n", b"r", b"t", b"u000a", b"u000d", b"u0009", b"x0a", b"x0d"];

/// How the lines of an event (SSE), a comment, a difference or a list start.
const AFTER_LINE_END: &[&[u8]] = &[b"data:", b"# ", b"// ", b"+ ", b"- ", b"* "];

/// Bytes without what breaks values.
pub(super) struct JoinedBytes {
    pub(super) bytes: Vec<u8>,
    /// Where each unbroken run was.
    runs: Vec<Run>,
}

struct Run {
    /// Where it begins in the joined bytes.
    joined: usize,
    /// Where it was.
    original: usize,
    /// How long one escaped character was written; 1 for plain bytes.
    width: usize,
}

impl JoinedBytes {
    fn run_at(&self, at: usize) -> (&Run, usize) {
        let next = self.runs.partition_point(|run| run.joined <= at);
        (&self.runs[next - 1], next)
    }

    /// Where a byte was.
    pub(super) fn place(&self, at: usize) -> usize {
        let (run, _) = self.run_at(at);
        run.original + (at - run.joined)
    }

    /// Where the bytes of a range were, with what broke them.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let (last, _) = self.run_at(range.end - 1);
        self.place(range.start)..self.place(range.end - 1) + last.width
    }

    /// Where the bytes of a range were, without what broke them.
    pub(super) fn pieces(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (run, next) = self.run_at(at);
            let end = self.runs.get(next).map_or(range.end, |next| range.end.min(next.joined));
            pieces.push(self.place(at)..self.place(end - 1) + run.width);
            at = end;
        }
        pieces
    }
}

pub(super) fn join(bytes: &[u8]) -> JoinedBytes {
    let mut joined = JoinedBytes { bytes: Vec::with_capacity(bytes.len()), runs: Vec::new() };
    let mut at = 0;
    let mut was_broken = true;
    while at < bytes.len() {
        let piece = if MAY_BREAK[usize::from(bytes[at])] { piece_at(&bytes[at..]) } else { Piece::Plain };
        let (length, byte) = match piece {
            Piece::Break(length) => {
                at += length;
                was_broken = true;
                continue;
            }
            Piece::Escaped(byte, length) => (length, byte),
            Piece::Plain => (1, bytes[at]),
        };
        if was_broken || length > 1 {
            joined.runs.push(Run { joined: joined.bytes.len(), original: at, width: length });
        }
        was_broken = length > 1;
        joined.bytes.push(byte);
        at += length;
    }
    joined
}

enum Piece {
    /// So many bytes break a value.
    Break(usize),
    /// A character that is written as an escape, and how long that is.
    Escaped(u8, usize),
    Plain,
}

fn piece_at(rest: &[u8]) -> Piece {
    match escape::read(rest) {
        Some((byte, length)) if MARKS.contains(&byte) => Piece::Break(length),
        Some((byte, length)) => Piece::Escaped(byte, length),
        None if escape::is_cut_off(rest) => Piece::Break(rest.len()),
        None => match break_at(rest) {
            0 => Piece::Plain,
            length => Piece::Break(length),
        },
    }
}

/// They are taken out wherever they are, plain or escaped.
const MARKS: &[u8] = b" \t\r\n\"',:=|>\\";

/// The marks, and where an escape begins.
const MAY_BREAK: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    while at < MARKS.len() {
        table[MARKS[at] as usize] = true;
        at += 1;
    }
    table[b'%' as usize] = true;
    table[b'&' as usize] = true;
    table[b'<' as usize] = true;
    table
};

/// How many bytes break a value here. An escape that the end cuts off is one.
fn break_at(rest: &[u8]) -> usize {
    match rest[0] {
        b'\\' => {
            let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            slashes + line_end(&rest[slashes..], AFTER_BACKSLASH)
        }
        b'%' | b'&' | b'<' => line_end(rest, ESCAPED),
        b'\n' => 1 + line_end(&rest[1..], AFTER_LINE_END),
        b'"' | b'\'' => concatenation(rest),
        _ => 1,
    }
}

/// Source code puts strings together: `"ab" + "cd"`. One quote, if it does not.
fn concatenation(rest: &[u8]) -> usize {
    let spaces = |from: usize| rest[from..].iter().take_while(|byte| **byte == b' ').count();
    let sign = 1 + spaces(1);
    if !matches!(rest.get(sign), Some(b'+' | b'.')) {
        return 1;
    }
    let quote = sign + 1 + spaces(sign + 1);
    if rest.get(quote) == Some(&rest[0]) { quote + 1 } else { 1 }
}

fn line_end(rest: &[u8], known: &[&[u8]]) -> usize {
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
    fn line_breaks_are_removed_and_positions_are_mapped() {
        let check = |text: &str, expected: &str| {
            let joined = join(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&joined.bytes), expected, "{text}");
        };
        check("ab\r\ncd", "abcd");
        check("ab\\n\\\\ncd\\/e", "abcd/e");
        check("a%0Ab%41&#10;c<br/>d<b>", "abAcd<b");
        check("l&#97;b&#x2F;c&plus;\\u002bd\\x65\\/f%2B&amp;amp", "lab/c++de/f+&amp");
        check("ab&#4", "ab");
        check("ab&#400;&unknown;%zz", "ab&#400;&unknown;%zz");
        check("ab\\u00", "ab");
        check("ab%0", "ab");
        check("data: ab\n\ndata: cd\r\ndata:ef\nda", "dataabcdef");
        check("ab\n# cd\n+ ef\n  - gh\n-ij", "abcdef-gh-ij");
        check("\"ab\" + \"cd\".\"ef\"+'gh' + 'ij", "abcdef+ghij");
        check("a\\147\\u{62}c", "agbc");
        let joined = join(b"x ab\ncd y");
        assert_eq!(joined.pieces(&(1..5)), [2..4, 5..7]);
        assert_eq!(joined.original(&(1..5)), 2..7);
        assert_eq!(joined.place(3), 5);
        assert_eq!(joined.pieces(&(0..1)).first(), Some(&(0..1)));
        let joined = join(b"x %61bc&#100;e");
        assert_eq!(joined.bytes, b"xabcde");
        assert_eq!(joined.pieces(&(1..6)), [2..5, 5..7, 7..13, 13..14]);
    }
}
