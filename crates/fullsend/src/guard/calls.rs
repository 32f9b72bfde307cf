//! The tool calls of one run: what the model asked for, what the guard said to each, and whether a result may go back to
//! the model. The gateway tells of calls and asks about results; the hook socket asks for verdicts. Pure state, no I/O.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use super::client::NO_ANSWER;
use super::dialect::{Decision, RuntimeQuirks};

/// More calls than one run can have. Beyond it none is remembered and every result stops the run.
const MAX_CALLS: usize = 1 << 17;

/// The words that a runtime puts around a denial.
const MOST_WRAPPING: usize = 200;

/// Where a call stands when a hook asks about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The model made no such call.
    Unknown,
    /// The model asked for something else under this name.
    Other,
    /// It was denied to a hook before, and stays so.
    Settled(Decision),
    /// No run may use this tool.
    Off(&'static str),
    /// The gateway would deny it.
    Denied(Decision),
    /// It is to be judged.
    Open,
}

/// Why a result must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Irregular {
    /// The model never asked for this call.
    Unknown,
    /// No hook asked about it.
    NoVerdict { tool: String },
    /// A hook asked about it and got no answer.
    NoAnswer { tool: String },
    /// It was denied, and this is not the denial.
    Denied { tool: String },
}

impl std::fmt::Display for Irregular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("a result came back for a tool call that the model never made"),
            Self::NoVerdict { tool } => {
                write!(
                    f,
                    "a call to {tool} ran without the guard's verdict: its hook was killed or did not run"
                )
            }
            Self::NoAnswer { tool } => write!(f, "the guard did not answer the hook of a call to {tool}"),
            Self::Denied { tool } => {
                write!(f, "a call to {tool} was denied, and its result is not the denial: it may have run")
            }
        }
    }
}

#[derive(Debug)]
struct Call {
    tool: String,
    input: Json,
    at_gateway: Decision,
    verdict: Option<Decision>,
}

/// Every call that passed the gateway.
#[derive(Debug, Default)]
pub struct Calls {
    known: HashMap<String, Call>,
    /// Of earlier runs, judged then: the host kept the conversation that holds their results.
    pub past: HashSet<String>,
}

impl Calls {
    /// The model asks for a call; `decision` is what the guard thinks of it already.
    pub fn asked_for(&mut self, id: &str, tool: &str, input: &Json, decision: Decision) {
        if self.known.len() < MAX_CALLS {
            let call =
                Call { tool: tool.to_owned(), input: input.clone(), at_gateway: decision, verdict: None };
            self.known.insert(id.to_owned(), call);
        }
    }

    /// The tool and the input of a call, as the model gave them.
    pub fn get(&self, id: &str) -> Option<(String, Json)> {
        self.known.get(id).map(|call| (call.tool.clone(), call.input.clone()))
    }

    /// Where a call stands when a hook asks about it.
    pub fn standing(&self, id: &str, hooked: (&str, &Json), quirks: &RuntimeQuirks) -> Standing {
        let Some(call) = self.known.get(id) else { return Standing::Unknown };
        match (&call.verdict, &call.at_gateway) {
            (Some(denied @ Decision::Deny { .. }), _) => Standing::Settled(denied.clone()),
            _ if let Some(why) = quirks.why_off(&call.tool) => Standing::Off(why),
            _ if !(quirks.same_call)((&call.tool, &call.input), hooked) => Standing::Other,
            (_, denied @ Decision::Deny { .. }) => Standing::Denied(denied.clone()),
            (_, Decision::Allow) => Standing::Open,
        }
    }

    /// The verdict that the hook was given. A denial stays, whoever asks later.
    pub fn settle(&mut self, id: &str, decision: &Decision) {
        let Some(call) = self.known.get_mut(id) else { return };
        if !matches!(call.verdict, Some(Decision::Deny { .. })) {
            call.verdict = Some(decision.clone());
        }
    }

    /// Whether a result may go on to the model.
    pub fn result(
        &self,
        id: &str,
        text: &str,
        is_error: bool,
        quirks: &RuntimeQuirks,
    ) -> Result<(), Irregular> {
        let call = match self.known.get(id) {
            None if self.past.contains(id) => return Ok(()),
            call => call.ok_or(Irregular::Unknown)?,
        };
        let tool = || call.tool.clone();
        match (&call.verdict, &call.at_gateway) {
            (Some(Decision::Allow), _) => Ok(()),
            (Some(Decision::Deny { reason }), _) if is_denial(text, reason, &call.input) => Ok(()),
            (Some(Decision::Deny { .. }), _) => Err(Irregular::Denied { tool: tool() }),
            (None, _) if text.contains(NO_ANSWER) => Err(Irregular::NoAnswer { tool: tool() }),
            (None, Decision::Deny { .. }) => Err(Irregular::NoVerdict { tool: tool() }),
            (None, Decision::Allow) => {
                let refused = (is_error || !quirks.errors_are_marked)
                    && quirks.refusals.iter().any(|start| text.starts_with(start));
                let hookless = quirks.tools_without_hooks.contains(&call.tool.as_str());
                if refused || hookless { Ok(()) } else { Err(Irregular::NoVerdict { tool: tool() }) }
            }
        }
    }
}

/// Runtimes wrap the reason in words of their own and may repeat the call; the mark at its end is what counts. Whoever
/// could ask for the mark, and prints it among other things, has no denial.
fn is_denial(text: &str, reason: &str, input: &Json) -> bool {
    let most = reason.len() + input.to_string().len() + MOST_WRAPPING;
    mark(reason).is_some_and(|mark| text.contains(mark)) && text.len() <= most
}

/// `… [denial 5f3a…]`
fn mark(reason: &str) -> Option<&str> {
    reason.rfind("[denial ").and_then(|start| reason.get(start..))
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
        hand_in: None,
        name_of: |tool| tool,
        same_call: |asked, hooked| asked == hooked,
    };

    fn deny(reason: &str) -> Decision {
        Decision::Deny { reason: format!("{reason} [denial 77]") }
    }

    fn calls(at_gateway: Decision) -> Calls {
        let mut calls = Calls::default();
        calls.asked_for("a", "Bash", &json!({ "command": "ls" }), at_gateway);
        calls.asked_for("p", "Plan", &json!({}), Decision::Allow);
        calls
    }

    fn ask(calls: &mut Calls, id: &str, tool: &str, command: &str, answer: Decision) -> Decision {
        let input = json!({ "command": command });
        let decision = match calls.standing(id, (tool, &input), &QUIRKS) {
            Standing::Unknown => return deny("no such call"),
            Standing::Other => deny("something else"),
            Standing::Off(why) => deny(why),
            Standing::Settled(decision) | Standing::Denied(decision) => decision,
            Standing::Open => answer,
        };
        calls.settle(id, &decision);
        decision
    }

    #[test]
    fn a_result_needs_a_verdict_on_the_same_call() {
        let mut known = calls(Decision::Allow);
        let no_verdict = Irregular::NoVerdict { tool: "Bash".to_owned() };
        assert_eq!(known.result("a", "out", false, &QUIRKS), Err(no_verdict.clone()));
        assert_eq!(known.result("a", "<refused> no such tool", true, &QUIRKS), Ok(()));
        assert_eq!(known.result("a", "<refused> no such tool", false, &QUIRKS), Err(no_verdict));
        let unanswered = format!("<refused> {NO_ANSWER}: gone");
        let no_answer = Irregular::NoAnswer { tool: "Bash".to_owned() };
        assert_eq!(known.result("a", &unanswered, true, &QUIRKS), Err(no_answer));
        assert_eq!(known.result("p", "out", false, &QUIRKS), Ok(()));
        assert_eq!(known.result("z", "out", false, &QUIRKS), Err(Irregular::Unknown));
        known.past.extend(["z".to_owned(), "a".to_owned()]);
        assert_eq!(known.result("z", "out", false, &QUIRKS), Ok(()), "it was judged in an earlier run");
        assert!(known.result("a", "out", false, &QUIRKS).is_err(), "an old name does not excuse a new call");
        assert_eq!(ask(&mut known, "a", "Bash", "ls", Decision::Allow), Decision::Allow);
        assert_eq!(known.result("a", "out", false, &QUIRKS), Ok(()));
    }

    #[test]
    fn another_input_another_tool_or_an_invented_call_is_denied() {
        for (id, tool, command) in [("a", "Bash", "rm -r /"), ("a", "Read", "ls"), ("b", "Bash", "ls")] {
            let mut known = calls(Decision::Allow);
            assert!(
                matches!(ask(&mut known, id, tool, command, Decision::Allow), Decision::Deny { .. }),
                "{id} {tool} {command}"
            );
            // Asking again with the right words does not wash it off.
            assert_eq!(
                ask(&mut known, "a", "Bash", "ls", Decision::Allow) == Decision::Allow,
                id == "b",
                "{id} {tool}"
            );
        }
    }

    #[test]
    fn a_denied_call_gives_its_denial_or_nothing() {
        for at_gateway in [Decision::Allow, deny("not this")] {
            let mut known = calls(at_gateway);
            let denied = ask(&mut known, "a", "Bash", "ls", deny("not this"));
            assert_eq!(denied, deny("not this"));
            assert_eq!(known.result("a", "hook error: not this [denial 77]", true, &QUIRKS), Ok(()));
            let ran = Irregular::Denied { tool: "Bash".to_owned() };
            assert_eq!(known.result("a", "file1 file2", false, &QUIRKS), Err(ran.clone()));
            let printed = format!("{} not this [denial 77]", "what a command said ".repeat(100));
            assert_eq!(known.result("a", &printed, true, &QUIRKS), Err(ran), "the mark is not enough");
        }
        // What the gateway would deny is no refusal of the runtime's own, whatever the result says.
        let known = calls(deny("not this"));
        let ran = Irregular::NoVerdict { tool: "Bash".to_owned() };
        assert_eq!(known.result("a", "<refused>", true, &QUIRKS), Err(ran));
    }
}
