//! Findings that the organisation has looked at and accepts, for a reason and for a time. They are kept and shown, never
//! dropped; the scanned text itself has no say.

use std::fmt;

use policy::glob::{Pattern, Separator};

use crate::finding::{Finding, Severity};

/// A day of the calendar, written `2026-01-31`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    year: u16,
    month: u8,
    day: u8,
}

impl Day {
    pub fn parse(text: &str) -> Option<Day> {
        let mut parts = text.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let is_written = parts.next().is_none() && year.len() == 4 && month.len() == 2 && day.len() == 2;
        let day = Day { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? };
        let days = match day.month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let is_there = (1..=12).contains(&day.month) && (1..=days).contains(&day.day);
        (is_written && is_there).then_some(day)
    }
}

/// One accepted finding.
#[derive(Clone, Debug)]
pub struct Suppression {
    rule: String,
    path: Pattern,
    reason: String,
    until: Day,
}

/// Why a suppression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadSuppression {
    NoReason { rule: String },
    NoDate { rule: String, until: String },
    BadPath { rule: String, path: String },
}

impl fmt::Display for BadSuppression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSuppression::NoReason { rule } => {
                write!(f, "the suppression of `{rule}` has no reason; say why it is accepted")
            }
            BadSuppression::NoDate { rule, until } => {
                write!(
                    f,
                    "the suppression of `{rule}` ends on `{until}`, which is no day; write it as 2026-01-31"
                )
            }
            BadSuppression::BadPath { rule, path } => {
                write!(f, "the suppression of `{rule}` is for `{path}`, which is no pattern")
            }
        }
    }
}

impl std::error::Error for BadSuppression {}

impl Suppression {
    /// `path` is a glob; `**` is everywhere.
    pub fn new(rule: &str, path: &str, reason: &str, until: &str) -> Result<Self, BadSuppression> {
        let rule = rule.to_owned();
        if reason.trim().is_empty() {
            return Err(BadSuppression::NoReason { rule });
        }
        let Some(until) = Day::parse(until) else {
            return Err(BadSuppression::NoDate { rule, until: until.to_owned() });
        };
        let Ok(path) = Pattern::glob(path, Separator::Slash).map_err(|_| path) else {
            return Err(BadSuppression::BadPath { rule, path: path.to_owned() });
        };
        Ok(Suppression { rule, path, reason: reason.trim().to_owned(), until })
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it accepts a finding of this rule at this place today.
    pub fn covers(&self, rule: &str, path: &str, today: Day) -> bool {
        self.rule == rule && self.path.matches(path.as_bytes()) && today <= self.until
    }
}

/// Findings after the organisation's suppressions were looked at.
#[derive(Debug, Default)]
pub struct Sorted<'s> {
    pub open: Vec<Finding>,
    /// Accepted, and by which suppression.
    pub suppressed: Vec<(Finding, &'s Suppression)>,
}

impl Sorted<'_> {
    pub fn worst(&self) -> Option<Severity> {
        self.open.iter().map(|finding| finding.severity).max()
    }
}

/// Sorts the findings of the file at `path`. A suppression that ran out suppresses nothing.
pub fn sort<'s>(
    findings: Vec<Finding>,
    path: &str,
    suppressions: &'s [Suppression],
    today: Day,
) -> Sorted<'s> {
    let mut sorted = Sorted::default();
    for finding in findings {
        match suppressions.iter().find(|suppression| suppression.covers(finding.rule, path, today)) {
            Some(suppression) => sorted.suppressed.push((finding, suppression)),
            None => sorted.open.push(finding),
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Scanner};

    fn day(text: &str) -> Day {
        Day::parse(text).unwrap()
    }

    #[test]
    fn days_are_compared_and_checked() {
        assert!(day("2026-01-31") < day("2026-02-01") && day("2025-12-31") < day("2026-01-01"));
        for wrong in ["2026-13-01", "2026-1-1", "soon", "2026-02-30", "2026-01-31-x", ""] {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_suppression_needs_a_reason_and_a_day() {
        assert!(matches!(
            Suppression::new("nul", "**", " ", "2026-01-31"),
            Err(BadSuppression::NoReason { .. })
        ));
        assert!(matches!(Suppression::new("nul", "**", "why", "later"), Err(BadSuppression::NoDate { .. })));
    }

    #[test]
    fn it_covers_its_rule_its_path_and_its_time() {
        let suppressions =
            [Suppression::new("password-assignment", "docs/**", "an example", "2026-06-30").unwrap()];
        let findings = || Scanner::default().scan("DB_PASSWORD=hunter2-rainbow", Origin::Tool);
        let count = |path: &str, today: &str| {
            let sorted = sort(findings(), path, &suppressions, day(today));
            (sorted.open.len(), sorted.suppressed.len())
        };
        assert_eq!(count("docs/a/b.md", "2026-06-30"), (0, 1));
        assert_eq!(count("docs/a/b.md", "2026-07-01"), (1, 0));
        assert_eq!(count("src/b.md", "2026-06-30"), (1, 0));
    }
}
