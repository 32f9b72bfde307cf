//! The events of a run as updates of an editor's session: the agent's words, its tool calls, and the steps of the run as a plan.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::event::{FindingEvent, RunEvent, Step};
use crate::json_rpc;
use crate::render::diagnostics::clean_text;

/// The most characters of a title.
const MAX_TITLE: usize = 200;

/// Turns the events of one run into updates.
#[derive(Debug)]
pub struct Updates {
    /// Which run of the session it is: two runs may use the same id of a call.
    run: u64,
    calls: BTreeSet<String>,
}

impl Updates {
    pub fn new(run: u64) -> Self {
        Self { run, calls: BTreeSet::new() }
    }

    /// The id of a call for the editor.
    pub fn call_id(&self, call: &str) -> String {
        format!("{}.{call}", self.run)
    }

    /// The updates for an event. Most events have none.
    pub fn of(&mut self, event: &RunEvent) -> Vec<Json> {
        match event {
            RunEvent::AgentText { text, .. } => vec![message(text)],
            RunEvent::ToolStarted { call, tool, summary, .. } => vec![self.call(call, tool, summary)],
            RunEvent::ToolFinished { call, is_error, .. } => {
                let status = if *is_error { "failed" } else { "completed" };
                let is_known = self.calls.remove(call);
                is_known.then(|| self.ended(call, status, None)).into_iter().collect()
            }
            RunEvent::ToolDenied { call, tool, reason } => {
                let unknown = (!self.calls.contains(call)).then(|| self.call(call, tool, ""));
                self.calls.remove(call);
                unknown.into_iter().chain([self.ended(call, "failed", Some(reason))]).collect()
            }
            RunEvent::StepStarted { step } => vec![plan(Some(phase(*step)))],
            RunEvent::OutputRejected { violations, .. } => {
                let reasons: Vec<&str> =
                    violations.iter().map(|violation| violation.message.as_str()).collect();
                vec![thought(&format!("The output was rejected: {}", reasons.join("; ")))]
            }
            RunEvent::Finding(FindingEvent { place, rule, severity, line, action, .. }) => {
                let finding = format!("{} {rule} in {place}, line {line}", severity.as_str());
                vec![thought(&format!("The guard found {finding}: {}", action.as_str()))]
            }
            RunEvent::RunFinished { .. } => vec![plan(None)],
            _ => Vec::new(),
        }
    }

    fn call(&mut self, call: &str, tool: &str, summary: &str) -> Json {
        self.calls.insert(call.to_owned());
        json!({
            "sessionUpdate": "tool_call", "toolCallId": self.call_id(call), "title": title(tool, summary),
            "kind": kind(tool), "status": "in_progress",
        })
    }

    fn ended(&self, call: &str, status: &str, reason: Option<&str>) -> Json {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": self.call_id(call), "status": status });
        if let Some(reason) = reason {
            update["content"] = json!([{ "type": "content", "content": content(reason) }]);
        }
        update
    }
}

/// The notification with an update.
pub fn notification(session: &str, update: &Json) -> Json {
    json_rpc::notification("session/update", &json!({ "sessionId": session, "update": update }))
}

/// Words of the agent.
pub fn message(text: &str) -> Json {
    json!({ "sessionUpdate": "agent_message_chunk", "content": content(text) })
}

/// Words of the user, from an earlier conversation.
pub fn user_message(text: &str) -> Json {
    json!({ "sessionUpdate": "user_message_chunk", "content": content(text) })
}

fn thought(text: &str) -> Json {
    json!({ "sessionUpdate": "agent_thought_chunk", "content": content(&format!("{text}\n")) })
}

fn content(text: &str) -> Json {
    json!({ "type": "text", "text": clean_text(text) })
}

/// The title of a tool call.
pub fn title(tool: &str, summary: &str) -> String {
    let line = clean_text(&format!("{tool} {summary}")).replace('\n', " ");
    line.trim_end().chars().take(MAX_TITLE).collect()
}

/// The most informative value of an input, or the whole input.
pub fn input_summary(input: &Json) -> String {
    let known = ["command", "cmd", "file_path", "path", "pattern", "url"];
    let value = known.iter().find_map(|key| input.get(key).and_then(Json::as_str));
    value.map_or_else(|| input.to_string(), str::to_owned)
}

/// The kind of a tool, which decides its icon in the editor.
pub fn kind(tool: &str) -> &'static str {
    match tool.to_ascii_lowercase().as_str() {
        "bash" | "shell" | "exec_command" | "write_stdin" => "execute",
        "read" => "read",
        "edit" | "write" | "multiedit" | "notebookedit" | "apply_patch" => "edit",
        "glob" | "grep" => "search",
        "webfetch" | "websearch" => "fetch",
        "update_plan" | "todowrite" => "think",
        _ => "other",
    }
}

/// The phases of a run that a person follows.
const PHASES: [&str; 4] =
    ["Prepare the sandbox", "Let the agent work", "Check the output", "Close the sandbox"];

fn phase(step: Step) -> usize {
    match step {
        Step::PreScript | Step::Inputs | Step::Provision | Step::Bootstrap => 0,
        Step::Agent => 1,
        Step::Quarantine | Step::Validate | Step::Publish => 2,
        Step::Teardown | Step::PostScript => 3,
    }
}

/// The plan with this phase in progress, or all of it done.
fn plan(current: Option<usize>) -> Json {
    let current = current.unwrap_or(PHASES.len());
    let entry = |(phase, content): (usize, &&str)| {
        let status = match phase.cmp(&current) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        json!({ "content": content, "priority": "medium", "status": status })
    };
    json!({ "sessionUpdate": "plan", "entries": PHASES.iter().enumerate().map(entry).collect::<Vec<_>>() })
}
