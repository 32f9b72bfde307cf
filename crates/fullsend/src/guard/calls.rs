//! The tool calls of one run: what the model asked for, what the guard decided, and whether a result may go back to the
//! model. The gateway records calls and asks about results; hooks ask for verdicts. Pure state, no I/O.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::dialect::{CallDecision, RuntimeQuirks};
use super::hook_client::NO_ANSWER;

/// The most calls that are recorded. The result of a later call stops the run.
const MAX_CALLS: usize = 1 << 17;

/// The most reasons that are kept for one answer.
const MAX_REASONS: usize = 16;

/// The text that a runtime puts around a denial.
const MAX_WRAPPING: usize = 200;

/// The state of a call when a hook asks about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// The model's answer contained no such call.
    Unknown,
    /// The model asked for something else under this id.
    Different,
    /// A hook was told that it is denied.
    Settled(CallDecision),
    /// No run may use this tool.
    Off(&'static str),
    /// The gateway denies it.
    Denied(CallDecision),
    /// It is to be judged.
    Open,
}

/// Why a result must not go back to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmatchedResult {
    /// The model never made this call.
    Unknown,
    /// No hook asked about it.
    NoVerdict { tool: String },
    /// A hook asked about it and got no answer.
    NoAnswer { tool: String },
    /// It was denied, and this result is not the denial.
    Denied { tool: String },
}

impl std::fmt::Display for UnmatchedResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("a result came back for a tool call that the model never made"),
            Self::NoVerdict { tool } => write!(
                f,
                "a call to {tool} ran without the guard's verdict: its hook was killed or did not run"
            ),
            Self::NoAnswer { tool } => write!(f, "the guard did not answer the hook of a call to {tool}"),
            Self::Denied { tool } => {
                write!(f, "a call to {tool} was denied, and its result is not the denial: it may have run")
            }
        }
    }
}

impl std::error::Error for UnmatchedResult {}

/// The kind of a result. Runtimes send it only as text, so the text is interpreted once, here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultKind {
    /// The denial that the guard gave.
    Denial,
    /// The denial of a hook that got no answer.
    NoAnswer,
    /// The runtime refused the call before any hook.
    Refusal,
    /// What the tool returned.
    Output,
}

#[derive(Debug)]
struct Call {
    tool: String,
    input: Json,
    at_gateway: CallDecision,
    verdict: Option<CallDecision>,
    /// Whether the tool itself printed something like a reminder of the runtime; `None` until the hook after the call
    /// has run.
    prints_reminder: Option<bool>,
}

impl Call {
    /// Runtimes wrap a denial in text of their own and may repeat the call. The mark shows that the denial is ours. The
    /// length check keeps a command that prints the mark from being read as a denial.
    fn kind_of(&self, text: &str, is_error: bool, quirks: &RuntimeQuirks) -> ResultKind {
        if let Some(CallDecision::Deny { reason, mark }) = &self.verdict {
            let longest = reason.len() + self.input.to_string().len() + MAX_WRAPPING;
            if text.len() <= longest && text.contains(mark.as_str()) {
                return ResultKind::Denial;
            }
        }
        let may_be_refusal = is_error || !quirks.errors_are_marked;
        if text.contains(NO_ANSWER) {
            ResultKind::NoAnswer
        } else if may_be_refusal && quirks.refusals.iter().any(|start| text.starts_with(start)) {
            ResultKind::Refusal
        } else {
            ResultKind::Output
        }
    }
}

/// Every call that passed the gateway.
#[derive(Debug, Default)]
pub struct Calls {
    known: HashMap<String, Call>,
    /// Calls of earlier runs, which were judged then. The conversation that this run continues contains their results.
    pub past: HashSet<String>,
    /// Why the gateway denied calls in the model's last answer, if the answer has no other call.
    denied_last: Vec<String>,
}

impl Calls {
    /// Records a call of the model, and what the gateway decided about it.
    pub fn record(&mut self, id: &str, tool: &str, input: &Json, at_gateway: CallDecision) {
        match &at_gateway {
            CallDecision::Allow => self.denied_last.clear(),
            CallDecision::Deny { reason, .. } if self.denied_last.len() < MAX_REASONS => {
                self.denied_last.push(reason.clone());
            }
            CallDecision::Deny { .. } => {}
        }
        if self.known.len() < MAX_CALLS {
            let tool = tool.to_owned();
            let input = input.clone();
            let call = Call { tool, input, at_gateway, verdict: None, prints_reminder: None };
            self.known.insert(id.to_owned(), call);
        }
    }

    /// The tool and the input of a call, as the model gave them.
    pub fn get(&self, id: &str) -> Option<(String, Json)> {
        self.known.get(id).map(|call| (call.tool.clone(), call.input.clone()))
    }

    /// What the gateway decided about a call of the model.
    pub fn at_gateway(&self, id: &str) -> Option<CallDecision> {
        self.known.get(id).map(|call| call.at_gateway.clone())
    }

    /// The state of a call when a hook asks about it.
    pub fn state(&self, id: &str, hooked: (&str, &Json), quirks: &RuntimeQuirks) -> CallState {
        let Some(call) = self.known.get(id) else { return CallState::Unknown };
        match (&call.verdict, &call.at_gateway) {
            (Some(denied @ CallDecision::Deny { .. }), _) => CallState::Settled(denied.clone()),
            _ if let Some(why) = quirks.why_off(&call.tool) => CallState::Off(why),
            _ if !(quirks.same_call)((&call.tool, &call.input), hooked) => CallState::Different,
            (_, denied @ CallDecision::Deny { .. }) => CallState::Denied(denied.clone()),
            (_, CallDecision::Allow) => CallState::Open,
        }
    }

    /// The agent sent a result to the model, so it goes on by itself.
    pub fn goes_on(&mut self) {
        self.denied_last.clear();
    }

    /// Why the model's last answer has no call that the agent could run, if the gateway denied them all.
    pub fn take_denied_last(&mut self) -> Vec<String> {
        std::mem::take(&mut self.denied_last)
    }

    /// Records the verdict that the hook got. A denied call stays denied.
    pub fn settle(&mut self, id: &str, decision: &CallDecision) {
        let Some(call) = self.known.get_mut(id) else { return };
        if !matches!(call.verdict, Some(CallDecision::Deny { .. })) {
            call.verdict = Some(decision.clone());
        }
    }

    /// Records whether the result of a call holds a reminder before the runtime adds its own.
    pub fn record_reminder(&mut self, id: &str, is_printed: bool) {
        if let Some(call) = self.known.get_mut(id) {
            call.prints_reminder = Some(is_printed);
        }
    }

    /// Whether every reminder in the result of this call is the runtime's own.
    pub fn has_only_own_reminders(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|call| call.prints_reminder == Some(false))
    }

    /// Whether a result may go back to the model.
    pub fn result(
        &self,
        id: &str,
        text: &str,
        is_error: bool,
        quirks: &RuntimeQuirks,
    ) -> Result<(), UnmatchedResult> {
        let call = match self.known.get(id) {
            None if self.past.contains(id) => return Ok(()),
            call => call.ok_or(UnmatchedResult::Unknown)?,
        };
        let tool = call.tool.clone();
        let has_hook = !quirks.is_hookless(&call.tool);
        match (&call.verdict, &call.at_gateway, call.kind_of(text, is_error, quirks)) {
            (Some(CallDecision::Allow), _, _) => Ok(()),
            (Some(CallDecision::Deny { .. }), _, ResultKind::Denial) => Ok(()),
            (Some(CallDecision::Deny { .. }), _, _) => Err(UnmatchedResult::Denied { tool }),
            (None, _, ResultKind::NoAnswer) => Err(UnmatchedResult::NoAnswer { tool }),
            (None, CallDecision::Allow, ResultKind::Refusal) => Ok(()),
            (None, CallDecision::Allow, _) if !has_hook => Ok(()),
            (None, _, _) => Err(UnmatchedResult::NoVerdict { tool }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const QUIRKS: RuntimeQuirks = RuntimeQuirks {
        tools_without_hooks: &["Plan"],
        switched_off: &[],
        events: &[],
        refusals: &["<refused>"],
        errors_are_marked: true,
        replacing_loses_exit_code: false,
        reminder: None,
        result_tool: None,
        name_of: |tool| tool,
        same_call: |asked, hooked| asked == hooked,
    };

    fn deny(reason: &str) -> CallDecision {
        CallDecision::Deny { reason: format!("{reason} [denial 77]"), mark: "[denial 77]".to_owned() }
    }

    fn calls(at_gateway: CallDecision) -> Calls {
        let mut calls = Calls::default();
        calls.record("a", "Bash", &json!({ "command": "ls" }), at_gateway);
        calls.record("p", "Plan", &json!({}), CallDecision::Allow);
        calls
    }

    fn ask(calls: &mut Calls, id: &str, tool: &str, command: &str, answer: CallDecision) -> CallDecision {
        let input = json!({ "command": command });
        let decision = match calls.state(id, (tool, &input), &QUIRKS) {
            CallState::Unknown => return deny("no such call"),
            CallState::Different => deny("something else"),
            CallState::Off(why) => deny(why),
            CallState::Settled(decision) | CallState::Denied(decision) => decision,
            CallState::Open => answer,
        };
        calls.settle(id, &decision);
        decision
    }

    #[test]
    fn a_result_needs_a_verdict_on_the_same_call() {
        let mut known = calls(CallDecision::Allow);
        let no_verdict = UnmatchedResult::NoVerdict { tool: "Bash".to_owned() };
        assert_eq!(known.result("a", "out", false, &QUIRKS), Err(no_verdict.clone()));
        assert_eq!(known.result("a", "<refused> no such tool", true, &QUIRKS), Ok(()));
        assert_eq!(known.result("a", "<refused> no such tool", false, &QUIRKS), Err(no_verdict));
        let unanswered = format!("<refused> {NO_ANSWER}: gone");
        let no_answer = UnmatchedResult::NoAnswer { tool: "Bash".to_owned() };
        assert_eq!(known.result("a", &unanswered, true, &QUIRKS), Err(no_answer));
        assert_eq!(known.result("p", "out", false, &QUIRKS), Ok(()));
        assert_eq!(known.result("z", "out", false, &QUIRKS), Err(UnmatchedResult::Unknown));
        known.past.extend(["z".to_owned(), "a".to_owned()]);
        assert_eq!(known.result("z", "out", false, &QUIRKS), Ok(()), "it was judged in an earlier run");
        assert!(known.result("a", "out", false, &QUIRKS).is_err(), "an old name does not excuse a new call");
        assert_eq!(ask(&mut known, "a", "Bash", "ls", CallDecision::Allow), CallDecision::Allow);
        assert_eq!(known.result("a", "out", false, &QUIRKS), Ok(()));
    }

    #[test]
    fn another_input_another_tool_or_an_invented_call_is_denied() {
        for (id, tool, command) in [("a", "Bash", "rm -r /"), ("a", "Read", "ls"), ("b", "Bash", "ls")] {
            let mut known = calls(CallDecision::Allow);
            assert!(
                matches!(ask(&mut known, id, tool, command, CallDecision::Allow), CallDecision::Deny { .. }),
                "{id} {tool} {command}"
            );
            // A later question with the right input does not make the call valid.
            assert_eq!(
                ask(&mut known, "a", "Bash", "ls", CallDecision::Allow) == CallDecision::Allow,
                id == "b",
                "{id} {tool}"
            );
        }
    }

    #[test]
    fn a_denied_call_gives_its_denial_or_nothing() {
        for at_gateway in [CallDecision::Allow, deny("not this")] {
            let mut known = calls(at_gateway);
            let denied = ask(&mut known, "a", "Bash", "ls", deny("not this"));
            assert_eq!(denied, deny("not this"));
            assert_eq!(known.result("a", "hook error: not this [denial 77]", true, &QUIRKS), Ok(()));
            let ran = UnmatchedResult::Denied { tool: "Bash".to_owned() };
            assert_eq!(known.result("a", "file1 file2", false, &QUIRKS), Err(ran.clone()));
            let printed = format!("{} not this [denial 77]", "what a command said ".repeat(100));
            assert_eq!(known.result("a", &printed, true, &QUIRKS), Err(ran), "the mark is not enough");
        }
        // A call that the gateway would deny does not count as refused by the runtime, whatever its result says.
        let known = calls(deny("not this"));
        let ran = UnmatchedResult::NoVerdict { tool: "Bash".to_owned() };
        assert_eq!(known.result("a", "<refused>", true, &QUIRKS), Err(ran));
    }

    /// An answer that still has a call is not the end of the agent's turn.
    #[test]
    fn reasons_are_kept_only_for_an_answer_without_other_calls() {
        let mut known = calls(CallDecision::Allow);
        let input = json!({});
        let denied = deny("not this");
        known.record("d", "Bash", &input, denied.clone());
        assert_eq!(known.take_denied_last(), ["not this [denial 77]"]);
        assert!(known.take_denied_last().is_empty(), "each is returned once");
        known.record("d", "Bash", &input, denied.clone());
        known.record("e", "Bash", &input, CallDecision::Allow);
        assert!(known.take_denied_last().is_empty());
        known.record("d", "Bash", &input, denied);
        known.goes_on();
        assert!(known.take_denied_last().is_empty());
    }
}
