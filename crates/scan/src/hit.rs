//! What a rule reports before lines, columns and excerpts are known. Rules make these; only the scanner turns them
//! into findings, in one place, so that no rule can forget to mask a secret.

use std::ops::Range;

use crate::finding::{Category, Severity};
use crate::rule::Rule;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) rule: Rule,
    pub(crate) category: Category,
    pub(crate) severity: Severity,
    pub(crate) range: Range<usize>,
    /// Replaces the excerpt where the text itself shows nothing, such as a decoded payload.
    pub(crate) detail: Option<String>,
    pub(crate) advice: &'static str,
}
