//! The one-pass search: every literal of every rule, found in one walk over the text without regard to ASCII case.
//! Four bytes at a time are looked up in a small table that fits in the fastest cache; only where they could begin
//! a literal is anything compared. What a literal means is the caller's; the search only says where it stands.

use std::ops::Range;

/// Sixteen bits of hash: eight kilobytes of table for each kind of literal.
const HASH_BITS: u32 = 16;
const WORDS: usize = 1 << (HASH_BITS - 6);

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
    /// Literals of four bytes and more, by their first four.
    long: Table,
    /// The others, by three; the third byte of a literal of two may be any.
    short: Table,
    literals: Vec<(Literal, T)>,
}

impl<T> Search<T> {
    /// Literals have two bytes or more.
    pub(crate) fn new(literals: impl IntoIterator<Item = (Literal, T)>) -> Self {
        let literals: Vec<(Literal, T)> = literals.into_iter().collect();
        let (mut long, mut short) = (Vec::new(), Vec::new());
        for (index, (literal, _)) in literals.iter().enumerate() {
            let index = u16::try_from(index).expect("there are not that many literals");
            match *literal.text.as_bytes() {
                [a, b, c, d, ..] => long.push((hash(key([a, b, c, d])), index)),
                [a, b, c] => short.push((hash(key([a, b, c, 0])), index)),
                [a, b] => short.extend((0..=255).map(|c| (hash(key([a, b, c, 0])), index))),
                _ => unreachable!("a literal of one byte would be found everywhere"),
            }
        }
        Search { long: Table::new(long), short: Table::new(short), literals }
    }

    /// Calls `visit` for every occurrence of every literal, overlapping ones included, in order of place.
    pub(crate) fn each<'s>(&'s self, text: &str, mut visit: impl FnMut(&'s T, Range<usize>)) {
        let bytes = text.as_bytes();
        for (at, window) in bytes.windows(4).enumerate() {
            let key = key([window[0], window[1], window[2], window[3]]);
            let (long, short) = (hash(key), hash(key & SHORT));
            if self.long.bit(long) | self.short.bit(short) != 0 {
                self.compare(bytes, at, self.long.entries(long), &mut visit);
                self.compare(bytes, at, self.short.entries(short), &mut visit);
            }
        }
        // The last bytes have no fourth; only a short literal can stand there.
        for at in bytes.len().saturating_sub(3)..bytes.len() {
            let third = bytes.get(at + 2).copied().unwrap_or(0);
            let second = bytes.get(at + 1).copied().unwrap_or(0);
            let short = hash(key([bytes[at], second, third, 0]) & SHORT);
            self.compare(bytes, at, self.short.entries(short), &mut visit);
        }
    }

    #[inline(never)]
    fn compare<'s>(
        &'s self,
        bytes: &[u8],
        at: usize,
        entries: &[u16],
        visit: &mut impl FnMut(&'s T, Range<usize>),
    ) {
        for index in entries {
            let (literal, target) = &self.literals[usize::from(*index)];
            let end = at + literal.text.len();
            let Some(part) = bytes.get(at..end) else { continue };
            let wanted = literal.text.as_bytes();
            let is_equal = if literal.is_exact { part == wanted } else { part.eq_ignore_ascii_case(wanted) };
            if is_equal && (!literal.begins_word || may_begin_word(bytes, at)) {
                visit(target, at..end);
            }
        }
    }
}

/// Nothing of a word stands before `at`, or what stands there may belong to an escape such as `\n` or `%20`.
fn may_begin_word(bytes: &[u8], at: usize) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match &bytes[at.saturating_sub(6)..at] {
        [] => true,
        [.., before] if !is_word(*before) => true,
        tail => tail.contains(&b'\\') || tail.contains(&b'%'),
    }
}

/// Which hashes some literal begins with, and which literals those are.
struct Table {
    begins: Box<[u64; WORDS]>,
    /// The literals of a hash are `entries[starts[hash]..starts[hash + 1]]`.
    starts: Vec<u32>,
    entries: Vec<u16>,
}

impl Table {
    fn new(mut keyed: Vec<(u32, u16)>) -> Self {
        keyed.sort_unstable();
        keyed.dedup();
        let mut begins = Box::new([0u64; WORDS]);
        let mut starts = vec![0u32; (1 << HASH_BITS) + 1];
        for (hash, _) in &keyed {
            begins[(hash >> 6) as usize] |= 1 << (hash & 63);
            starts[*hash as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Table { begins, starts, entries: keyed.into_iter().map(|(_, index)| index).collect() }
    }

    #[inline(always)]
    fn bit(&self, hash: u32) -> u64 {
        self.begins[(hash >> 6) as usize % WORDS] >> (hash & 63) & 1
    }

    fn entries(&self, hash: u32) -> &[u16] {
        let (from, to) = (self.starts[hash as usize], self.starts[hash as usize + 1]);
        &self.entries[from as usize..to as usize]
    }
}

/// The bytes that short literals are hashed by, with the fourth as `key` leaves a zero.
const SHORT: u32 = 0x20ff_ffff;

/// Setting this bit folds the case of letters; that it also joins a few signs costs a comparison now and then.
#[inline(always)]
fn key(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes) | 0x2020_2020
}

#[inline(always)]
fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(literals: &[&str], text: &str) -> Vec<(usize, Range<usize>)> {
        let leaked = |literal: &str| Literal::anywhere(Box::leak(literal.to_owned().into_boxed_str()));
        let search =
            Search::new(literals.iter().enumerate().map(|(index, literal)| (leaked(literal), index)));
        let mut found = Vec::new();
        search.each(text, |index, range| found.push((*index, range)));
        found.sort_by_key(|(index, range)| (range.start, *index));
        found
    }

    #[test]
    fn literals_overlap_and_end_with_the_text() {
        assert_eq!(found(&["sk-", "sk-ant", "]("], "SK-ANTx]("), [(0, 0..3), (1, 0..6), (2, 7..9)]);
        assert_eq!(found(&["ab", "abc"], "ab"), [(0, 0..2)]);
        assert!(found(&["abc"], "").is_empty());
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(text in "[abAB_\\]é-]{0,40}", literals in proptest::collection::vec("[ab_\\]é-]{2,5}", 1..8)) {
            let literals: Vec<&str> = literals.iter().map(String::as_str).collect();
            let mut expected = Vec::new();
            for at in 0..text.len() {
                for (index, literal) in literals.iter().enumerate() {
                    let part = text.as_bytes().get(at..at + literal.len());
                    if part.is_some_and(|part| part.eq_ignore_ascii_case(literal.as_bytes())) {
                        expected.push((index, at..at + literal.len()));
                    }
                }
            }
            prop_assert_eq!(found(&literals, &text), expected);
        }
    }
}
