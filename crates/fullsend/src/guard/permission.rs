//! Answers a runtime that asks for permission over its own protocol. The gateway has judged the calls of the model; here a
//! request is compared with the call that it belongs to. A request without such a call is judged by what it would run.

use std::sync::PoisonError;

use serde_json::Value as Json;

use super::Guard;
use super::dialect::CallDecision;
use super::judge::Scanners;
use super::tool_input;

/// Where a request names the file that a tool would read or write.
const PATH_KEYS: &[&str] = &["path", "file_path", "filePath", "filepath", "abs_path", "absolute_path"];

impl Guard {
    /// Decides about a call that the runtime asks for. `tool` is the runtime's word for it.
    pub fn permit(&self, id: &str, tool: &str, input: &Json) -> CallDecision {
        let known = {
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.get(id).zip(calls.at_gateway(id))
        };
        let decision = match known {
            Some((_, denied @ CallDecision::Deny { .. })) => denied,
            Some(((asked, given), CallDecision::Allow)) => {
                let wanted = tool_input::command(tool, input);
                if wanted.is_none() || wanted == tool_input::command(&asked, &given) {
                    CallDecision::Allow
                } else {
                    self.deny("the runtime changed this call after you made it. Make the call again.")
                }
            }
            None => self.permit_unknown(tool, input),
        };
        self.emit_if_denied(id, tool, decision)
    }

    /// Agents may use other ids than the model. Such a request must name what it is about.
    fn permit_unknown(&self, tool: &str, input: &Json) -> CallDecision {
        let is_about_file = PATH_KEYS.iter().any(|key| input.get(key).is_some_and(Json::is_string));
        let is_readable = tool_input::command(tool, input).is_some()
            || !tool_input::addresses(tool, input).is_empty()
            || is_about_file;
        if !is_readable {
            return self.deny("the request names no call of yours, no command, no address and no file");
        }
        match self.decide(tool, input, Scanners::All) {
            CallDecision::Allow => self.confirm(tool, input),
            denied => denied,
        }
    }

    /// The tool and the input of a call, as the model gave them.
    pub fn call_of_model(&self, id: &str) -> Option<(String, Json)> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(id)
    }

    /// Why the model's last answer has no call that the agent could run, if the gateway denied them all. Each reason is
    /// returned once.
    pub fn take_denied_last(&self) -> Vec<String> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).take_denied_last()
    }
}
