//! JSON as it is meant. Escapes hide words from the rules, so its strings are read a second time without them; what only
//! shows then gets the place of its string in the file.

use std::ops::Range;

use crate::finding::Finding;
use crate::position::LineIndex;
use crate::redact::json::{self, JsonString};
use crate::scanner::decode;

/// What `find` finds in a text as it is written and, where that is JSON, in its strings as they are meant.
pub fn find_as_meant(bytes: &[u8], find: impl Fn(&str) -> Vec<Finding>) -> Vec<Finding> {
    let text = decode(bytes);
    let mut findings = find(&text);
    let Some(meant) = Meant::of(&text) else { return findings };
    let (lines, written) = (LineIndex::new(&text), findings.len());
    for finding in find(&meant.text) {
        let Range { start, end } = meant.written(finding.span.start, finding.span.end);
        let is_same = |one: &Finding| {
            let overlaps = one.span.start < end && start < one.span.end;
            one.rule == finding.rule && one.severity >= finding.severity && overlaps
        };
        if !findings[..written].iter().any(is_same) {
            findings.push(Finding { span: lines.span(start, end), ..finding });
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The strings of a JSON text, one a line, each value behind its key.
struct Meant {
    text: String,
    /// Where each string begins in `text`, and where it is written.
    strings: Vec<(usize, Range<usize>)>,
}

impl Meant {
    /// `None` where nothing is escaped, or where it does not begin as a document or a line of JSON does.
    fn of(text: &str) -> Option<Self> {
        let begins = text.trim_start_matches('\u{feff}').trim_start();
        if !text.contains('\\') || !begins.starts_with(['{', '[']) {
            return None;
        }
        let strings = json::strings(begins).map(|strings| moved(strings, text.len() - begins.len()));
        let strings = strings.unwrap_or_else(|| line_by_line(text));
        let mut meant = Self { text: String::with_capacity(text.len()), strings: Vec::new() };
        for JsonString { range, meant: string, has_value } in strings {
            meant.strings.push((meant.text.len(), range));
            meant.text.push_str(&string);
            meant.text.push_str(if has_value { ": " } else { "\n" });
        }
        Some(meant)
    }

    /// Where a part of the meant text is written: in one string or in several.
    fn written(&self, start: usize, end: usize) -> Range<usize> {
        let string = |at: usize| {
            let behind = self.strings.partition_point(|(begins, _)| *begins <= at);
            self.strings.get(behind.saturating_sub(1)).map_or(0..0, |(_, range)| range.clone())
        };
        string(start).start..string(end.saturating_sub(1).max(start)).end
    }
}

/// One line that is no JSON does not hide the others.
fn line_by_line(text: &str) -> Vec<JsonString> {
    let mut at = 0;
    let mut all = Vec::new();
    for line in text.split_inclusive('\n') {
        all.extend(moved(json::strings(line).unwrap_or_default(), at));
        at += line.len();
    }
    all
}

fn moved(mut strings: Vec<JsonString>, by: usize) -> Vec<JsonString> {
    for string in &mut strings {
        string.range = string.range.start + by..string.range.end + by;
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Scanner};

    /// Rules with their lines and what is written there.
    #[track_caller]
    fn check(text: &str, expected: &[(&str, u32, &str)]) {
        let findings = find_as_meant(text.as_bytes(), |text| Scanner::default().scan(text, Origin::Tool));
        let found: Vec<(&str, u32, &str)> = findings
            .iter()
            .map(|finding| (finding.rule, finding.span.line, &text[finding.span.start..finding.span.end]))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn an_escape_elsewhere_changes_nothing() {
        let found = [("password-assignment", 2, "hunter2-rainbow")];
        check("{\"a\": \"b\",\n\"db_password\": \"hunter2-rainbow\"}", &found);
        check("{\"a\": \"b\\n\",\n\"db_password\": \"hunter2-rainbow\"}", &found);
        check("{\"a\": \"b\\n\"}\n{\"db_password\": \"hunter2-rainbow\"}\n", &found);
    }

    #[test]
    fn what_an_escape_hides_has_the_place_of_its_string() {
        let hidden = [("bidirectional-control", 2, r#""x\u202ey""#)];
        check("{\"a\": 1,\n\"b\": \"x\\u202ey\"}", &hidden);
        check("\u{feff}{\"a\": 1,\n\"b\": \"x\\u202ey\"}", &hidden);
        check("{\"a\": no json}\n{\"b\": \"x\\u202ey\"}\n", &hidden);
        let key = [("password-assignment", 1, r#""hunter2-rainbow""#)];
        check(r#"{"db_p\u0061ssword": "hunter2-rainbow", "n": "x"}"#, &key);
        check(r#"{"db_p\u0061ssword": null, "n": "hunter2-rainbow"}"#, &[]);
        check("no \\u202e json", &[]);
    }
}
