//! The first stage: a logistic regression over hashed n-grams. It clears text that does not look like an attack.

use crate::TextOrigin;
use crate::tokens::Window;
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
        let (values, scales) = table.into_parts();
        if !values.len().is_power_of_two() {
            return Err(WeightsError::Shape("grams".to_owned()));
        }
        Ok(Self {
            weights: values,
            scale: *scales.first().ok_or_else(|| WeightsError::Shape("grams".to_owned()))?,
            bias: *weights
                .floats("grams.bias")?
                .first()
                .ok_or_else(|| WeightsError::Shape("grams.bias".to_owned()))?,
        })
    }

    pub(crate) fn score(&self, window: Window<'_>, origin: TextOrigin) -> f32 {
        let mut seen = WindowFeatures { slots: [EMPTY; SLOTS], weights: &self.weights, count: 0, sum: 0 };
        let mut last: Option<&[u8]> = None;
        let mut last_but_one: Option<&[u8]> = None;
        for word in window.words() {
            let word = word.as_bytes();
            seen.add(Fnv::new(b"1").add(word));
            if let Some(second) = last {
                seen.add(Fnv::new(b"2").add(second).add(b" ").add(word));
                if let Some(first) = last_but_one {
                    seen.add(Fnv::new(b"3").add(first).add(b" ").add(second).add(b" ").add(word));
                }
            }
            last_but_one = last;
            last = Some(word);
            seen.add_characters(&word[..word.len().min(LONGEST_WORD)]);
        }
        seen.add(Fnv::new(b"o").add(origin.word().as_bytes()));
        #[expect(clippy::cast_precision_loss, reason = "a window has a few thousand features")]
        let sum = seen.sum as f32;
        #[expect(clippy::cast_precision_loss, reason = "a window has a few thousand features")]
        let count = seen.count as f32;
        sum * self.scale / count.sqrt() + self.bias
    }
}

/// More than twice as many as a window has features.
const SLOTS: usize = 1 << 13;
const EMPTY: u32 = u32::MAX;

/// The features of a window: words, pairs and triples of words, four bytes of a padded word, and the origin. Each counts once.
struct WindowFeatures<'a> {
    slots: [u32; SLOTS],
    weights: &'a [i8],
    count: u32,
    sum: i32,
}

impl WindowFeatures<'_> {
    fn add(&mut self, hash: Fnv) {
        #[expect(clippy::cast_possible_truncation, reason = "the table has far fewer entries")]
        let feature = hash.0 & (self.weights.len() - 1) as u32;
        let mut slot = (feature.wrapping_mul(0x9e37_79b1) >> 19) as usize;
        while self.slots[slot] != EMPTY {
            if self.slots[slot] == feature {
                return;
            }
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot] = feature;
        self.count += 1;
        self.sum += i32::from(self.weights[feature as usize]);
    }

    fn add_characters(&mut self, word: &[u8]) {
        let mut padded = [b'<'; LONGEST_WORD + 2];
        padded[1..=word.len()].copy_from_slice(word);
        padded[word.len() + 1] = b'>';
        for four in padded[..word.len() + 2].windows(4) {
            self.add(Fnv::new(b"c").add(four));
        }
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
