//! The one-pass search: every literal of every rule, found in one walk over the text without regard to ASCII case.
//! Four bytes at a time are looked up in a table that fits in the fastest cache, without a branch that depends on the
//! text; only where they could begin a literal is anything compared. What a literal means is the caller's; the search
//! only says where it stands.

use std::ops::Range;

use memchr::memmem::Finder;

/// Sixteen bits of hash: two tables of eight kilobytes.
const HASH_BITS: u32 = 17;
const WORDS: usize = 1 << (HASH_BITS - 6);
/// As many places are looked at before those that could begin a literal are compared.
const BLOCK: usize = 2048;
/// An escape before a word is at most this long.
const ESCAPE: usize = 6;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Literal {
    pub(crate) text: &'static str,
    /// Whether case counts.
    pub(crate) is_exact: bool,
    /// Whether it is only of interest where a word begins.
    pub(crate) begins_word: bool,
}

impl Literal {
    /// Anywhere, in any case.
    pub(crate) const fn anywhere(text: &'static str) -> Self {
        Literal { text, is_exact: false, begins_word: false }
    }
}

pub(crate) struct Search<T> {
    table: Table,
    /// Literals of two bytes. There are few, and each is looked for on its own.
    pairs: Vec<(u16, Finder<'static>)>,
    literals: Vec<(Literal, T)>,
}

impl<T> Search<T> {
    /// Literals have two bytes or more.
    pub(crate) fn new(literals: impl IntoIterator<Item = (Literal, T)>) -> Self {
        let literals: Vec<(Literal, T)> = literals.into_iter().collect();
        let (mut entries, mut pairs) = (Vec::new(), Vec::new());
        for (index, (literal, _)) in literals.iter().enumerate() {
            let index = u16::try_from(index).expect("there are not that many literals");
            match literal.text.len() {
                0 | 1 => unreachable!("a literal of one byte would be found everywhere"),
                2 => pairs.extend(spellings(literal).map(|pair| (index, Finder::new(&pair).into_owned()))),
                _ => entries.push(Entry::new(literal, index)),
            }
        }
        // At one place, longer literals come first.
        entries.sort_by_key(|entry| (entry.length == 3, entry.index));
        Search { table: Table::new(&entries), pairs, literals }
    }

    /// Calls `visit` for every occurrence of every literal, overlapping ones included, in order of place.
    pub(crate) fn each<'s>(&'s self, text: &str, mut visit: impl FnMut(&'s T, Range<usize>)) {
        let bytes = text.as_bytes();
        let mut places = [0u32; BLOCK];
        let mut others = Vec::new();
        for start in (0..bytes.len()).step_by(BLOCK) {
            let block = start..bytes.len().min(start + BLOCK);
            let count = self.table.candidates(bytes, &block, &mut places);
            self.after_escapes(bytes, &block, &mut others);
            self.pairs(bytes, &block, &mut others);
            if others.is_empty() {
                for place in &places[..count] {
                    self.compare(bytes, start, *place, &mut visit);
                }
            } else {
                others.extend_from_slice(&places[..count]);
                others.sort_unstable();
                others.dedup();
                for place in others.drain(..) {
                    self.compare(bytes, start, place, &mut visit);
                }
            }
        }
    }

    /// A word may begin right behind an escape such as `\n` or `%20`, where a letter stands before it.
    fn after_escapes(&self, bytes: &[u8], block: &Range<usize>, places: &mut Vec<u32>) {
        let from = block.start.saturating_sub(ESCAPE);
        for at in memchr::memchr2_iter(b'\\', b'%', &bytes[from..block.end]).map(|at| from + at) {
            let behind = (at + 1).max(block.start)..(at + 1 + ESCAPE).min(block.end);
            places.extend(
                behind
                    .filter(|at| self.table.may_begin(four(bytes, *at), u64::MAX))
                    .map(|at| place(at - block.start)),
            );
        }
    }

    fn pairs(&self, bytes: &[u8], block: &Range<usize>, places: &mut Vec<u32>) {
        let window = &bytes[block.start..bytes.len().min(block.end + 1)];
        for (_, finder) in &self.pairs {
            places.extend(finder.find_iter(window).map(|at| place(at) | PAIR));
        }
    }

    #[inline(never)]
    fn compare<'s>(
        &'s self,
        bytes: &[u8],
        start: usize,
        place: u32,
        visit: &mut impl FnMut(&'s T, Range<usize>),
    ) {
        let at = start + (place >> 1) as usize;
        if place & PAIR != 0 {
            let found = self.pairs.iter().filter(|(_, pair)| bytes[at..].starts_with(pair.needle()));
            return found.for_each(|(index, _)| self.verify(bytes, at, *index, visit));
        }
        let beginning = eight(bytes, at);
        for entry in self.table.entries(four(bytes, at)).iter().filter(|entry| entry.begins(beginning)) {
            self.verify(bytes, at, entry.index, visit);
        }
    }

    #[inline(always)]
    fn verify<'s>(
        &'s self,
        bytes: &[u8],
        at: usize,
        index: u16,
        visit: &mut impl FnMut(&'s T, Range<usize>),
    ) {
        let (literal, target) = &self.literals[usize::from(index)];
        let end = at + literal.text.len();
        let Some(part) = bytes.get(at..end) else { return };
        let wanted = literal.text.as_bytes();
        let is_equal = if literal.is_exact { part == wanted } else { part.eq_ignore_ascii_case(wanted) };
        if is_equal && (!literal.begins_word || may_begin_word(bytes, at)) {
            visit(target, at..end);
        }
    }
}

/// Marks a place where a literal of two bytes stands.
const PAIR: u32 = 1;

/// A place in a block, with room for `PAIR`.
fn place(offset: usize) -> u32 {
    (offset as u32) << 1
}

/// A pair in all its cases.
fn spellings(literal: &Literal) -> impl Iterator<Item = [u8; 2]> {
    let [first, second] = [literal.text.as_bytes()[0], literal.text.as_bytes()[1]];
    let cases = |byte: u8| {
        [byte, if literal.is_exact { byte } else { byte ^ (u8::from(byte.is_ascii_alphabetic()) << 5) }]
    };
    let mut all: Vec<[u8; 2]> =
        cases(first).into_iter().flat_map(|one| cases(second).map(|other| [one, other])).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

/// Nothing of a word stands before `at`, or what stands there may belong to an escape such as `\n` or `%20`.
fn may_begin_word(bytes: &[u8], at: usize) -> bool {
    match &bytes[at.saturating_sub(ESCAPE)..at] {
        [] => true,
        [.., before] if !is_word(*before) => true,
        tail => tail.contains(&b'\\') || tail.contains(&b'%'),
    }
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// All bits where a byte does not belong to a word.
const BEFORE_WORD: [u64; 256] = {
    let mut table = [u64::MAX; 256];
    let mut byte = 0;
    while byte < 256 {
        if is_word(byte as u8) {
            table[byte] = 0;
        }
        byte += 1;
    }
    table
};

/// A literal of three bytes or more, with as much of it as can be compared at once.
#[derive(Clone, Copy)]
struct Entry {
    beginning: u64,
    mask: u64,
    length: u8,
    index: u16,
    begins_word: bool,
}

impl Entry {
    fn new(literal: &Literal, index: u16) -> Self {
        let length = literal.text.len().min(8);
        let mask = u64::MAX >> (64 - 8 * length);
        let beginning = (eight(literal.text.as_bytes(), 0) | FOLD) & mask;
        Entry { beginning, mask, length: length as u8, index, begins_word: literal.begins_word }
    }

    #[inline(always)]
    fn begins(&self, text: u64) -> bool {
        (text | FOLD) & self.mask == self.beginning
    }

    /// The four bytes that it may begin with: the fourth byte after a literal of three may be any.
    fn keys(&self) -> impl Iterator<Item = u32> {
        let first = self.beginning as u32;
        let fourth = if self.length == 3 { 0..=255 } else { 0..=0 };
        fourth.map(move |byte: u32| first | (byte << 24) | FOLD as u32)
    }
}

/// Which hashes some literal begins with, and which literals those are.
struct Table {
    /// Of literals that may stand anywhere, and of those that begin a word.
    begins: Box<[[u64; 2]; WORDS]>,
    /// The literals of a hash are `entries[starts[hash]..starts[hash + 1]]`.
    starts: Vec<u16>,
    entries: Vec<Entry>,
}

impl Table {
    fn new(literals: &[Entry]) -> Self {
        let mut keyed: Vec<(u32, Entry)> =
            literals.iter().flat_map(|entry| entry.keys().map(|key| (hash(key), *entry))).collect();
        keyed.sort_by_key(|(hash, _)| *hash);
        keyed.dedup_by_key(|(hash, entry)| (*hash, entry.index));
        let mut begins = Box::new([[0u64; 2]; WORDS]);
        let mut starts = vec![0u16; (1 << HASH_BITS) + 1];
        for (hash, entry) in &keyed {
            begins[(hash >> 6) as usize][usize::from(entry.begins_word)] |= 1 << (hash & 63);
            starts[*hash as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Table { begins, starts, entries: keyed.into_iter().map(|(_, entry)| entry).collect() }
    }

    /// Writes down where in the block a literal could begin, and says how many places there are.
    fn candidates(&self, bytes: &[u8], block: &Range<usize>, places: &mut [u32; BLOCK]) -> usize {
        let mut before =
            block.start.checked_sub(1).map_or(u64::MAX, |at| BEFORE_WORD[usize::from(bytes[at])]);
        let mut count = 0;
        let windows = bytes[block.start..bytes.len().min(block.end + 3)].windows(4);
        let whole = windows.len();
        for (offset, window) in windows.enumerate() {
            let key = u32::from_le_bytes([window[0], window[1], window[2], window[3]]) | FOLD as u32;
            // Always written, and kept only if it counts: a branch here would be guessed wrong all the time.
            places[count % BLOCK] = place(offset);
            count += usize::from(self.may_begin(key, before));
            before = BEFORE_WORD[usize::from(window[0])];
        }
        // At the end of the text there is no fourth byte.
        for at in block.start + whole..block.end {
            places[count % BLOCK] = place(at - block.start);
            count += usize::from(self.may_begin(four(bytes, at), u64::MAX));
        }
        count
    }

    /// Whether a literal could begin with these bytes; `before` are the bits of the byte before them.
    #[inline(always)]
    fn may_begin(&self, key: u32, before: u64) -> bool {
        let hash = hash(key);
        let [anywhere, at_words] = self.begins[(hash >> 6) as usize % WORDS];
        (anywhere | at_words & before) >> (hash & 63) & 1 != 0
    }

    fn entries(&self, key: u32) -> &[Entry] {
        let hash = hash(key) as usize;
        &self.entries[usize::from(self.starts[hash])..usize::from(self.starts[hash + 1])]
    }
}

/// What four bytes are looked up by.
fn four(bytes: &[u8], at: usize) -> u32 {
    (eight(bytes, at) | FOLD) as u32
}

/// The bytes at `at`; after the end of the text there are zeros.
#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    let mut beginning = [0; 8];
    match bytes.get(at..at + 8) {
        Some(part) => beginning.copy_from_slice(part),
        None => {
            let rest = &bytes[at.min(bytes.len())..];
            beginning[..rest.len()].copy_from_slice(rest);
        }
    }
    u64::from_le_bytes(beginning)
}

/// Setting these bits folds the case of letters; that it also joins a few signs costs a comparison now and then.
const FOLD: u64 = 0x2020_2020_2020_2020;

#[inline(always)]
fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Odd literals begin a word, every third one counts case.
    fn leaked(index: usize, text: &str) -> Literal {
        let text = Box::leak(text.to_owned().into_boxed_str());
        Literal { text, is_exact: index % 3 == 2, begins_word: index % 2 == 1 }
    }

    fn found(literals: &[Literal], text: &str) -> Vec<(usize, Range<usize>)> {
        let search = Search::new(literals.iter().enumerate().map(|(index, literal)| (*literal, index)));
        let mut found = Vec::new();
        search.each(text, |index, range| found.push((*index, range)));
        assert!(found.is_sorted_by_key(|(_, range)| range.start), "in order of place");
        found.sort_by_key(|(index, range)| (range.start, *index));
        found
    }

    /// Every literal at every place, without tables.
    fn expected(literals: &[Literal], text: &str) -> Vec<(usize, Range<usize>)> {
        let mut expected = Vec::new();
        for at in 0..text.len() {
            for (index, literal) in literals.iter().enumerate() {
                let range = at..at + literal.text.len();
                let Some(part) = text.as_bytes().get(range.clone()) else { continue };
                let is_equal = part.eq_ignore_ascii_case(literal.text.as_bytes())
                    && (!literal.is_exact || part == literal.text.as_bytes());
                if is_equal && (!literal.begins_word || may_begin_word(text.as_bytes(), at)) {
                    expected.push((index, range));
                }
            }
        }
        expected
    }

    #[test]
    fn literals_overlap_and_end_with_the_text() {
        let literals = ["sk-", "sk-ant", "]("].map(Literal::anywhere);
        assert_eq!(found(&literals, "SK-ANTx]("), [(0, 0..3), (1, 0..6), (2, 7..9)]);
        assert_eq!(found(&["ab", "abc"].map(Literal::anywhere), "ab"), [(0, 0..2)]);
        assert!(found(&["abc"].map(Literal::anywhere), "").is_empty());
    }

    /// Literals, words and escapes on both sides of the border between two blocks.
    #[test]
    fn blocks_leave_no_gap() {
        let literals: Vec<Literal> = ["ab", "abc", "abcd", "](", "abcdefghij"]
            .iter()
            .enumerate()
            .map(|(i, text)| leaked(i, text))
            .collect();
        for piece in ["abcdefghij", " abcdefghij", "\\nabcdefghij", "%20abcd", "\\nabc", "](", "abc"] {
            for place in BLOCK - 16..BLOCK + 4 {
                let text = format!("{}{piece}{}", "x".repeat(place), "x".repeat(BLOCK));
                assert_eq!(found(&literals, &text), expected(&literals, &text), "{piece} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(text in "[abAB_\\]é \\\\%n2-]{0,40}", literals in proptest::collection::vec("[ab_\\]é-]{2,9}", 1..8)) {
            let literals: Vec<Literal> =
                literals.iter().enumerate().map(|(index, text)| leaked(index, text)).collect();
            prop_assert_eq!(found(&literals, &text), expected(&literals, &text));
        }
    }
}
