//! Words into the pieces that the encoder knows, longest first, as WordPiece does.

use std::collections::HashMap;

use crate::TextOrigin;
use crate::tokens::Token;
use crate::weights::WeightsError;

/// Pieces that the encoder reads at most.
pub(crate) const LONGEST: usize = 256;
/// Characters of a word; a longer one is unknown.
const LONGEST_WORD: usize = 64;

pub(crate) struct WordPieces {
    first: HashMap<String, u32>,
    later: HashMap<String, u32>,
    unknown: u32,
    start: u32,
    end: u32,
    colon: u32,
}

impl WordPieces {
    /// `vocabulary` has one piece on each line; its number is its line.
    pub(crate) fn new(vocabulary: &str) -> Result<Self, WeightsError> {
        let mut first = HashMap::new();
        let mut later = HashMap::new();
        for (number, piece) in (0u32..).zip(vocabulary.split('\n')) {
            match piece.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => later.insert(rest.to_owned(), number),
                _ => first.insert(piece.to_owned(), number),
            };
        }
        let get = |piece: &str| {
            first.get(piece).copied().ok_or_else(|| WeightsError::Missing(format!("the piece {piece}")))
        };
        Ok(Self {
            unknown: get("[UNK]")?,
            start: get("[CLS]")?,
            end: get("[SEP]")?,
            colon: get(":")?,
            first,
            later,
        })
    }

    /// Start, origin, colon, text, end.
    pub(crate) fn encode(&self, window: &[Token], origin: TextOrigin) -> Vec<u32> {
        let mut ids = vec![self.start];
        self.push_word(origin.word(), &mut ids);
        ids.push(self.colon);
        for token in window {
            self.push_word(&token.word, &mut ids);
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
        let mut rest = if word.chars().count() > LONGEST_WORD { None } else { Some(word) };
        while let Some(text) = rest.filter(|text| !text.is_empty()) {
            let known = if ids.len() == before { &self.first } else { &self.later };
            let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
            let found = ends.rev().find_map(|end| known.get(&text[..end]).map(|id| (*id, end)));
            rest = found.map(|(id, end)| {
                ids.push(id);
                &text[end..]
            });
        }
        if rest.is_none() {
            ids.truncate(before);
            ids.push(self.unknown);
        }
    }
}
