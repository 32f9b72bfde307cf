//! What a run means for its session: a directive to follow, a temporary or permanent failure, or an interrupt. Pure: it
//! reads the run's outcome, its directive and the state of the lease.

use session::{Directive, DirectiveOutcome, FailureClass, WakeEnding};

use super::lease_keeper::LeaseState;
use crate::event::outcome::EndCause;

/// The output file that holds the directive.
pub const DIRECTIVE_FILE: &str = "directive.json";

/// What is known about a run that ended.
pub struct EndedRun<'a> {
    pub cause: EndCause,
    pub reason: &'a str,
    /// The directive in the accepted output, or in the rejected one if none was accepted.
    pub directive: Option<&'a str>,
    /// The HTTP status of the model's last response, if that was an error.
    pub model_fault: Option<u16>,
    pub lease_state: &'a LeaseState,
}

pub fn ending(run: &EndedRun<'_>) -> WakeEnding {
    let reason = run.reason.to_owned();
    let transient = |message| WakeEnding::Failed { class: FailureClass::Transient, message };
    let permanent = |message| WakeEnding::Failed { class: FailureClass::Permanent, message };
    if *run.lease_state == LeaseState::Interrupted {
        return WakeEnding::Interrupted;
    }
    match run.cause {
        EndCause::Completed => match read_directive(run.directive) {
            Ok(directive) => WakeEnding::Directive(directive),
            Err(malformed) => malformed,
        },
        EndCause::Skipped => WakeEnding::Directive(Directive {
            response: String::new(),
            summary: format!("The wake was skipped: {reason}"),
            outcome: DirectiveOutcome::Sleep,
            follow_up_seconds: None,
            queued_wakes: Vec::new(),
            learnings: Vec::new(),
            custom_tools: Vec::new(),
            spawn: Vec::new(),
        }),
        // A rejected output with a valid directive was rejected for something else.
        EndCause::InvalidOutput | EndCause::NoOutput | EndCause::Denied | EndCause::Asked => {
            read_directive(run.directive).map_or_else(|malformed| malformed, |_| permanent(reason))
        }
        EndCause::AgentFailed if run.model_fault.is_some_and(is_permanent) => {
            permanent(format!("the model returned {}: {reason}", run.model_fault.unwrap_or_default()))
        }
        EndCause::SecurityStop | EndCause::BudgetSpent => permanent(reason),
        // A wrong file stays wrong. A failed script may succeed later.
        EndCause::ConfigurationInvalid | EndCause::PrerequisiteMissing => permanent(reason),
        EndCause::ScriptFailed
        | EndCause::AgentFailed
        | EndCause::Timeout
        | EndCause::ModelUnavailable
        | EndCause::SandboxUnavailable
        | EndCause::PostScriptFailed
        | EndCause::Interrupted
        | EndCause::Terminated
        | EndCause::Internal => transient(reason),
    }
}

/// Whether the provider would reject the same request again. Rate limits, timeouts and conflicts are temporary. A
/// rejected key is the worker's fault, not the message's: another worker may have a valid one.
fn is_permanent(status: u16) -> bool {
    (400..500).contains(&status) && ![401, 403, 408, 409, 425, 429].contains(&status)
}

/// The directive, or the result of a run without one.
#[expect(clippy::result_large_err, reason = "made once a wake")]
fn read_directive(text: Option<&str>) -> Result<Directive, WakeEnding> {
    let malformed = |error: String| WakeEnding::Malformed {
        error: format!("`{DIRECTIVE_FILE}`: {error}"),
        excerpt: text.unwrap_or_default().chars().take(500).collect(),
    };
    match text.map(Directive::from_json) {
        Some(Ok(directive)) => Ok(directive),
        Some(Err(error)) => Err(malformed(error.to_string())),
        None => Err(malformed("the file is missing".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = r#"{"summary":"s","outcome":"sleep"}"#;

    fn ended(cause: EndCause) -> EndedRun<'static> {
        EndedRun {
            cause,
            reason: "why",
            directive: Some(VALID),
            model_fault: None,
            lease_state: &LeaseState::Held,
        }
    }

    fn class(run: &EndedRun<'_>) -> &'static str {
        match ending(run) {
            WakeEnding::Directive(_) => "directive",
            WakeEnding::Paused => "paused",
            WakeEnding::Malformed { .. } => "malformed",
            WakeEnding::Failed { class: FailureClass::Transient, .. } => "transient",
            WakeEnding::Failed { class: FailureClass::Permanent, .. } => "permanent",
            WakeEnding::Interrupted => "interrupted",
        }
    }

    #[test]
    fn every_cause_has_a_meaning() {
        for (cause, expected) in [
            (EndCause::Completed, "directive"),
            (EndCause::Skipped, "directive"),
            (EndCause::NoOutput, "permanent"),
            (EndCause::Denied, "permanent"),
            (EndCause::Asked, "permanent"),
            (EndCause::InvalidOutput, "permanent"),
            (EndCause::AgentFailed, "transient"),
            (EndCause::Timeout, "transient"),
            (EndCause::BudgetSpent, "permanent"),
            (EndCause::ModelUnavailable, "transient"),
            (EndCause::SecurityStop, "permanent"),
            (EndCause::SandboxUnavailable, "transient"),
            (EndCause::ConfigurationInvalid, "permanent"),
            (EndCause::PrerequisiteMissing, "permanent"),
            (EndCause::ScriptFailed, "transient"),
            (EndCause::Terminated, "transient"),
            (EndCause::PostScriptFailed, "transient"),
            (EndCause::Interrupted, "transient"),
            (EndCause::Internal, "transient"),
        ] {
            assert_eq!(class(&ended(cause)), expected, "{cause:?}");
            let interrupted = EndedRun { lease_state: &LeaseState::Interrupted, ..ended(cause) };
            assert_eq!(class(&interrupted), "interrupted", "{cause:?}");
        }
    }

    #[test]
    fn a_run_without_a_valid_directive_is_malformed() {
        let causes = [
            EndCause::Completed,
            EndCause::InvalidOutput,
            EndCause::NoOutput,
            EndCause::Denied,
            EndCause::Asked,
        ];
        for cause in causes {
            for directive in [None, Some(""), Some("\"sleep\""), Some(r#"{"outcome":"sleep"}"#)] {
                assert_eq!(class(&EndedRun { directive, ..ended(cause) }), "malformed", "{directive:?}");
            }
        }
    }

    #[test]
    fn some_model_faults_are_permanent() {
        for (status, expected) in [
            (400, "permanent"),
            (401, "transient"),
            (403, "transient"),
            (404, "permanent"),
            (413, "permanent"),
            (408, "transient"),
            (409, "transient"),
            (429, "transient"),
            (500, "transient"),
            (529, "transient"),
        ] {
            let failed = EndedRun { model_fault: Some(status), ..ended(EndCause::AgentFailed) };
            assert_eq!(class(&failed), expected, "{status}");
        }
    }
}
