//! Words into the pieces that the encoder knows, longest first, as WordPiece does.

use crate::TextOrigin;
use crate::tokens::Window;
use crate::weights::WeightsError;

/// Pieces that the encoder reads at most.
pub(crate) const LONGEST: usize = 256;
/// Characters of a word; a longer one is unknown.
const LONGEST_WORD: usize = 64;
/// A larger vocabulary is not one of ours.
const MAX_VOCABULARY: usize = 1 << 17;
const EMPTY: u32 = u32::MAX;

pub(crate) struct WordPieces {
    vocabulary: String,
    /// Where each piece starts and ends in the vocabulary, without its mark.
    pieces: Vec<Piece>,
    /// Numbers of pieces by their hash, with free places between.
    slots: Vec<u32>,
    unknown: u32,
    start: u32,
    end: u32,
    colon: u32,
}

struct Piece {
    start: usize,
    end: usize,
    place: Place,
}

/// Whether a piece starts a word or continues it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Later,
}

impl WordPieces {
    /// `vocabulary` has one piece on each line; its number is its line.
    pub(crate) fn new(vocabulary: String) -> Result<Self, WeightsError> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for line in vocabulary.split('\n') {
            let end = start + line.len();
            pieces.push(match line.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => Piece { start: start + 2, end, place: Place::Later },
                _ => Piece { start, end, place: Place::First },
            });
            start = end + 1;
        }
        if pieces.len() > MAX_VOCABULARY {
            return Err(WeightsError::Shape("vocabulary".to_owned()));
        }
        let slots = vec![EMPTY; (2 * pieces.len()).next_power_of_two()];
        let mut all = Self { vocabulary, pieces, slots, unknown: 0, start: 0, end: 0, colon: 0 };
        for (number, piece) in (0u32..).zip(&all.pieces) {
            let text = &all.vocabulary.as_bytes()[piece.start..piece.end];
            let mut slot = text.iter().fold(seed(piece.place), mixed) as usize & (all.slots.len() - 1);
            while all.slots[slot] != EMPTY {
                slot = (slot + 1) & (all.slots.len() - 1);
            }
            all.slots[slot] = number;
        }
        let get = |piece: &str| {
            let hash = piece.bytes().fold(seed(Place::First), |hash, byte| mixed(hash, &byte));
            let found = all.find(piece.as_bytes(), hash, Place::First);
            found.ok_or_else(|| WeightsError::Missing(format!("the piece {piece}")))
        };
        let unknown = get("[UNK]")?;
        let start = get("[CLS]")?;
        let end = get("[SEP]")?;
        let colon = get(":")?;
        Ok(Self { unknown, start, end, colon, ..all })
    }

    fn find(&self, text: &[u8], hash: u32, place: Place) -> Option<u32> {
        let mut slot = hash as usize & (self.slots.len() - 1);
        loop {
            let number = self.slots[slot];
            let piece = self.pieces.get(number as usize)?;
            if piece.place == place && &self.vocabulary.as_bytes()[piece.start..piece.end] == text {
                return Some(number);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Start, origin, colon, text, end.
    pub(crate) fn encode(&self, window: Window<'_>, origin: TextOrigin) -> Vec<u32> {
        let mut ids = vec![self.start];
        self.push_word(origin.word(), &mut ids);
        ids.push(self.colon);
        for word in window.words() {
            self.push_word(word, &mut ids);
            if ids.len() >= LONGEST - 1 {
                break;
            }
        }
        ids.truncate(LONGEST - 1);
        ids.push(self.end);
        ids
    }

    fn push_word(&self, word: &str, ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut rest = word;
        let mut known = word.len() <= LONGEST_WORD || word.chars().count() <= LONGEST_WORD;
        while known && !rest.is_empty() {
            match self.longest(rest, if ids.len() == before { Place::First } else { Place::Later }) {
                Some((id, end)) => {
                    ids.push(id);
                    rest = &rest[end..];
                }
                None => known = false,
            }
        }
        if !known {
            ids.truncate(before);
            ids.push(self.unknown);
        }
    }

    /// The longest piece that the text starts with, and where it ends.
    fn longest(&self, text: &str, place: Place) -> Option<(u32, usize)> {
        let mut hashes = [0; 4 * LONGEST_WORD];
        let mut hash = seed(place);
        for (byte, at) in text.as_bytes().iter().zip(&mut hashes) {
            hash = mixed(hash, byte);
            *at = hash;
        }
        let ends = (1..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
        ends.into_iter().find_map(|end| {
            self.find(&text.as_bytes()[..end], hashes[end - 1], place).map(|number| (number, end))
        })
    }
}

/// FNV-1a, with another start value for pieces that continue a word.
fn seed(place: Place) -> u32 {
    match place {
        Place::First => 0x811c_9dc5,
        Place::Later => 0x050c_5d1f,
    }
}

fn mixed(hash: u32, byte: &u8) -> u32 {
    (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
}
