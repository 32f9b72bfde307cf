//! What a rule reports before lines, columns and excerpts are known. Rules make these; only the scanner turns them
//! into findings, in one place, so that no rule can forget to mask a secret.

use std::ops::Range;

use crate::finding::{Category, Score, Severity};
use crate::rule::RuleName;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub rule: RuleName,
    pub category: Category,
    pub severity: Severity,
    /// The rule's score; by default that of its severity.
    pub score: Option<Score>,
    pub range: Range<usize>,
    /// All bytes that counted, if they are more than `range`.
    pub passage: Option<Range<usize>>,
    /// Replaces the excerpt if the text itself shows nothing, such as a decoded payload.
    pub detail: Option<String>,
    pub advice: &'static str,
}
