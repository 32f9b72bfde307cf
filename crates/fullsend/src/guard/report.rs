//! Findings and broken scanners as events of the run, in one shape, whoever made them.

use std::sync::PoisonError;

use redact::Category;
use scan::Origin;

use super::judge::Findings;
use super::scanner_error::ScannerError;
use super::{Guard, key};
use crate::event::finding::FindingAction;
use crate::event::{self, RunEvent};

/// What was done about the findings of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Reported,
    /// What could be taken out was taken out.
    Cleaned,
    Denied,
    Withheld,
    Stopped,
}

impl Guard {
    /// Tells of everything that was found in one text.
    pub fn report(&self, place: &str, origin: Origin, findings: &Findings, action: Action) {
        for finding in &findings.open {
            self.emit.emit(RunEvent::Finding(event(place, origin, finding, recorded(action, finding), None)));
        }
        for (finding, reason) in &findings.waived {
            let reason = Some(reason.clone());
            self.emit.emit(RunEvent::Finding(event(place, origin, finding, FindingAction::Waived, reason)));
        }
    }

    /// The same for what may be looked at again.
    pub fn report_once(&self, place: &str, origin: Origin, mut findings: Findings, action: Action) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_news = |finding: &redact::Finding| {
            reported.insert(key(&event(place, origin, finding, FindingAction::None, None)))
        };
        findings.open.retain(|finding| is_news(finding));
        findings.waived.retain(|(finding, _)| is_news(finding));
        drop(reported);
        self.report(place, origin, &findings, action);
    }

    /// Tells that a scanner broke; true where that must stop what was scanned.
    pub fn report_scanner_error(&self, place: &str, broke: &ScannerError) -> bool {
        let stopped = self.judge.fails_closed();
        self.emit.emit(RunEvent::ScannerBroke {
            place: place.to_owned(),
            scanner: broke.scanner.to_owned(),
            reason: broke.why.clone(),
            stopped,
        });
        stopped
    }
}

/// Cleaning takes out characters and credentials; nothing else can be.
fn recorded(action: Action, finding: &redact::Finding) -> FindingAction {
    let is_cleaned = matches!(
        finding.category,
        Category::UnicodeNormalizer | Category::SecretRedactor | Category::ContextSuppress
    );
    match action {
        Action::Cleaned if is_cleaned => FindingAction::Cleaned,
        Action::Reported | Action::Cleaned => FindingAction::Reported,
        Action::Denied => FindingAction::Denied,
        Action::Withheld => FindingAction::Withheld,
        Action::Stopped => FindingAction::Stopped,
    }
}

pub fn event(
    place: &str,
    origin: Origin,
    finding: &redact::Finding,
    action: FindingAction,
    waiver: Option<String>,
) -> event::Finding {
    let redact::Finding { rule, severity, category, span, excerpt, advice } = finding;
    event::Finding {
        place: place.to_owned(),
        origin: origin.into(),
        rule: (*rule).to_owned(),
        category: (*category).into(),
        severity: (*severity).into(),
        line: span.line,
        column: span.column,
        start: span.start,
        end: span.end,
        excerpt: excerpt.clone(),
        advice: (*advice).to_owned(),
        action,
        waiver,
    }
}
