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

/// Lower thresholds for texts of some origins. A higher one than the general threshold has no effect.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OriginThresholds {
    pub instruction: Option<f32>,
    pub tool: Option<f32>,
    pub issue: Option<f32>,
}

/// A model, if there is one, with its thresholds.
#[derive(Clone)]
pub struct LearnedScanner {
    pub model: Option<LearnedModel>,
    pub threshold: f32,
    pub by_origin: OriginThresholds,
    pub match_type: ScoredUnit,
}

/// The built-in configuration of a harness: the model finds its own windows, and about one benign text in a thousand
/// reaches the threshold.
impl Default for LearnedScanner {
    fn default() -> Self {
        LearnedScanner {
            model: None,
            threshold: 0.98,
            by_origin: OriginThresholds::default(),
            match_type: ScoredUnit::Full,
        }
    }
}

impl LearnedScanner {
    /// Asks the model, sentence by sentence or as a whole. Without a model it finds nothing.
    pub fn scan(&self, text: &str, origin: Origin) -> Result<Vec<Finding>, LearnedScannerError> {
        if self.model.is_none() {
            return Ok(Vec::new());
        }
        let mut hits = Vec::new();
        match self.match_type {
            ScoredUnit::Sentence => {
                for sentence in sentences(text) {
                    hits.extend(self.over_threshold(text, sentence, origin)?);
                }
            }
            ScoredUnit::Full => {
                for window in self.over_threshold(text, 0..text.len(), origin)? {
                    hits.extend(self.scored_sentences(text, window, origin)?);
                }
            }
        }
        let hits = hits.into_iter().map(|score| hit(score.range, score.score)).collect();
        Ok(report(text, hits, &secrets::find_secrets(text)))
    }

    fn threshold_for(&self, origin: Origin) -> f32 {
        let lower = match origin {
            Origin::Harness | Origin::Instruction | Origin::Configuration => self.by_origin.instruction,
            Origin::Tool | Origin::Web | Origin::Output => self.by_origin.tool,
            Origin::Issue => self.by_origin.issue,
        };
        lower.map_or(self.threshold, |lower| lower.min(self.threshold))
    }

    /// What the model says about a part of the text, from the threshold on.
    fn over_threshold(
        &self,
        text: &str,
        part: Range<usize>,
        origin: Origin,
    ) -> Result<Vec<TextScore>, LearnedScannerError> {
        let Some(model) = &self.model else { return Ok(Vec::new()) };
        let mut over = Vec::new();
        for TextScore { score, range } in model(&text[part.clone()], origin)? {
            let range = part.start + range.start..part.start + range.end;
            // An invalid span or score means that the model is broken.
            if text.get(range.clone()).is_none() || !(0.0..=1.0).contains(&score) {
                return Err(LearnedScannerError(format!("it answered {score} for bytes {range:?}")));
            }
            over.extend((score >= self.threshold_for(origin)).then_some(TextScore { score, range }));
        }
        Ok(over)
    }

    /// The sentences of a window that score by themselves, so that the others can pass; the window, if none does.
    fn scored_sentences(
        &self,
        text: &str,
        window: TextScore,
        origin: Origin,
    ) -> Result<Vec<TextScore>, LearnedScannerError> {
        let parts = sentences(&text[window.range.clone()]);
        let mut narrow = Vec::new();
        for part in parts.iter().filter(|_| parts.len() > 1) {
            let sentence = window.range.start + part.start..window.range.start + part.end;
            narrow.extend(self.over_threshold(text, sentence, origin)?);
        }
        Ok(if narrow.is_empty() { vec![window] } else { narrow })
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
        advice: "Check whether this text gives the agent an order. If it does not, add a waiver with a reason.",
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
        LearnedScanner {
            model: Some(model),
            threshold: 0.92,
            match_type: ScoredUnit::Sentence,
            ..LearnedScanner::default()
        }
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
    fn an_origin_may_have_a_lower_threshold() {
        let check = |by_origin: OriginThresholds, origin: Origin, found: bool| {
            let scanner = guard(|text| Ok(vec![TextScore { score: 0.7, range: 0..text.len() }]));
            let scanner = LearnedScanner { by_origin, ..scanner };
            assert_eq!(scanner.scan("text", origin).unwrap().len(), usize::from(found), "{origin:?}");
        };
        let tool = OriginThresholds { tool: Some(0.6), ..OriginThresholds::default() };
        check(OriginThresholds::default(), Origin::Tool, false);
        check(tool, Origin::Tool, true);
        check(tool, Origin::Web, true);
        check(tool, Origin::Issue, false);
        check(OriginThresholds { issue: Some(0.6), ..tool }, Origin::Issue, true);
        check(OriginThresholds { instruction: Some(0.6), ..tool }, Origin::Instruction, true);
        check(OriginThresholds { tool: Some(0.99), ..tool }, Origin::Tool, false);
    }

    #[test]
    fn a_window_is_narrowed_to_the_sentences_that_score_alone() {
        let check = |alone: fn(&str) -> f32, expected: &[&str]| {
            let model: LearnedModel = Arc::new(move |text, _| {
                let score = if text.len() > 30 { 0.99 } else { alone(text) };
                Ok(vec![TextScore { score, range: 0..text.len() }])
            });
            let guard = LearnedScanner { model: Some(model), ..LearnedScanner::default() };
            let text = "All is well here. This is evil. Nothing to see.";
            let findings = guard.scan(text, Origin::Web).unwrap();
            let found = findings.iter().map(|finding| text[finding.span.start..finding.span.end].trim());
            assert_eq!(found.collect::<Vec<_>>(), expected);
        };
        check(|text| if text.contains("evil") { 0.99 } else { 0.1 }, &["This is evil."]);
        check(|_| 0.1, &["All is well here. This is evil. Nothing to see."]);
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
