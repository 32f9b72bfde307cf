//! The first stage: a logistic regression over hashed n-grams. It clears text that no attack looks like.

use std::collections::HashSet;

use crate::TextOrigin;
use crate::tokens::Token;
use crate::weights::{Weights, WeightsError};

/// Bytes of a word that character n-grams are taken from.
const LONGEST_WORD: usize = 24;

pub(crate) struct Grams {
    weights: Vec<i8>,
    scale: f32,
    bias: f32,
}

impl Grams {
    pub(crate) fn new(weights: &Weights) -> Result<Self, WeightsError> {
        let table = weights.bytes("grams")?;
        let values = table.values();
        if !values.len().is_power_of_two() {
            return Err(WeightsError::Shape("grams".to_owned()));
        }
        Ok(Self {
            weights: values,
            scale: *table.scales.first().ok_or_else(|| WeightsError::Shape("grams".to_owned()))?,
            bias: *weights
                .floats("grams.bias")?
                .first()
                .ok_or_else(|| WeightsError::Shape("grams.bias".to_owned()))?,
        })
    }

    pub(crate) fn score(&self, window: &[Token], origin: TextOrigin) -> f32 {
        let features = self.features(window, origin);
        let sum: f32 = features.iter().map(|feature| f32::from(self.weights[*feature])).sum();
        #[expect(clippy::cast_precision_loss, reason = "a window has a few thousand features")]
        let count = features.len() as f32;
        sum * self.scale / count.sqrt() + self.bias
    }

    /// Words, pairs and triples of words, four bytes of a padded word, and the origin.
    fn features(&self, window: &[Token], origin: TextOrigin) -> HashSet<usize> {
        let mut found = HashSet::with_capacity(window.len() * 8);
        let mut add = |hash: Fnv| found.insert(hash.0 as usize & (self.weights.len() - 1));
        for (at, token) in window.iter().enumerate() {
            let word = token.word.as_bytes();
            add(Fnv::new(b"1").add(word));
            if let Some(second) = window.get(at + 1) {
                let pair = |kind| Fnv::new(kind).add(word).add(b" ").add(second.word.as_bytes());
                add(pair(b"2"));
                if let Some(third) = window.get(at + 2) {
                    add(pair(b"3").add(b" ").add(third.word.as_bytes()));
                }
            }
            let mut padded = Vec::with_capacity(LONGEST_WORD + 2);
            padded.push(b'<');
            padded.extend_from_slice(&word[..word.len().min(LONGEST_WORD)]);
            padded.push(b'>');
            for four in padded.windows(4) {
                add(Fnv::new(b"c").add(four));
            }
        }
        add(Fnv::new(b"o").add(origin.word().as_bytes()));
        found
    }
}

/// FNV-1a, 32 bits: the same on both sides, and quick on short words.
#[derive(Clone, Copy)]
struct Fnv(u32);

impl Fnv {
    fn new(kind: &[u8; 1]) -> Self {
        Self(0x811c_9dc5).add(kind)
    }

    fn add(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)))
    }
}
