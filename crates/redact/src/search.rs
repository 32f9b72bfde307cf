//! Finds the literals of all rules in one pass over the text, ignoring ASCII case. A small table says for each three bytes
//! whether a literal could start with them. The loops over that table have no branches, so that the compiler can use vector
//! instructions. Literals are compared only where one could start. Decision 12 has the numbers.

use std::ops::Range;

/// The sizes of the two tables: by a hash of three bytes, and by a hash of up to six.
const FIRST: usize = 1 << 15;
const SECOND: usize = 1 << 17;
/// How many bytes are looked up before the candidates are compared.
const BLOCK: usize = 2048;
/// How many bytes one loop iteration looks up.
const LANES: usize = 8;
/// An escape before a word is at most this long.
const ESCAPE: usize = 6;

/// A text to find.
#[derive(Debug, Clone, Copy)]
pub struct Literal {
    pub text: &'static str,
    /// Whether case counts.
    pub is_exact: bool,
    /// Whether it must be at the start of a word.
    pub begins_word: bool,
}

impl Literal {
    /// A literal that may be anywhere, in any case.
    pub const fn anywhere(text: &'static str) -> Self {
        Literal { text, is_exact: false, begins_word: false }
    }
}

pub struct Search<T> {
    table: Table,
    literals: Vec<(Literal, T)>,
}

impl<T> Search<T> {
    /// Literals have two bytes or more.
    pub fn new(literals: impl IntoIterator<Item = (Literal, T)>) -> Self {
        let literals: Vec<(Literal, T)> = literals.into_iter().collect();
        let entries = literals.iter().enumerate().map(|(index, (literal, _))| Entry::new(literal, index));
        Search { table: Table::new(entries.collect()), literals }
    }

    /// Calls `visit` for every occurrence of every literal, overlapping ones included, in order of place.
    pub fn each<'s>(&'s self, text: &str, mut visit: impl FnMut(&'s T, Range<usize>)) {
        let bytes = text.as_bytes();
        let mut looked_at = BlockBuffers::new();
        for start in (0..bytes.len()).step_by(BLOCK) {
            let block = start..bytes.len().min(start + BLOCK);
            let mut places = self.table.candidates(bytes, &block, &mut looked_at);
            self.after_escapes(bytes, &block, &mut places);
            for (word, mut places) in places.into_iter().enumerate() {
                while places != 0 {
                    self.compare(bytes, start + 64 * word + places.trailing_zeros() as usize, &mut visit);
                    places &= places - 1;
                }
            }
        }
    }

    /// A word may start right after an escape such as `\n` or `%20`, which ends with a letter or a digit.
    fn after_escapes(&self, bytes: &[u8], block: &Range<usize>, places: &mut Places) {
        let from = block.start.saturating_sub(ESCAPE);
        for at in memchr::memchr2_iter(b'\\', b'%', &bytes[from..block.end]).map(|at| from + at) {
            let behind = (at + 1).max(block.start)..(at + 1 + ESCAPE).min(block.end);
            for at in behind.filter(|at| self.table.may_begin(bytes, *at)) {
                places[(at - block.start) / 64] |= 1 << ((at - block.start) % 64);
            }
        }
    }

    #[inline(always)]
    fn compare<'s>(&'s self, bytes: &[u8], at: usize, visit: &mut impl FnMut(&'s T, Range<usize>)) {
        let beginning = eight(bytes, at) | FOLD;
        if KNOWN_BY.iter().fold(false, |found, known| found | self.table.is_likely(hash(beginning & known))) {
            self.compare_entries(bytes, at, beginning, visit);
        }
    }

    #[inline(never)]
    fn compare_entries<'s>(
        &'s self,
        bytes: &[u8],
        at: usize,
        beginning: u64,
        visit: &mut impl FnMut(&'s T, Range<usize>),
    ) {
        let likely = KNOWN_BY.into_iter().map(|known_by| (known_by, hash(beginning & known_by)));
        for (known_by, hash) in likely.filter(|(_, hash)| self.table.is_likely(*hash)) {
            let entries = self.table.entries(hash).iter();
            for entry in entries.filter(|entry| entry.known_by == known_by && entry.begins(beginning)) {
                self.verify(bytes, at, entry.index, visit);
            }
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

/// Positions in a block, one bit each.
type Places = [u64; BLOCK / 64];

/// Whether a word may start at `at`: no letter or digit is before it, or an escape such as `\n` or `%20` is.
fn may_begin_word(bytes: &[u8], at: usize) -> bool {
    let tail = &bytes[at.saturating_sub(ESCAPE)..at];
    is_word_start(bytes, at) || tail.contains(&b'\\') || tail.contains(&b'%')
}

/// Whether no letter or digit is before `at`. A `_` or `__` that starts a word is emphasis.
pub fn is_word_start(bytes: &[u8], at: usize) -> bool {
    let marks = bytes[at.saturating_sub(3)..at].iter().rev().take_while(|byte| **byte == b'_').count();
    marks < 3 && (at == marks || !bytes[at - marks - 1].is_ascii_alphanumeric())
}

/// An entry of the first table: two bits for each of four classes of the fourth byte. The lower bit means that a literal for
/// any place continues with that class, the upper bit that a literal for the start of a word does.
type PrefixBits = u8;

const ANYWHERE: PrefixBits = 0b0101_0101;
const AT_WORDS: PrefixBits = !ANYWHERE;

/// Which bits count after this byte.
#[inline(always)]
const fn allowed_after(byte: u8) -> PrefixBits {
    let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    let is_digit = byte.wrapping_sub(b'0') < 10;
    if is_letter | is_digit { ANYWHERE } else { ANYWHERE | AT_WORDS }
}

/// Which bits belong to this fourth byte.
#[inline(always)]
const fn going_on_with(byte: u8) -> PrefixBits {
    let low = if byte & 1 == 0 { 0b0011_0011 } else { 0b1100_1100 };
    let high = if byte & 2 == 0 { 0b0000_1111 } else { 0b1111_0000 };
    low & high
}

/// A literal, with its first eight bytes for a quick comparison.
#[derive(Clone, Copy)]
struct Entry {
    beginning: u64,
    mask: u64,
    known_by: u64,
    index: u16,
    begins_word: bool,
}

/// How many bytes of a literal the second table hashes: six, four, three or two, depending on its length.
const KNOWN_BY: [u64; 4] = [u64::MAX >> 16, u64::MAX >> 32, u64::MAX >> 40, u64::MAX >> 48];

impl Entry {
    fn new(literal: &Literal, index: usize) -> Self {
        assert!(literal.text.len() >= 2, "a literal of one byte would be found everywhere");
        let mask = u64::MAX >> (64 - 8 * literal.text.len().min(8));
        let beginning = (eight(literal.text.as_bytes(), 0) | FOLD) & mask;
        let known_by = KNOWN_BY.into_iter().find(|known_by| known_by & mask == *known_by);
        Entry {
            beginning,
            mask,
            known_by: known_by.expect("there are two bytes"),
            index: u16::try_from(index).expect("there are not that many literals"),
            begins_word: literal.begins_word,
        }
    }

    /// Whether text that starts with these folded bytes may start with the literal.
    #[inline(always)]
    fn begins(&self, text: u64) -> bool {
        text & self.mask == self.beginning
    }

    /// Its entries in the first table. Any byte may follow a short literal.
    fn beginnings(&self) -> impl Iterator<Item = (usize, PrefixBits)> {
        let [one, two, three, four, ..] = self.beginning.to_le_bytes();
        let thirds = if three == 0 { 0..=u8::MAX } else { three..=three };
        let fourth = if four == 0 { PrefixBits::MAX } else { going_on_with(four) };
        let place = if self.begins_word { AT_WORDS } else { ANYWHERE };
        thirds.map(move |three| (first_hash(one, two, folded(three)), fourth & place))
    }
}

/// The literals, by the bytes that they start with.
struct Table {
    /// By a hash of three bytes.
    first: Box<[PrefixBits; FIRST]>,
    /// One bit for each hash of `known_by` bytes. It rejects most candidates of the first table.
    second: Box<[u64; SECOND / 64]>,
    /// The literals of that hash are `entries[starts[hash]..starts[hash + 1]]`.
    starts: Vec<u16>,
    entries: Vec<Entry>,
}

impl Table {
    fn new(mut entries: Vec<Entry>) -> Self {
        let mut first = Box::new([0; FIRST]);
        let mut second = Box::new([0; SECOND / 64]);
        let mut starts = vec![0u16; SECOND + 1];
        let hash_of = |entry: &Entry| hash(entry.beginning & entry.known_by);
        entries.sort_by_key(hash_of);
        for entry in &entries {
            for (hash, beginnings) in entry.beginnings() {
                first[hash] |= beginnings;
            }
            let hash = hash_of(entry);
            second[hash / 64] |= 1 << (hash % 64);
            starts[hash + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Table { first, second, starts, entries }
    }

    /// The places of the block where a literal could start. Each loop does one thing to many bytes.
    fn candidates(&self, bytes: &[u8], block: &Range<usize>, looked_at: &mut BlockBuffers) -> Places {
        let length = block.len();
        let BlockBuffers { text, hashes, found } = looked_at;
        let last = (bytes.len() - block.start).min(text.len());
        for (to, byte) in text.iter_mut().zip(&bytes[block.start..]) {
            *to = folded(*byte);
        }
        text[last..].fill(folded(0));
        let windows = text.iter().zip(&text[1..]).zip(&text[2..]);
        for (to, ((one, two), three)) in hashes[..length].iter_mut().zip(windows) {
            *to = first_hash(*one, *two, *three) as u16;
        }
        let lanes = found[..length.next_multiple_of(LANES)].as_chunks_mut::<LANES>().0.iter_mut();
        for (to, hashes) in lanes.zip(hashes.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                to[lane] = self.first[usize::from(hashes[lane]) % FIRST];
            }
        }
        found[0] &= block.start.checked_sub(1).map_or(PrefixBits::MAX, |before| allowed_after(bytes[before]));
        found[0] &= going_on_with(text[3]);
        let around = bytes[block.start..].iter().zip(&text[4..]);
        for (found, (before, fourth)) in found[1..length].iter_mut().zip(around) {
            *found &= allowed_after(*before) & going_on_with(*fourth);
        }
        let whole = length.next_multiple_of(64);
        found[length..whole].fill(0);
        let mut places = Places::default();
        for (to, found) in places.iter_mut().zip(found[..whole].as_chunks::<64>().0) {
            *to = bits(found);
        }
        places
    }

    /// Whether a literal could start here, by three bytes alone and whatever is before them.
    fn may_begin(&self, bytes: &[u8], at: usize) -> bool {
        let [one, two, three, ..] = (eight(bytes, at) | FOLD).to_le_bytes();
        self.first[first_hash(one, two, three)] != 0
    }

    #[inline(always)]
    fn is_likely(&self, hash: usize) -> bool {
        self.second[hash / 64] >> (hash % 64) & 1 != 0
    }

    fn entries(&self, hash: usize) -> &[Entry] {
        &self.entries[usize::from(self.starts[hash])..usize::from(self.starts[hash + 1])]
    }
}

/// Buffers for one block, reused for the next.
struct BlockBuffers {
    text: [u8; BLOCK + 3],
    hashes: [u16; BLOCK],
    found: [PrefixBits; BLOCK],
}

impl BlockBuffers {
    fn new() -> Self {
        BlockBuffers { text: [0; BLOCK + 3], hashes: [0; BLOCK], found: [0; BLOCK] }
    }
}

/// One bit for each byte that is not zero.
#[inline(always)]
fn bits(bytes: &[u8; 64]) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    bytes.as_chunks::<8>().0.iter().rev().fold(0, |bits, eight| {
        let eight = u64::from_le_bytes(*eight);
        let ones = (((eight & LOW) + LOW) | eight) >> 7 & 0x0101_0101_0101_0101;
        // Gathers the eight bits in the highest byte.
        bits << 8 | ones.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// The bytes at `at`, padded with zeros at the end of the text.
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

/// Setting these bits folds the case of letters. It also folds a few other characters, which costs extra comparisons.
const FOLD: u64 = 0x2020_2020_2020_2020;

#[inline(always)]
const fn folded(byte: u8) -> u8 {
    byte | FOLD as u8
}

/// A hash of 16 bits, so that one vector instruction computes many.
#[inline(always)]
fn first_hash(one: u8, two: u8, three: u8) -> usize {
    let times = |byte: u8, factor: u16| u16::from(byte).wrapping_mul(factor);
    let sum = times(one, 0x9e37).wrapping_add(times(two, 0x79b1)).wrapping_add(times(three, 0x2c1b));
    usize::from(sum >> 1) % FIRST
}

#[inline(always)]
fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SECOND.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Literals with an odd index start a word; every third one is exact.
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

    /// The plain search: each literal at each place.
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

    /// Literals, words and escapes at the border between two blocks.
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
