//! Reports findings and scanner errors as events of the run.

use std::sync::PoisonError;

use redact::Category;
use scan::Origin;

use super::judge::Findings;
use super::scanner_error::ScannerError;
use super::withholding::is_withheld;
use super::{Guard, key};
use crate::event::finding::FindingAction;
use crate::event::{self, RunEvent};

/// What the guard did about the findings in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAction {
    Reported,
    /// It removed the matched parts that can be removed.
    Cleaned,
    Denied,
    Withheld,
    Stopped,
}

impl Guard {
    /// Reports all findings in one text.
    pub fn report(&self, place: &str, origin: Origin, findings: &Findings, action: TextAction) {
        for finding in &findings.open {
            self.emit.emit(RunEvent::Finding(event(place, origin, finding, recorded(action, finding), None)));
        }
        for (finding, reason) in &findings.waived {
            let reason = Some(reason.clone());
            self.emit.emit(RunEvent::Finding(event(place, origin, finding, FindingAction::Waived, reason)));
        }
    }

    /// The same for a tool's result. If a part of it is withheld, the original is saved for people.
    pub(super) fn report_result(&self, place: &str, text: &str, findings: &Findings, action: TextAction) {
        let kept = match (&self.kept, action) {
            (Some(kept), TextAction::Withheld | TextAction::Stopped) => kept.keep(&self.redact(text)),
            _ => None,
        };
        for finding in &findings.open {
            let is_kept = is_withheld(finding);
            let event = event(place, Origin::Tool, finding, recorded(action, finding), None);
            let kept = kept.clone().filter(|_| is_kept);
            self.emit.emit(RunEvent::Finding(event::FindingEvent { kept, ..event }));
        }
        self.report(place, Origin::Tool, &Findings { open: Vec::new(), ..findings.clone() }, action);
    }

    /// The same for a text that may be scanned again.
    pub fn report_once(&self, place: &str, origin: Origin, mut findings: Findings, action: TextAction) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_news = |finding: &redact::Finding| {
            reported.insert(key(&event(place, origin, finding, FindingAction::None, None)))
        };
        findings.open.retain(|finding| is_news(finding));
        findings.waived.retain(|(finding, _)| is_news(finding));
        drop(reported);
        self.report(place, origin, &findings, action);
    }

    /// Reports a scanner error; true if the scanned text must not pass.
    pub fn report_scanner_error(&self, place: &str, error: &ScannerError) -> bool {
        let stopped = self.judge.fails_closed();
        self.emit.emit(RunEvent::ScannerFailed {
            place: place.to_owned(),
            scanner: error.scanner.to_owned(),
            reason: error.why.clone(),
            stopped,
        });
        stopped
    }
}

/// Only characters, secrets and long logs can be removed from a text.
fn recorded(action: TextAction, finding: &redact::Finding) -> FindingAction {
    let is_cleaned = matches!(
        finding.category,
        Category::UnicodeNormalizer | Category::SecretRedactor | Category::ContextSuppress
    );
    match action {
        TextAction::Cleaned if is_cleaned => FindingAction::Cleaned,
        TextAction::Reported | TextAction::Cleaned => FindingAction::Reported,
        TextAction::Denied => FindingAction::Denied,
        TextAction::Withheld if is_withheld(finding) => FindingAction::Withheld,
        TextAction::Withheld => recorded(TextAction::Cleaned, finding),
        TextAction::Stopped => FindingAction::Stopped,
    }
}

pub fn event(
    place: &str,
    origin: Origin,
    finding: &redact::Finding,
    action: FindingAction,
    waiver: Option<String>,
) -> event::FindingEvent {
    let redact::Finding { rule, severity, score, category, span, excerpt, advice, passage: _ } = finding;
    event::FindingEvent {
        place: place.to_owned(),
        origin: origin.into(),
        rule: (*rule).to_owned(),
        category: (*category).into(),
        severity: (*severity).into(),
        score: Some((*score).into()),
        line: span.line,
        column: span.column,
        start: span.start,
        end: span.end,
        excerpt: excerpt.clone(),
        advice: (*advice).to_owned(),
        action,
        waiver,
        kept: None,
    }
}
