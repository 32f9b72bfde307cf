//! What a run means for its session: a directive to follow, a failure that may pass or one that will not, an interrupt. Pure:
//! the outcome, what was heard and what the heart saw decide.

use super::lease_keeper::LeaseState;
use crate::event::Violation;
use crate::event::outcome::EndCause;
use session::{Directive, DirectiveOutcome as Goes, FailureClass, WakeEnding};

/// The file in which a directive is handed in.
pub const DIRECTIVE_FILE: &str = "directive.json";

/// What is known about a run that ended.
pub struct EndedRun<'a> {
    pub cause: EndCause,
    pub reason: &'a str,
    /// The directive as it was accepted, if the run completed.
    pub directive: Option<&'a str>,
    pub violations: &'a [Violation],
    /// The status of the model's last answer, if that was a fault.
    pub fault: Option<u16>,
    pub heart: &'a LeaseState,
}

pub fn ending(ended: &EndedRun<'_>) -> WakeEnding {
    let reason = ended.reason.to_owned();
    let transient = |message| WakeEnding::Failed { class: FailureClass::Transient, message };
    let permanent = |message| WakeEnding::Failed { class: FailureClass::Permanent, message };
    if *ended.heart == LeaseState::Interrupted {
        return WakeEnding::Interrupted;
    }
    match ended.cause {
        EndCause::Completed => directive(ended.directive),
        EndCause::Skipped => WakeEnding::Directive(Directive {
            response: String::new(),
            summary: format!("The wake was skipped: {reason}"),
            outcome: Goes::Sleep,
            follow_up_seconds: None,
            queued_wakes: Vec::new(),
            learnings: Vec::new(),
            custom_tools: Vec::new(),
        }),
        EndCause::InvalidOutput | EndCause::NoOutput | EndCause::Denied | EndCause::Asked => {
            match ended.violations.iter().find(|violation| violation.message.contains(DIRECTIVE_FILE)) {
                Some(violation) => {
                    WakeEnding::Malformed { error: violation.message.clone(), excerpt: reason }
                }
                None => permanent(reason),
            }
        }
        EndCause::AgentFailed if ended.fault.is_some_and(is_permanent) => {
            permanent(format!("the model answered {}: {reason}", ended.fault.unwrap_or_default()))
        }
        EndCause::SecurityStop | EndCause::BudgetSpent => permanent(reason),
        // A pre-script that failed may not fail tomorrow; a file that is wrong stays wrong.
        EndCause::ConfigurationInvalid | EndCause::PrerequisiteMissing => permanent(reason),
        EndCause::ScriptFailed
        | EndCause::AgentFailed
        | EndCause::Timeout
        | EndCause::SandboxUnavailable
        | EndCause::PostScriptFailed
        | EndCause::Interrupted
        | EndCause::Terminated
        | EndCause::Internal => transient(reason),
    }
}

/// A request that the provider will refuse tomorrow as well. Too many requests, time-outs and conflicts pass.
fn is_permanent(status: u16) -> bool {
    (400..500).contains(&status) && ![408, 409, 425, 429].contains(&status)
}

fn directive(text: Option<&str>) -> WakeEnding {
    let malformed = |error: String| WakeEnding::Malformed {
        error,
        excerpt: text.unwrap_or_default().chars().take(500).collect(),
    };
    match text.map(Directive::from_json) {
        Some(Ok(directive)) => WakeEnding::Directive(directive),
        Some(Err(error)) => malformed(error.to_string()),
        None => malformed(format!("`{DIRECTIVE_FILE}` is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(cause: EndCause) -> EndedRun<'static> {
        let (reason, heart) = ("why", &LeaseState::Held);
        EndedRun { cause, reason, directive: None, violations: &[], fault: None, heart }
    }

    fn class(ended: &EndedRun<'_>) -> &'static str {
        match ending(ended) {
            WakeEnding::Directive(_) => "directive",
            WakeEnding::Paused => "paused",
            WakeEnding::Malformed { .. } => "malformed",
            WakeEnding::Failed { class: FailureClass::Transient, .. } => "transient",
            WakeEnding::Failed { class: FailureClass::Permanent, .. } => "permanent",
            WakeEnding::Interrupted => "interrupted",
        }
    }

    #[test]
    fn every_outcome_means_something() {
        for (kind, expected) in [
            (EndCause::Skipped, "directive"),
            (EndCause::NoOutput, "permanent"),
            (EndCause::Denied, "permanent"),
            (EndCause::Asked, "permanent"),
            (EndCause::InvalidOutput, "permanent"),
            (EndCause::AgentFailed, "transient"),
            (EndCause::Timeout, "transient"),
            (EndCause::BudgetSpent, "permanent"),
            (EndCause::SecurityStop, "permanent"),
            (EndCause::SandboxUnavailable, "transient"),
            (EndCause::ConfigurationInvalid, "permanent"),
            (EndCause::PrerequisiteMissing, "permanent"),
            (EndCause::ScriptFailed, "transient"),
            (EndCause::Terminated, "transient"),
            (EndCause::PostScriptFailed, "transient"),
            (EndCause::Interrupted, "transient"),
            (EndCause::Internal, "transient"),
            (EndCause::Completed, "malformed"),
        ] {
            assert_eq!(class(&ended(kind)), expected, "{kind:?}");
            let interrupted = EndedRun { heart: &LeaseState::Interrupted, ..ended(kind) };
            assert_eq!(class(&interrupted), "interrupted", "{kind:?}");
        }
    }

    #[test]
    fn faults_of_the_provider_pass_or_do_not() {
        for (status, expected) in [
            (400, "permanent"),
            (401, "permanent"),
            (403, "permanent"),
            (404, "permanent"),
            (413, "permanent"),
            (408, "transient"),
            (409, "transient"),
            (429, "transient"),
            (500, "transient"),
            (529, "transient"),
        ] {
            let failed = EndedRun { fault: Some(status), ..ended(EndCause::AgentFailed) };
            assert_eq!(class(&failed), expected, "{status}");
        }
    }

    #[test]
    fn a_directive_that_was_rejected_is_malformed_and_another_output_is_not() {
        let says = |message: &str| [Violation { path: String::new(), message: message.to_owned() }];
        let about = says("in `directive.json`: \"summary\" is a required property");
        let wrong = EndedRun { violations: &about, ..ended(EndCause::InvalidOutput) };
        assert_eq!(class(&wrong), "malformed");
        let other = says("\"fixed\" is a required property");
        assert_eq!(class(&EndedRun { violations: &other, ..ended(EndCause::InvalidOutput) }), "permanent");
        let good = EndedRun {
            directive: Some(r#"{"summary":"s","outcome":"sleep"}"#),
            ..ended(EndCause::Completed)
        };
        assert_eq!(class(&good), "directive");
    }
}
