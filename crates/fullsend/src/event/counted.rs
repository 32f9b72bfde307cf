//! Bounds the log of a run: a program inside can cause events without end, such as refused connections. Of each such kind only
//! the first events are written; the others are counted. Events that decide the outcome of a run, or what it cost, are
//! always written.

use std::collections::BTreeMap;

use egress::event::{ConnectionDecision, EgressEvent};
use model::ModelEvent;

use super::finding::{FindingAction, FindingFamily};
use super::{FindingEvent, RunEvent};

/// Of each kind, so many events are written, and so many bytes of them.
const MAX_EVENTS: u64 = 10_000;
const MAX_BYTES: u64 = 16 << 20;
/// Of refusals, failures and findings fewer are needed to see what happened.
const MAX_REFUSALS: u64 = 2_000;
const REFUSALS: &[&str] = &[
    "egress_denied",
    "egress_failed",
    "name_refused",
    "model_refused",
    "model_retry",
    "model_fault",
    "finding",
    "scanner_broke",
    "hook_missing",
    "skill_fetch",
    "tool_denied",
];

/// What was written of each kind, and how many further events there were.
#[derive(Debug, Default)]
pub(super) struct EventCounts {
    kinds: BTreeMap<&'static str, KindCount>,
}

#[derive(Debug, Default)]
struct KindCount {
    written: u64,
    bytes: u64,
    further: u64,
    /// The last count in the log.
    reported: u64,
}

/// What happens to one event.
pub(super) enum Admission {
    Write,
    Count,
    /// Counted, and the count is written: at powers of two, so that a log without an end has nearly all of it.
    CountAndReport(Box<RunEvent>),
}

impl EventCounts {
    pub(super) fn admit(&mut self, event: &RunEvent) -> Admission {
        let Some(kind) = countable_kind(event) else { return Admission::Write };
        let count = self.kinds.entry(kind).or_default();
        let most = if REFUSALS.contains(&kind) { MAX_REFUSALS } else { MAX_EVENTS };
        if count.further == 0 && count.written < most && count.bytes < MAX_BYTES {
            return Admission::Write;
        }
        count.further += 1;
        if !count.further.is_power_of_two() {
            return Admission::Count;
        }
        count.reported = count.further;
        Admission::CountAndReport(Box::new(counted(kind, count.further)))
    }

    pub(super) fn written(&mut self, event: &RunEvent, bytes: usize) {
        if let Some(kind) = countable_kind(event) {
            let count = self.kinds.entry(kind).or_default();
            count.written += 1;
            count.bytes += bytes as u64;
        }
    }

    /// The counts that are not in the log yet, for its end.
    pub(super) fn unreported(&mut self) -> Vec<RunEvent> {
        let open = self.kinds.iter_mut().filter(|(_, count)| count.reported < count.further);
        open.map(|(kind, count)| {
            count.reported = count.further;
            counted(kind, count.further)
        })
        .collect()
    }
}

fn counted(kind: &str, count: u64) -> RunEvent {
    RunEvent::EventsCounted { kind: kind.to_owned(), count }
}

/// The kind of an event that a program inside can cause as often as it likes. `None`: it is always written.
fn countable_kind(event: &RunEvent) -> Option<&'static str> {
    match event {
        RunEvent::Egress { event: EgressEvent::Connection(connection) } => Some(match connection.decision {
            ConnectionDecision::Allowed => "egress_allowed",
            ConnectionDecision::Audited => "egress_audited",
            ConnectionDecision::Denied => "egress_denied",
            ConnectionDecision::Failed => "egress_failed",
        }),
        RunEvent::Egress { event: EgressEvent::NameRefused { .. } } => Some("name_refused"),
        RunEvent::Model { event } => match event {
            ModelEvent::ModelRequest { .. } | ModelEvent::TokensCounted { .. } => Some("model_request"),
            ModelEvent::ModelRefused { .. } => Some("model_refused"),
            ModelEvent::ModelRetry { .. } | ModelEvent::ModelFallback { .. } => Some("model_retry"),
            ModelEvent::ContextTooLong { .. } | ModelEvent::CredentialRefused { .. } => Some("model_fault"),
            // One without tokens and without a price costs nothing.
            ModelEvent::ModelAnswer { usage, cost: None, .. } if usage.total() == 0 => Some("model_fault"),
            ModelEvent::ModelAnswer { .. }
            | ModelEvent::BudgetWarning { .. }
            | ModelEvent::BudgetSpent { .. }
            | ModelEvent::UpstreamResting { .. }
            | ModelEvent::Stop { .. } => None,
        },
        RunEvent::Finding(FindingEvent { action, category, .. }) => {
            let decides = *action == FindingAction::Stopped || *category == FindingFamily::Canary;
            (!decides).then_some("finding")
        }
        RunEvent::ScannerFailed { stopped: false, .. } => Some("scanner_broke"),
        RunEvent::HookMissing { stopped: false, .. } => Some("hook_missing"),
        RunEvent::SkillFetch(_) => Some("skill_fetch"),
        RunEvent::AgentText { .. } => Some("agent_text"),
        RunEvent::ToolStarted { .. } => Some("tool_started"),
        RunEvent::ToolDenied { .. } => Some("tool_denied"),
        RunEvent::ToolFinished { .. } => Some("tool_finished"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::{FindingAction, FindingFamily};
    use super::super::log::{Emitter, read};
    use super::super::outcome::OutcomeKind;
    use super::*;

    fn refused(name: &str) -> RunEvent {
        let reason = "no rule allows this host".to_owned();
        RunEvent::Egress { event: EgressEvent::NameRefused { name: name.to_owned(), reason } }
    }

    fn finding(action: FindingAction, category: FindingFamily) -> RunEvent {
        RunEvent::Finding(FindingEvent { action, category, ..FindingEvent::default() })
    }

    #[test]
    fn excess_events_are_counted_and_deciding_events_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        for _ in 0..MAX_REFUSALS + 5_000 {
            emitter.emit(refused("a.example"));
        }
        emitter.emit(finding(FindingAction::Stopped, FindingFamily::Canary));
        let stop = ModelEvent::Stop { exchange: 1, reason: "canary".to_owned() };
        emitter.emit(RunEvent::Model { event: stop });
        let before_end = read(&path).unwrap().len() as u64;
        assert!(before_end < MAX_REFUSALS + 20, "{before_end}");
        emitter.emit(RunEvent::RunFinished {
            outcome: OutcomeKind::Completed,
            exit_code: 0,
            reason: String::new(),
        });
        let events = read(&path).unwrap();
        let counted = RunEvent::EventsCounted { kind: "name_refused".to_owned(), count: 5_000 };
        assert_eq!(events[events.len() - 2].event, counted);
        assert!(events.iter().any(|one| matches!(one.event, RunEvent::Finding(_))));
        assert!(matches!(events.last().unwrap().event, RunEvent::RunFinished { .. }));
        assert!(
            events.iter().any(|one| matches!(one.event, RunEvent::Model { event: ModelEvent::Stop { .. } }))
        );
    }

    #[test]
    fn large_events_are_bounded_by_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let emitter = Emitter::create(&path, |_| {}).unwrap();
        let long = "x".repeat(200 << 10);
        for _ in 0..200 {
            emitter.emit(refused(&long));
        }
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes < MAX_BYTES + (1 << 20), "{bytes}");
    }

    #[test]
    fn every_stop_is_written() {
        let mut counts = EventCounts::default();
        for _ in 0..3 * MAX_EVENTS {
            for event in [
                finding(FindingAction::Stopped, FindingFamily::Commands),
                finding(FindingAction::Reported, FindingFamily::Canary),
            ] {
                assert!(matches!(counts.admit(&event), Admission::Write));
                counts.written(&event, 100);
            }
        }
    }
}
