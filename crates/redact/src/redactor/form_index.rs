//! Finds forms of values in bytes. Each form is found by a few pieces of it, which are then compared with what is around them,
//! so that long keys cost no more than short ones. Most of a form counts as the form; at the cut of a shortened text, a
//! beginning or an end of it counts too.

use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::steps;

/// A shorter fragment reveals nothing.
pub(super) const MIN_FRAGMENT: usize = 8;
/// From this length, half of a value without its start counts as the value.
const MIN_HALF: usize = 16;
/// How many pieces of values are looked for with the faster automaton.
const MAX_FAST_ANCHORS: usize = 1_000;

/// A value as one encoding writes it.
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    /// The value.
    pub(super) owner: usize,
    /// Whether half of it counts as the value. Half of a line does not: lines of a file with a credential can be ordinary text.
    pub(super) counts_by_half: bool,
}

impl Form {
    /// Whether these bytes of the form reveal the value. Tokens of one issuer often start alike, so a start counts less than
    /// other parts.
    fn is_revealed_by(&self, part: &Range<usize>) -> bool {
        let length = self.bytes.len();
        let is_most = part.len() >= MIN_FRAGMENT && part.len() * 4 >= length * 3;
        let is_half = part.start > 0 && part.len() >= MIN_HALF && part.len() * 2 >= length;
        part.len() == length || is_most || (is_half && self.counts_by_half)
    }

    /// Where the pieces are that the automaton looks for: the first and the last, and so many between them that every half
    /// contains one.
    fn anchors(&self, length: usize) -> Vec<usize> {
        let last = self.bytes.len() - length;
        let shortest = MIN_HALF.max(self.bytes.len().div_ceil(2));
        let step = if self.counts_by_half { shortest - length + 1 } else { last.max(1) };
        (0..last).step_by(step).chain([last]).collect()
    }
}

/// A piece of a form that the automaton looks for.
struct Anchor {
    form: usize,
    /// Where the piece is in the form.
    at: usize,
}

/// What a text has of a form.
struct Part {
    form: usize,
    in_form: Range<usize>,
    in_text: Range<usize>,
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
    pub(super) fn starts_at(&mut self, start: usize) {
        self.unfinished = Some(self.unfinished.map_or(start, |earlier| earlier.min(start)));
    }
}

pub(super) struct FormIndex {
    forms: Vec<Form>,
    anchors: Vec<Anchor>,
    /// The starts of all forms that are shorter than a piece.
    starts: HashSet<Vec<u8>>,
    automaton: AhoCorasick,
}

impl FormIndex {
    pub(super) fn new(forms: Vec<Form>) -> Self {
        let mut literals: Vec<&[u8]> = Vec::new();
        let mut anchors = Vec::new();
        let mut starts = HashSet::new();
        for (index, form) in forms.iter().enumerate() {
            let length = form.bytes.len().min(MIN_FRAGMENT);
            starts.extend((1..length).map(|end| form.bytes[..end].to_vec()));
            for at in form.anchors(length) {
                literals.push(&form.bytes[at..at + length]);
                anchors.push(Anchor { form: index, at });
            }
        }
        // The faster kind takes more memory: a few MiB at this bound.
        let kind = (literals.len() <= MAX_FAST_ANCHORS).then_some(AhoCorasickKind::DFA);
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(&literals);
        let automaton = automaton.expect("anchors of eight bytes fit in an automaton");
        Self { forms, anchors, starts, automaton }
    }

    pub(super) fn forms(&self) -> &[Form] {
        &self.forms
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.parts(text.as_bytes()).any(|part| self.forms[part.form].is_revealed_by(&part.in_form))
    }

    /// Finds whole values and most of a value in bytes of any encoding, and the start of one at the end.
    pub(super) fn scan(&self, bytes: &[u8]) -> KnownScan {
        let mut scan = KnownScan::default();
        for part in self.parts(bytes) {
            let form = &self.forms[part.form];
            let is_whole = part.in_form.len() == form.bytes.len();
            // More of the value may follow.
            let is_at_end = part.in_text.end == bytes.len() && part.in_form.end < form.bytes.len();
            if is_whole || (form.is_revealed_by(&part.in_form) && !is_at_end) {
                scan.values.push(part.in_text);
            } else if is_at_end && (part.in_form.start == 0 || form.counts_by_half) {
                scan.starts_at(part.in_text.start);
            }
        }
        let ends = (1..MIN_FRAGMENT.min(bytes.len() + 1)).rev().map(|length| bytes.len() - length);
        if let Some(start) = ends.into_iter().find(|start| self.starts.contains(&bytes[*start..])) {
            scan.starts_at(start);
        }
        scan
    }

    /// Reports each value in a text, and who owns it.
    pub(super) fn find(&self, bytes: &[u8], mut report: impl FnMut(Range<usize>, usize)) {
        for part in self.parts(bytes) {
            let form = &self.forms[part.form];
            steps::count(part.in_text.len());
            let is_start = part.in_form.start == 0 && is_cut_after(bytes, part.in_text.end);
            let is_end = part.in_form.end == form.bytes.len() && is_cut_before(bytes, part.in_text.start);
            let is_cut = part.in_form.len() >= MIN_FRAGMENT && (is_start || is_end);
            if is_cut || form.is_revealed_by(&part.in_form) {
                report(part.in_text, form.owner);
            }
        }
    }

    /// The same, where the end of a text says nothing about a cut.
    pub(super) fn find_uncut(&self, bytes: &[u8], mut report: impl FnMut(Range<usize>, usize)) {
        for part in self.parts(bytes) {
            let form = &self.forms[part.form];
            steps::count(part.in_text.len());
            if form.is_revealed_by(&part.in_form) {
                report(part.in_text, form.owner);
            }
        }
    }

    /// What the bytes have of each form, around each piece that was found.
    fn parts<'s>(&'s self, bytes: &'s [u8]) -> impl Iterator<Item = Part> + 's {
        self.automaton.find_overlapping_iter(bytes).map(|hit| {
            let Anchor { form, at } = self.anchors[hit.pattern().as_usize()];
            let whole = &self.forms[form].bytes;
            let before = common_end(&bytes[..hit.start()], &whole[..at]);
            let after = common_start(&bytes[hit.start()..], &whole[at..]);
            Part {
                form,
                in_form: at - before..at + after,
                in_text: hit.start() - before..hit.start() + after,
            }
        })
    }
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
