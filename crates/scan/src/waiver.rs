//! Waivers: findings that the organisation accepts, with a reason and an end date. Waived findings are kept and shown. The
//! scanned text cannot add a waiver.

use std::fmt;

use redact::{Finding, Severity};

use policy::glob::{Pattern, Separator};

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
        let year = parts.next()?;
        let month = parts.next()?;
        let day = parts.next()?;
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
pub struct Waiver {
    rule: String,
    path: Pattern,
    reason: String,
    until: Day,
}

/// Why a waiver cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidWaiver {
    NoReason { rule: String },
    NoDate { rule: String, until: String },
    BadPath { rule: String, path: String },
}

impl fmt::Display for InvalidWaiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidWaiver::NoReason { rule } => {
                write!(f, "the waiver of `{rule}` has no reason; add one")
            }
            InvalidWaiver::NoDate { rule, until } => {
                write!(
                    f,
                    "the waiver of `{rule}` ends on `{until}`, which is not a date; write it as 2026-01-31"
                )
            }
            InvalidWaiver::BadPath { rule, path } => {
                write!(f, "the path of the waiver of `{rule}`, `{path}`, is not a valid glob")
            }
        }
    }
}

impl std::error::Error for InvalidWaiver {}

impl Waiver {
    /// `path` is a glob; `**` is everywhere.
    pub fn new(rule: &str, path: &str, reason: &str, until: &str) -> Result<Self, InvalidWaiver> {
        let rule = rule.to_owned();
        if reason.trim().is_empty() {
            return Err(InvalidWaiver::NoReason { rule });
        }
        let Some(until) = Day::parse(until) else {
            return Err(InvalidWaiver::NoDate { rule, until: until.to_owned() });
        };
        let Ok(path) = Pattern::glob(path, Separator::Slash).map_err(|_| path) else {
            return Err(InvalidWaiver::BadPath { rule, path: path.to_owned() });
        };
        Ok(Waiver { rule, path, reason: reason.trim().to_owned(), until })
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it accepts a finding of this rule at this place today.
    pub fn covers(&self, rule: &str, path: &str, today: Day) -> bool {
        self.rule == rule && self.path.matches(path.as_bytes()) && today <= self.until
    }
}

/// Findings, sorted by whether a waiver accepts them.
#[derive(Debug, Default)]
pub struct WaiverResult<'s> {
    pub open: Vec<Finding>,
    /// Accepted, and by which waiver.
    pub waived: Vec<(Finding, &'s Waiver)>,
}

impl WaiverResult<'_> {
    pub fn worst(&self) -> Option<Severity> {
        self.open.iter().map(|finding| finding.severity).max()
    }
}

/// Sorts the findings of the file at `path`. An expired waiver has no effect.
pub fn apply_waivers<'s>(
    findings: Vec<Finding>,
    path: &str,
    waivers: &'s [Waiver],
    today: Day,
) -> WaiverResult<'s> {
    let mut waived = WaiverResult::default();
    for finding in findings {
        match waivers.iter().find(|waiver| waiver.covers(finding.rule, path, today)) {
            Some(waiver) => waived.waived.push((finding, waiver)),
            None => waived.open.push(finding),
        }
    }
    waived
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
    fn a_waiver_needs_a_reason_and_a_day() {
        assert!(matches!(Waiver::new("nul", "**", " ", "2026-01-31"), Err(InvalidWaiver::NoReason { .. })));
        assert!(matches!(Waiver::new("nul", "**", "why", "later"), Err(InvalidWaiver::NoDate { .. })));
    }

    #[test]
    fn waiver_is_limited_to_rule_path_and_date() {
        let waivers = [Waiver::new("password-assignment", "docs/**", "an example", "2026-06-30").unwrap()];
        let findings = || Scanner::default().scan("DB_PASSWORD=hunter2-rainbow", Origin::Tool);
        let count = |path: &str, today: &str| {
            let waived = apply_waivers(findings(), path, &waivers, day(today));
            (waived.open.len(), waived.waived.len())
        };
        assert_eq!(count("docs/a/b.md", "2026-06-30"), (0, 1));
        assert_eq!(count("docs/a/b.md", "2026-07-01"), (1, 0));
        assert_eq!(count("src/b.md", "2026-06-30"), (1, 0));
    }
}
