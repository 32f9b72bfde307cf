//! Finds the known values of this run in all their forms. Each form is found by its first and last bytes and then compared
//! in full, so that long keys cost no more than short ones. At the cut of a shortened text, a beginning or an end of a value
//! counts too.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::marker::{self, Marker};
use super::{Mask, Redactor, ValueTooShort, broken, forms, wrapped};
use crate::steps;

/// A shorter fragment reveals nothing.
pub(super) const MIN_FRAGMENT: usize = 8;
/// From this length, each line of a known value counts as a known value, because tools print files by line.
const MIN_LINE: usize = 16;
/// How many pieces of values are looked for with the faster automaton.
const MAX_FAST_ANCHORS: usize = 1_000;

#[derive(Default)]
pub(super) struct KnownValues {
    names: Vec<String>,
    /// The values and their long lines, each with its value.
    lines: Vec<(usize, Vec<u8>)>,
    markers: Vec<String>,
    forms: Vec<Form>,
    anchors: Vec<Anchor>,
    automaton: Option<AhoCorasick>,
    /// The same values without what may break them, to be found in bytes without it.
    unbroken: Option<Box<KnownValues>>,
}

struct Form {
    bytes: Vec<u8>,
    owner: usize,
}

/// A piece of a form that the automaton looks for.
struct Anchor {
    form: usize,
    is_end: bool,
}

/// Where known values are in some bytes.
#[derive(Default)]
pub(super) struct KnownScan {
    pub(super) values: Vec<Range<usize>>,
    /// From here to the end the bytes may be the start of a value.
    pub(super) unfinished: Option<usize>,
    /// The bytes of such a start, if it is long enough to reveal something.
    pub(super) cut: Vec<Range<usize>>,
}

impl KnownScan {
    fn starts_at(&mut self, start: usize) {
        self.unfinished = Some(self.unfinished.map_or(start, |earlier| earlier.min(start)));
    }
}

impl KnownValues {
    pub(super) fn new<N, V>(values: impl IntoIterator<Item = (N, V)>) -> Result<Self, ValueTooShort>
    where
        N: AsRef<str>,
        V: AsRef<[u8]>,
    {
        let mut known = KnownValues::default();
        for (name, value) in values {
            let name = name.as_ref();
            let value = value.as_ref();
            let trimmed = value.trim_ascii();
            if trimmed.len() < Redactor::MIN_KNOWN {
                return Err(ValueTooShort { name: name.to_owned() });
            }
            known.names.push(name.to_owned());
            known.add(trimmed);
        }
        known.build();
        known.unbroken = known.without_breaks().map(Box::new);
        Ok(known)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The longest form that spans lines; a stream may not be cut inside one.
    pub(super) fn forms_over_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.forms.iter().map(|form| form.bytes.as_slice()).filter(|bytes| bytes.contains(&b'\n'))
    }

    pub(super) fn longest_form(&self) -> usize {
        self.forms.iter().map(|form| form.bytes.len()).max().unwrap_or(0)
    }

    /// How many bytes before a place may belong to a value that ends there.
    pub(super) fn longest_reach(&self) -> usize {
        let broken = self.unbroken.as_ref().map_or(0, |unbroken| unbroken.longest_form());
        self.longest_form().max(broken * broken::MAX_GROWTH)
    }

    fn without_breaks(&self) -> Option<Self> {
        let mut forms: Vec<Form> = Vec::new();
        for (owner, value) in &self.lines {
            let joined = forms::line_forms(value).into_iter().map(|form| broken::join(&form).bytes);
            let found = joined.filter(|bytes| bytes.len() >= broken::MIN_FORM);
            forms.extend(found.map(|bytes| Form { bytes, owner: *owner }));
        }
        let mut unbroken = Self { names: self.names.clone(), forms, ..Self::default() };
        unbroken.build();
        unbroken.automaton.is_some().then_some(unbroken)
    }

    fn add(&mut self, value: &[u8]) {
        let owner = self.names.len() - 1;
        let mut parts = vec![value];
        if value.contains(&b'\n') {
            parts.extend(
                value
                    .split(|byte| *byte == b'\n')
                    .map(<[u8]>::trim_ascii)
                    .filter(|line| line.len() >= MIN_LINE),
            );
        }
        for part in parts {
            self.lines.push((owner, part.to_vec()));
            self.forms.extend(forms::forms(part).into_iter().map(|bytes| Form { bytes, owner }));
        }
    }

    fn build(&mut self) {
        if self.forms.is_empty() {
            return;
        }
        let mut literals: Vec<&[u8]> = Vec::new();
        for (index, form) in self.forms.iter().enumerate() {
            let length = form.bytes.len().min(MIN_FRAGMENT);
            literals.push(&form.bytes[..length]);
            self.anchors.push(Anchor { form: index, is_end: false });
            literals.push(&form.bytes[form.bytes.len() - length..]);
            self.anchors.push(Anchor { form: index, is_end: true });
        }
        // The faster kind takes more memory: a few MiB at this bound.
        let kind = (literals.len() <= MAX_FAST_ANCHORS).then_some(AhoCorasickKind::DFA);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(&literals);
        self.automaton = Some(automaton.expect("anchors of eight bytes fit in an automaton"));
        self.markers =
            self.names.iter().map(|name| marker::choose(name, |text| self.holds_value(text))).collect();
    }

    fn holds_value(&self, text: &str) -> bool {
        self.forms.iter().any(|form| memchr::memmem::find(text.as_bytes(), &form.bytes).is_some())
    }

    /// Finds whole values and most of a value in bytes of any encoding, and the start of one at the end; also such that are
    /// broken into lines.
    pub(super) fn scan(&self, bytes: &[u8]) -> KnownScan {
        let mut scan = self.scan_whole(bytes);
        let end = bytes.len();
        scan.cut.extend(scan.unfinished.filter(|start| end - start >= MIN_FRAGMENT).map(|start| start..end));
        let Some(unbroken) = &self.unbroken else { return scan };
        let joined = broken::join(bytes);
        if joined.bytes.len() == bytes.len() {
            return scan;
        }
        let found = unbroken.scan_whole(&joined.bytes);
        scan.values.extend(found.values.into_iter().flat_map(|value| joined.pieces(&value)));
        let end = joined.bytes.len();
        if let Some(start) = found.unfinished.filter(|start| end - start >= MIN_FRAGMENT) {
            scan.starts_at(joined.place(start));
            scan.cut.extend(joined.pieces(&(start..end)));
        }
        scan
    }

    fn scan_whole(&self, bytes: &[u8]) -> KnownScan {
        let mut scan = KnownScan::default();
        let Some(automaton) = &self.automaton else { return scan };
        for hit in automaton.find_overlapping_iter(bytes) {
            let anchor = &self.anchors[hit.pattern().as_usize()];
            let form = &self.forms[anchor.form].bytes;
            let range = if anchor.is_end {
                hit.end() - common_end(&bytes[..hit.end()], form)..hit.end()
            } else {
                hit.start()..hit.start() + common_start(&bytes[hit.start()..], form)
            };
            let is_most = range.len() >= MIN_FRAGMENT && range.len() * 4 >= form.len() * 3;
            if range.len() == form.len() || (is_most && range.end < bytes.len()) {
                scan.values.push(range);
            } else if !anchor.is_end && range.end == bytes.len() {
                scan.starts_at(range.start);
            }
        }
        for form in &self.forms {
            let most = form.bytes.len().saturating_sub(1).min(MIN_FRAGMENT - 1);
            if let Some(length) = (1..=most).rev().find(|length| bytes.ends_with(&form.bytes[..*length])) {
                scan.starts_at(bytes.len() - length);
            }
        }
        scan
    }

    pub(super) fn write_marker(&self, marker: &Marker, masked: &mut String) {
        match marker {
            Marker::Known(owner) => masked.push_str(&self.markers[*owner]),
            Marker::Format(name) => masked.push_str(&marker::choose(name, |text| self.holds_value(text))),
        }
    }

    pub(super) fn find(&self, text: &str, masks: &mut Vec<Mask>) {
        let Some(automaton) = &self.automaton else { return };
        self.find_in(automaton, text.as_bytes(), |range, owner| masks.push(mask(text, range, owner)));
        // `base64` wraps its lines: such blocks are searched again without line ends.
        for block in wrapped::blocks(text) {
            self.find_in(automaton, block.joined.as_bytes(), |range, owner| {
                masks.push(mask(text, block.original(&range), owner));
            });
        }
    }

    fn find_in(&self, automaton: &AhoCorasick, bytes: &[u8], mut report: impl FnMut(Range<usize>, usize)) {
        for hit in automaton.find_overlapping_iter(bytes) {
            let anchor = &self.anchors[hit.pattern().as_usize()];
            let form = &self.forms[anchor.form];
            let range = if anchor.is_end {
                let common = common_end(&bytes[..hit.end()], &form.bytes);
                hit.end() - common..hit.end()
            } else {
                let common = common_start(&bytes[hit.start()..], &form.bytes);
                hit.start()..hit.start() + common
            };
            steps::count(range.len());
            let is_whole = range.len() == form.bytes.len();
            let is_cut = || {
                if anchor.is_end { is_cut_before(bytes, range.start) } else { is_cut_after(bytes, range.end) }
            };
            if is_whole || (range.len() >= MIN_FRAGMENT && is_cut()) {
                report(range, form.owner);
            }
        }
    }
}

/// A known value of arbitrary bytes may start inside a character; the mask covers the whole character.
fn mask(text: &str, range: Range<usize>, owner: usize) -> Mask {
    let range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
    Mask { range, marker: Marker::Known(owner) }
}

fn common_start(text: &[u8], form: &[u8]) -> usize {
    text.iter().zip(form).take_while(|(a, b)| a == b).count()
}

fn common_end(text: &[u8], form: &[u8]) -> usize {
    text.iter().rev().zip(form.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Tools that shorten their output write dots or a note in brackets at the cut.
fn is_cut_after(bytes: &[u8], at: usize) -> bool {
    let rest = bytes[at..].trim_ascii_start();
    rest.is_empty()
        || rest.starts_with(b"...")
        || rest.starts_with("…".as_bytes())
        || matches!(rest[0], b'[' | b'<' | b'(')
}

fn is_cut_before(bytes: &[u8], at: usize) -> bool {
    let rest = bytes[..at].trim_ascii_end();
    let closes = |byte: u8| matches!(byte, b']' | b'>' | b')');
    rest.is_empty()
        || rest.ends_with(b"...")
        || rest.ends_with("…".as_bytes())
        || closes(rest[rest.len() - 1])
}
