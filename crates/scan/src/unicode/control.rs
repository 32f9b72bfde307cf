//! What terminals act on: escape sequences, control characters, NUL. Colours are harmless. Sequences that move the cursor,
//! set titles or write the clipboard can make a log show something else.

use std::ops::Range;

use redact::{Severity, rule};

use super::{Mark, next};
use crate::steps;

/// A sequence that does not end soon is cut here; the rest is judged as text.
const MAX_SEQUENCE: usize = 4096;
const ESCAPE: u8 = 0x1b;

pub(super) fn find(text: &str, marks: &mut Vec<Mark>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(place) = next(bytes, at, is_suspect) {
        at = place;
        let Some((mark, end)) = judge(text, at) else {
            at += 1;
            continue;
        };
        at = end;
        match marks.last_mut() {
            // A coloured line is one finding, and so is a file full of NULs.
            Some(last) if last.rule == mark.rule && last.range.end == mark.range.start => {
                last.range.end = end;
            }
            _ => marks.push(mark),
        }
    }
}

/// 0xc2 leads the two bytes of the controls U+0080 to U+009F.
fn is_suspect(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t')) || byte == 0x7f || byte == 0xc2
}

fn judge(text: &str, at: usize) -> Option<(Mark, usize)> {
    let bytes = text.as_bytes();
    let mark = match bytes[at] {
        ESCAPE => escape(text, at),
        0 => Mark::removable(rule::unicode::NUL, Severity::High, at..at + 1),
        // Form feeds separate pages in sources and licences; a backspace erases what it follows on a terminal.
        0x0c => return None,
        0x08 => Mark::removable(rule::unicode::CONTROL_CHARACTER, Severity::Medium, at..at + 1),
        0xc2 => return c1(text, at),
        _ => Mark::removable(rule::unicode::CONTROL_CHARACTER, Severity::Low, at..at + 1),
    };
    let end = mark.range.end;
    Some((mark, end))
}

/// The one-character forms of `ESC [`, `ESC ]` and `ESC P`, and the other C1 controls.
fn c1(text: &str, at: usize) -> Option<(Mark, usize)> {
    let second = text.as_bytes()[at + 1];
    if !(0x80..=0x9f).contains(&second) {
        return None;
    }
    let (severity, end) = match second {
        0x85 => (Severity::Low, at + 2),
        0x9b => (Severity::High, end_of_csi(text, at + 2)),
        0x90 | 0x98 | 0x9d | 0x9e | 0x9f => (Severity::High, end_of_string(text, at + 2)),
        _ => (Severity::Medium, at + 2),
    };
    Some((Mark::removable(rule::unicode::CONTROL_CHARACTER, severity, at..end), end))
}

fn escape(text: &str, at: usize) -> Mark {
    let bytes = text.as_bytes();
    match bytes.get(at + 1) {
        Some(b'[') => {
            let end = end_of_csi(text, at + 2);
            let is_colour = bytes[end - 1] == b'm';
            let severity = if is_colour { Severity::Low } else { Severity::Medium };
            Mark::removable(
                if is_colour { rule::unicode::TERMINAL_COLOUR } else { rule::unicode::TERMINAL_ESCAPE },
                severity,
                at..end,
            )
        }
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let range = at..end_of_string(text, at + 2);
            Mark::removable(rule::unicode::TERMINAL_COMMAND, command_severity(text, &range), range)
        }
        Some(byte) if byte.is_ascii_graphic() => {
            Mark::removable(rule::unicode::TERMINAL_ESCAPE, Severity::Medium, at..at + 2)
        }
        _ => Mark::removable(rule::unicode::TERMINAL_ESCAPE, Severity::Low, at..at + 1),
    }
}

/// Titles and links are harmless; clipboard, device and application commands are not.
fn command_severity(text: &str, range: &Range<usize>) -> Severity {
    let body = &text[range.start + 1..range.end];
    let shows = ["]0;", "]1;", "]2;", "]8;", "]133;", "]9;"];
    if shows.iter().any(|show| body.starts_with(show)) { Severity::Medium } else { Severity::High }
}

fn end_of_csi(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let parameters = bytes[start..].iter().take(64).take_while(|byte| (0x20..=0x3f).contains(*byte)).count();
    let end = start + parameters;
    let has_final = bytes.get(end).is_some_and(|byte| (0x40..=0x7e).contains(byte));
    end + usize::from(has_final)
}

/// Up to BEL or `ESC \` or U+009C; an unfinished sequence takes the rest of its line.
fn end_of_string(text: &str, start: usize) -> usize {
    let limit = text.floor_char_boundary((start + MAX_SEQUENCE).min(text.len()));
    let window = &text.as_bytes()[start..limit];
    steps::count(window.len());
    for (offset, byte) in window.iter().enumerate() {
        match byte {
            0x07 => return start + offset + 1,
            b'\n' => return start + offset,
            &ESCAPE if window.get(offset + 1) == Some(&b'\\') => return start + offset + 2,
            0x9c if offset > 0 && window[offset - 1] == 0xc2 => return start + offset + 1,
            _ => {}
        }
    }
    limit
}
