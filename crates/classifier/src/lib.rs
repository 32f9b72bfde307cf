//! The learned injection scanner: text and where it came from in, a probability for each window out. Two stages: hashed
//! n-grams clear plain text in microseconds, a small encoder reads the rest. Deterministic; no I/O, no network, no
//! unsafe code. `training/` makes the weights.

mod encoder;
mod grams;
mod pieces;
mod tokens;
mod weights;

use std::ops::Range;

use encoder::Encoder;
use grams::Grams;
use pieces::WordPieces;
use weights::Weights;
pub use weights::WeightsError;

/// Where a text came from. The same sentence is harmless in a prompt and an attack in a tool result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOrigin {
    Instructions,
    Tool,
    Issue,
    Prompt,
}

impl TextOrigin {
    /// The word that the model was trained with.
    pub fn word(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Issue => "issue",
            Self::Prompt => "prompt",
        }
    }
}

/// Which stage decided about a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    Grams,
    Encoder,
}

/// How likely it is that one window of the text tries to steer the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowScore {
    /// From 0 to 1, calibrated on text that training did not see.
    pub probability: f32,
    /// The bytes of the text that the window covers.
    pub range: Range<usize>,
    pub decided_by: DecidedBy,
}

/// Raw scores of both stages, the highest of all windows: what the training side reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawScores {
    pub grams: f32,
    pub encoder: f32,
}

/// Both stages, ready to score.
pub struct Classifier {
    grams: Grams,
    pieces: WordPieces,
    encoder: Encoder,
    calibration: weights::Calibration,
}

impl Classifier {
    /// Reads the bytes of a weights file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WeightsError> {
        let weights = Weights::parse(bytes)?;
        Ok(Self {
            grams: Grams::new(&weights)?,
            pieces: WordPieces::new(weights.text("vocabulary")?)?,
            encoder: Encoder::new(&weights)?,
            calibration: weights.calibration(),
        })
    }

    /// Scores every window of the text. The encoder reads only windows that the n-grams do not clear.
    pub fn score(&self, text: &str, origin: TextOrigin) -> Vec<WindowScore> {
        let tokens = tokens::tokenize(text);
        let score = |window: &[tokens::Token]| {
            let grams = self.grams.score(window, origin);
            let range = tokens::range(window);
            if grams < self.calibration.clear_below {
                return WindowScore { probability: 0.0, range, decided_by: DecidedBy::Grams };
            }
            let raw = self.encoder.score(&self.pieces.encode(window, origin));
            let probability = self.calibration.probability(raw);
            WindowScore { probability, range, decided_by: DecidedBy::Encoder }
        };
        tokens::windows(&tokens).map(score).collect()
    }

    /// Both stages on every window, whatever the first one says.
    pub fn raw_scores(&self, text: &str, origin: TextOrigin) -> RawScores {
        let tokens = tokens::tokenize(text);
        let mut highest = RawScores { grams: f32::MIN, encoder: f32::MIN };
        for window in tokens::windows(&tokens) {
            highest.grams = highest.grams.max(self.grams.score(window, origin));
            highest.encoder = highest.encoder.max(self.encoder.score(&self.pieces.encode(window, origin)));
        }
        highest
    }

    /// The probability above which this share of unseen benign text was flagged in training: 0.01, 0.005 or 0.001.
    pub fn threshold(&self, benign_share: &str) -> Option<f32> {
        self.calibration.thresholds.get(benign_share).copied()
    }
}
