//! The known values of this run, in all their forms: as they are, and without what may break them into lines.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;

use super::form_index::{Form, FormIndex, KnownScan, MIN_FRAGMENT};
use super::marker::{self, Marker};
use super::{Mask, Redactor, ValueTooShort, broken, forms, rare_forms, wrapped};

/// From this length, each line of a known value counts as a known value, because tools print files by line.
const MIN_LINE: usize = 16;

#[derive(Default)]
pub(super) struct KnownValues {
    names: Vec<String>,
    lines: Vec<Line>,
    /// Built when it is needed: a run adds its values one after the other.
    index: OnceLock<Index>,
    unbroken: OnceLock<Option<FormIndex>>,
}

/// A value, or a long line of one.
struct Line {
    owner: usize,
    bytes: Vec<u8>,
    is_line: bool,
}

struct Index {
    forms: FormIndex,
    markers: Vec<String>,
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
        Ok(known)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The forms that span lines; a stream may not be cut inside one.
    pub(super) fn forms_over_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.forms().map(|form| form.bytes.as_slice()).filter(|bytes| bytes.contains(&b'\n'))
    }

    pub(super) fn longest_form(&self) -> usize {
        self.forms().map(|form| form.bytes.len()).max().unwrap_or(0)
    }

    /// How many bytes before a place may belong to a value that ends there.
    pub(super) fn longest_reach(&self) -> usize {
        // Two characters for each byte: the longest form that is often written in lines is hexadecimal.
        let broken = self.lines.iter().map(|line| 2 * line.bytes.len()).max().unwrap_or(0);
        self.longest_form().max(broken * broken::MAX_GROWTH)
    }

    fn add(&mut self, value: &[u8]) {
        let owner = self.names.len() - 1;
        self.lines.push(Line { owner, bytes: value.to_vec(), is_line: false });
        if value.contains(&b'\n') {
            let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            let long = lines.filter(|line| line.len() >= MIN_LINE);
            self.lines.extend(long.map(|line| Line { owner, bytes: line.to_vec(), is_line: true }));
        }
    }

    fn forms(&self) -> impl Iterator<Item = &Form> {
        self.index().into_iter().flat_map(|index| index.forms.forms())
    }

    /// `None` if no value is known.
    fn index(&self) -> Option<&Index> {
        let build = || {
            let forms = FormIndex::new(self.lines.iter().flat_map(Line::forms).collect());
            let choose = |name: &String| marker::choose(name, |text| forms.is_in(text));
            let markers = self.names.iter().map(choose).collect();
            Index { forms, markers }
        };
        (!self.lines.is_empty()).then(|| self.index.get_or_init(build))
    }

    /// The same values without what may break them, to be found in bytes without it. `None` if all values are too short.
    fn unbroken(&self) -> Option<&FormIndex> {
        let build = || {
            let forms: Vec<Form> = self.lines.iter().flat_map(Line::unbroken_forms).collect();
            (!forms.is_empty()).then(|| FormIndex::new(forms))
        };
        self.unbroken.get_or_init(build).as_ref()
    }

    /// Finds whole values and most of a value in bytes of any encoding, and the start of one at the end; also such that are
    /// broken into lines.
    pub(super) fn scan(&self, bytes: &[u8]) -> KnownScan {
        let Some(index) = self.index() else { return KnownScan::default() };
        let mut scan = index.forms.scan(bytes);
        let end = bytes.len();
        scan.cut.extend(scan.unfinished.filter(|start| end - start >= MIN_FRAGMENT).map(|start| start..end));
        self.scan_broken(bytes, &mut scan, |_| true);
        scan
    }

    /// Finds only values that are broken into lines, and not those that have these line ends themselves.
    pub(super) fn scan_over_lines(&self, bytes: &[u8]) -> KnownScan {
        let Some(index) = self.index() else { return KnownScan::default() };
        let whole = index.forms.scan(bytes);
        let mut scan = KnownScan { unfinished: whole.unfinished, ..KnownScan::default() };
        self.scan_broken(bytes, &mut scan, |place| {
            let is_inside = |value: &Range<usize>| value.start <= place.start && place.end <= value.end;
            memchr::memchr(b'\n', &bytes[place.clone()]).is_some() && !whole.values.iter().any(is_inside)
        });
        scan
    }

    fn scan_broken(&self, bytes: &[u8], scan: &mut KnownScan, counts: impl Fn(&Range<usize>) -> bool) {
        let Some(unbroken) = self.unbroken() else { return };
        let joined = broken::join(bytes);
        if joined.bytes.len() == bytes.len() {
            return;
        }
        let found = unbroken.scan(&joined.bytes);
        let values = found.values.into_iter().filter(|value| counts(&joined.original(value)));
        scan.values.extend(values.flat_map(|value| joined.pieces(&value)));
        let end = joined.bytes.len();
        if let Some(start) = found.unfinished.filter(|start| end - start >= MIN_FRAGMENT) {
            scan.starts_at(joined.place(start));
            let cut = start..end;
            if counts(&joined.original(&cut)) {
                scan.cut.extend(joined.pieces(&cut));
            }
        }
    }

    pub(super) fn write_marker(&self, marker: &Marker, masked: &mut String) {
        let index = self.index();
        match marker {
            Marker::Known(owner) => masked.push_str(index.map_or("***", |index| &index.markers[*owner])),
            Marker::Format(name) => {
                let holds_value = |text: &str| index.is_some_and(|index| index.forms.is_in(text));
                masked.push_str(&marker::choose(name, holds_value));
            }
        }
    }

    pub(super) fn find(&self, text: &str, masks: &mut Vec<Mask>) {
        let Some(index) = self.index() else { return };
        index.forms.find(text.as_bytes(), |range, owner| masks.push(mask(text, range, owner)));
        // `base64` wraps its lines: such blocks are searched again without line ends.
        for block in wrapped::blocks(text) {
            index.forms.find(block.joined.as_bytes(), |range, owner| {
                masks.push(mask(text, block.original(&range), owner));
            });
        }
        self.find_broken(text, masks);
    }

    /// Finds values that are broken into lines, or with some of their characters escaped.
    fn find_broken(&self, text: &str, masks: &mut Vec<Mask>) {
        let joined = broken::join(text.as_bytes());
        if joined.bytes.len() == text.len() {
            return;
        }
        let Some(unbroken) = self.unbroken() else { return };
        unbroken.find_uncut(&joined.bytes, |range, owner| {
            masks.push(mask(text, joined.original(&range), owner));
        });
    }
}

impl Line {
    fn forms(&self) -> Vec<Form> {
        let usual = forms::line_forms(&self.bytes);
        let mut written = forms::forms(&self.bytes);
        written.extend(self.rare_forms());
        let form = |bytes: Vec<u8>| {
            let counts_by_half = !self.is_line && usual.contains(&bytes);
            Form { bytes, owner: self.owner, counts_by_half }
        };
        written.into_iter().map(form).collect()
    }

    fn unbroken_forms(&self) -> Vec<Form> {
        let usual = forms::line_forms(&self.bytes).into_iter().map(|form| (form, !self.is_line));
        let all = usual.chain(self.rare_forms().into_iter().map(|form| (form, false)));
        let joined = all.map(|(form, counts_by_half)| (broken::join(&form).bytes, counts_by_half));
        // Numbers are joined already, and contain nothing that breaks them.
        let found = joined.chain(rare_forms::number_forms(&self.bytes).map(|form| (form, false)));
        let long = found.filter(|(bytes, _)| bytes.len() >= broken::MIN_FORM);
        long.map(|(bytes, counts_by_half)| Form { bytes, owner: self.owner, counts_by_half }).collect()
    }

    fn rare_forms(&self) -> BTreeSet<Vec<u8>> {
        if self.is_line { BTreeSet::new() } else { rare_forms::rare_forms(&self.bytes) }
    }
}

/// A known value of arbitrary bytes may start inside a character; the mask covers the whole character.
fn mask(text: &str, range: Range<usize>, owner: usize) -> Mask {
    let range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
    Mask { range, marker: Marker::Known(owner) }
}
