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
    /// How sure the rule is; that of its severity where it does not say.
    pub score: Option<Score>,
    pub range: Range<usize>,
    /// Everything that counted, where that is more than `range`.
    pub passage: Option<Range<usize>>,
    /// Replaces the excerpt where the text itself shows nothing, such as a decoded payload.
    pub detail: Option<String>,
    pub advice: &'static str,
}
