//! What an agent sends, read into types: its updates, its requests for permission, and how a prompt ended. Everything in
//! them is data from inside the sandbox: bounded, and missing parts have a default.

use serde_json::{Value as Json, json};

/// The longest id of a call.
const MAX_ID: usize = 200;

/// The longest summary of a call.
const MAX_SUMMARY: usize = 120;

/// What an agent reports while it works.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentUpdate {
    Words(String),
    Call(CallUpdate),
    Plan(Json),
    Other,
}

/// A tool call, as far as the agent tells.
#[derive(Clone, Debug, PartialEq)]
pub struct CallUpdate {
    pub id: String,
    pub title: String,
    pub kind: String,
    pub input: Json,
    pub status: CallProgress,
    /// What the agent says about its result.
    pub output: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress {
    Open,
    Completed,
    Failed,
}

/// One of the answers that the agent accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PermissionOption {
    id: String,
    kind: String,
}

/// The agent asks whether it may run a call.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRequest {
    pub call: CallUpdate,
    options: Vec<PermissionOption>,
}

/// Why the agent ended its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    Done,
    /// The model's answer or the turn was too long.
    Exhausted,
    Refused,
    Cancelled,
    Unknown(String),
}

fn text(value: &Json, key: &str) -> String {
    value.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

impl AgentUpdate {
    pub fn read(update: &Json) -> Self {
        match update.get("sessionUpdate").and_then(Json::as_str) {
            Some("agent_message_chunk") => {
                Self::Words(update.get("content").map(|c| text(c, "text")).unwrap_or_default())
            }
            Some("tool_call" | "tool_call_update") => Self::Call(CallUpdate::read(update)),
            Some("plan") => Self::Plan(update.get("entries").cloned().unwrap_or_default()),
            _ => Self::Other,
        }
    }
}

impl CallUpdate {
    fn read(call: &Json) -> Self {
        let status = match call.get("status").and_then(Json::as_str) {
            Some("completed") => CallProgress::Completed,
            Some("failed") => CallProgress::Failed,
            _ => CallProgress::Open,
        };
        let parts = call.get("content").and_then(Json::as_array).into_iter().flatten();
        let output =
            parts.filter_map(|part| part.get("content")).map(|content| text(content, "text")).collect();
        Self {
            id: text(call, "toolCallId").chars().take(MAX_ID).collect(),
            title: text(call, "title"),
            kind: text(call, "kind"),
            input: call.get("rawInput").cloned().unwrap_or_default(),
            status,
            output,
        }
    }

    /// The tool's name for the guard and the log, by the kind of the call. The protocol has no names of tools.
    pub fn tool(&self) -> &'static str {
        match self.kind.as_str() {
            "execute" => "Bash",
            "read" => "Read",
            "edit" | "delete" | "move" => "Edit",
            "search" => "Grep",
            "fetch" => "WebFetch",
            "think" => "Think",
            _ => "Other",
        }
    }
}

/// One line about a call.
pub fn summary(input: &Json, title: &str) -> String {
    let known = ["command", "cmd", "filePath", "file_path", "path", "pattern", "url"];
    let named = known.iter().find_map(|key| input.get(key).and_then(Json::as_str));
    let shown = named.unwrap_or(title);
    shown.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SUMMARY).collect()
}

impl PermissionRequest {
    pub fn read(parameters: &Json) -> Self {
        let options = parameters.get("options").and_then(Json::as_array).into_iter().flatten();
        let call = parameters.get("toolCall").map(CallUpdate::read);
        Self {
            call: call.unwrap_or_else(|| CallUpdate::read(&Json::Null)),
            options: options
                .map(|option| PermissionOption { id: text(option, "optionId"), kind: text(option, "kind") })
                .collect(),
        }
    }

    /// The answer. An agent that offers no fitting option is told that the request was cancelled. Permission is given for
    /// one call where that is possible.
    pub fn answer(&self, allowed: bool) -> Json {
        let kinds = if allowed { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        let option = kinds.iter().find_map(|kind| self.options.iter().find(|option| option.kind == *kind));
        match option {
            Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option.id } }),
            None => json!({ "outcome": { "outcome": "cancelled" } }),
        }
    }
}

impl TurnEnd {
    pub fn read(result: &Json) -> Self {
        match result.get("stopReason").and_then(Json::as_str).unwrap_or_default() {
            "end_turn" => Self::Done,
            "max_tokens" | "max_turn_requests" => Self::Exhausted,
            "refusal" => Self::Refused,
            "cancelled" => Self::Cancelled,
            other => Self::Unknown(other.chars().take(MAX_ID).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_is_given_once_and_never_by_an_option_that_rejects() {
        let request = |kinds: &[&str]| {
            let options: Vec<Json> =
                kinds.iter().map(|kind| json!({ "optionId": kind, "kind": kind })).collect();
            PermissionRequest::read(&json!({ "toolCall": { "toolCallId": "a" }, "options": options }))
        };
        let chosen = |kinds: &[&str], allowed: bool| {
            let answer = request(kinds).answer(allowed);
            answer["outcome"]["optionId"].as_str().map(str::to_owned)
        };
        let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
        assert_eq!(chosen(&all, true).as_deref(), Some("allow_once"));
        assert_eq!(chosen(&all, false).as_deref(), Some("reject_once"));
        assert_eq!(chosen(&["allow_always"], true).as_deref(), Some("allow_always"));
        assert_eq!(chosen(&["allow_always"], false), None);
        assert_eq!(request(&["allow_once"]).answer(false)["outcome"]["outcome"], "cancelled");
        assert_eq!(request(&[]).answer(true)["outcome"]["outcome"], "cancelled");
    }

    #[test]
    fn stop_reasons_have_their_meaning() {
        let end = |reason: &str| TurnEnd::read(&json!({ "stopReason": reason }));
        assert_eq!(end("end_turn"), TurnEnd::Done);
        assert_eq!([end("max_tokens"), end("max_turn_requests")], [TurnEnd::Exhausted, TurnEnd::Exhausted]);
        assert_eq!([end("refusal"), end("cancelled")], [TurnEnd::Refused, TurnEnd::Cancelled]);
        assert_eq!(end("x"), TurnEnd::Unknown("x".to_owned()));
        assert_eq!(TurnEnd::read(&Json::Null), TurnEnd::Unknown(String::new()));
    }

    #[test]
    fn an_update_without_its_parts_is_still_an_update() {
        let read = AgentUpdate::read(&json!({ "sessionUpdate": "tool_call" }));
        let AgentUpdate::Call(call) = read else { panic!("{read:?}") };
        assert_eq!((call.id.as_str(), call.status, call.tool()), ("", CallProgress::Open, "Other"));
        assert_eq!(AgentUpdate::read(&json!({ "sessionUpdate": 3 })), AgentUpdate::Other);
        let words = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image" } });
        assert_eq!(AgentUpdate::read(&words), AgentUpdate::Words(String::new()));
    }
}
