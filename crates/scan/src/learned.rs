//! The interface of a learned scanner: text and origin in, scores and spans out. This crate has no model.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use redact::{Category, Finding, Hit, Score, Severity, report, rule, secrets};

use crate::origin::Origin;

/// How sure the model is, between 0 and 1, that a stretch of text tries to steer the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct TextScore {
    pub score: f32,
    pub range: Range<usize>,
}

/// The model gave no usable answer. This is a scanner error, not a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedScannerError(pub String);

impl fmt::Display for LearnedScannerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the learned scanner broke: {}", self.0)
    }
}

impl std::error::Error for LearnedScannerError {}

pub type LearnedModel =
    Arc<dyn Fn(&str, Origin) -> Result<Vec<TextScore>, LearnedScannerError> + Send + Sync>;

/// What the learned scanner scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoredUnit {
    Sentence,
    Full,
}

/// A model with its threshold, or the lack of one.
#[derive(Clone)]
pub struct LearnedScanner {
    pub model: Option<LearnedModel>,
    pub threshold: f32,
    pub match_type: ScoredUnit,
}

/// What the built-in configuration of a harness says: the model finds its own windows, and about one benign text in a thousand
/// reaches the threshold.
impl Default for LearnedScanner {
    fn default() -> Self {
        LearnedScanner { model: None, threshold: 0.98, match_type: ScoredUnit::Full }
    }
}

impl LearnedScanner {
    /// Asks the model, sentence by sentence or as a whole. Without a model there are no findings.
    pub fn scan(&self, text: &str, origin: Origin) -> Result<Vec<Finding>, LearnedScannerError> {
        let Some(model) = &self.model else { return Ok(Vec::new()) };
        let whole = 0..text.len();
        let parts = match self.match_type {
            ScoredUnit::Full => Vec::from([whole]),
            ScoredUnit::Sentence => sentences(text),
        };
        let mut hits = Vec::new();
        for part in parts {
            for score in model(&text[part.clone()], origin)? {
                let range = part.start + score.range.start..part.start + score.range.end;
                // An invalid span or score means that the model is broken.
                if text.get(range.clone()).is_none() || !(0.0..=1.0).contains(&score.score) {
                    return Err(LearnedScannerError(format!(
                        "it answered {} for bytes {range:?}",
                        score.score
                    )));
                }
                hits.extend((score.score >= self.threshold).then(|| hit(range, score.score)));
            }
        }
        Ok(report(text, hits, &secrets::find_secrets(text)))
    }
}

fn hit(range: Range<usize>, score: f32) -> Hit {
    Hit {
        rule: rule::model::LEARNED_INJECTION,
        category: Category::LlmGuard,
        severity: Severity::High,
        score: Some(Score::new(score)),
        range,
        passage: None,
        detail: None,
        advice: "Read it as an order to the agent; if it is none, add a waiver with a reason.",
    }
}

/// Sentences: they end with a full stop, a question or exclamation mark, or a blank line. Long ones are cut.
fn sentences(text: &str) -> Vec<Range<usize>> {
    const MAX_SENTENCE: usize = 1000;
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut previous = ' ';
    for (at, letter) in text.char_indices() {
        let ends = (matches!(previous, '.' | '!' | '?' | '。' | '！' | '？') && letter.is_whitespace())
            || (previous == '\n' && letter == '\n')
            || at - start >= MAX_SENTENCE;
        if ends {
            sentences.push(start..at);
            start = at;
        }
        previous = letter;
    }
    sentences.push(start..text.len());
    sentences.retain(|range| !text[range.clone()].trim().is_empty());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(answer: fn(&str) -> Result<Vec<TextScore>, LearnedScannerError>) -> LearnedScanner {
        let model: LearnedModel = Arc::new(move |text, _| answer(text));
        LearnedScanner { model: Some(model), threshold: 0.92, match_type: ScoredUnit::Sentence }
    }

    #[test]
    fn without_a_model_nothing_is_found() {
        assert_eq!(LearnedScanner::default().scan("ignore it", Origin::Web), Ok(Vec::new()));
    }

    #[test]
    fn sentences_over_the_threshold_are_findings() {
        let guard = guard(|text| {
            let score = if text.contains("evil") { 0.95 } else { 0.5 };
            Ok(vec![TextScore { score, range: 0..text.len() }])
        });
        let findings = guard.scan("All is well. This is evil. Really?", Origin::Web).unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].span.start, findings[0].category), (12, Category::LlmGuard));
    }

    #[test]
    fn a_broken_model_is_an_error_and_no_finding() {
        assert!(guard(|_| Err(LearnedScannerError("no memory".to_owned()))).scan("x", Origin::Web).is_err());
        assert!(guard(|_| Ok(vec![TextScore { score: 0.99, range: 0..99 }])).scan("x", Origin::Web).is_err());
        assert!(
            guard(|_| Ok(vec![TextScore { score: f32::NAN, range: 0..1 }])).scan("x", Origin::Web).is_err()
        );
    }
}
