//! Turns what rules report into findings: offsets become lines and columns, and excerpts are masked.

use crate::excerpt;
use crate::finding::{Finding, Score};
use crate::hit::Hit;
use crate::position::LineIndex;
use crate::redactor::Redactor;
use crate::secrets::SecretMatch;

/// The most findings for one text; the most severe are kept.
const MAX_FINDINGS: usize = 1000;

/// The findings of one text, most severe first. `secrets` are those of the text.
pub fn report(text: &str, mut hits: Vec<Hit>, secrets: &[SecretMatch]) -> Vec<Finding> {
    if hits.is_empty() {
        return Vec::new();
    }
    hits.sort_by_key(|hit| (std::cmp::Reverse(hit.severity), hit.range.start));
    hits.truncate(MAX_FINDINGS);
    let lines = LineIndex::new(text);
    hits.into_iter().map(|hit| finding(text, hit, &lines, secrets)).collect()
}

fn finding(text: &str, hit: Hit, lines: &LineIndex<'_>, secrets: &[SecretMatch]) -> Finding {
    let Hit { rule, category, severity, score, range, passage, detail, advice } = hit;
    let excerpt = match detail {
        // A decoded payload may hold a credential that the text as written does not show.
        Some(detail) => excerpt::visible(&Redactor::new().redact(&detail)),
        None => excerpt::excerpt(text, lines.line_range(range.start), &range, secrets),
    };
    Finding {
        rule: rule.name(),
        severity,
        score: score.unwrap_or(Score::of(severity)),
        category,
        span: lines.span(range.start, range.end),
        passage: passage.unwrap_or(range),
        excerpt,
        advice,
    }
}
