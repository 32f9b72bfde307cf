//! Which turn of a scenario answers a request: a pure function of the request's own history, so that retries, resumed
//! conversations and sub-agents need no state here.

use super::scenario::{Action, BranchCondition, Scenario};
use crate::wire::{ContentBlock, Message, MessageRole, ModelRequest, turns};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChosenTurn<'a> {
    pub(super) place: TurnRef,
    pub(super) acts: &'a [Action],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnRef {
    /// `None` is the scenario's own `turns`.
    pub branch: Option<usize>,
    pub turn: usize,
}

impl fmt::Display for TurnRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.branch {
            None => write!(f, "turns[{}]", self.turn),
            Some(branch) => write!(f, "branches[{branch}].turns[{}]", self.turn),
        }
    }
}

pub(super) fn choose<'a>(scenario: &'a Scenario, request: &ModelRequest) -> Result<ChosenTurn<'a>, TurnRef> {
    let matched = scenario
        .branches
        .iter()
        .enumerate()
        .find_map(|(index, branch)| branch.when.begins_at(request).map(|start| (index, branch, start)));
    let (branch, list, start) = match matched {
        Some((index, branch, start)) => (Some(index), &branch.turns, start),
        None => (None, &scenario.turns, 0),
    };
    let place = TurnRef { branch, turn: turns(&request.messages[start..]) };
    match list.get(place.turn) {
        Some(acts) => Ok(ChosenTurn { place, acts }),
        None => Err(place),
    }
}

impl BranchCondition {
    /// `None`: the condition is false. Otherwise the message after which the branch's turns are counted.
    fn begins_at(&self, request: &ModelRequest) -> Option<usize> {
        let Self { user_contains, tool_result_contains, system_contains, model_contains, offers_tool } = self;
        let holds =
            |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|part| text.contains(part));
        let offered = |wanted: &String| request.tools.iter().any(|tool| tool.name == *wanted);
        if !holds(model_contains, &request.model)
            || !system_contains.as_ref().is_none_or(|part| system_has(request, part))
            || !offers_tool.as_ref().is_none_or(offered)
        {
            return None;
        }
        let mut start = 0;
        if let Some(part) = user_contains {
            start = start.max(last(request, |message| user_has(message, part))? + 1);
        }
        if let Some(part) = tool_result_contains {
            start = start.max(last(request, |message| result_has(message, part))? + 1);
        }
        Some(start)
    }
}

fn last(request: &ModelRequest, matches: impl Fn(&Message) -> bool) -> Option<usize> {
    request.messages.iter().rposition(matches)
}

fn system_has(request: &ModelRequest, part: &str) -> bool {
    let within = |message: &&Message| message.role == MessageRole::System;
    request.system.iter().any(|text| text.contains(part))
        || request.messages.iter().filter(within).any(|message| has_text(message, part))
}

fn user_has(message: &Message, part: &str) -> bool {
    message.role == MessageRole::User && has_text(message, part)
}

fn has_text(message: &Message, part: &str) -> bool {
    message.blocks.iter().filter_map(ContentBlock::as_text).any(|text| text.contains(part))
}

fn result_has(message: &Message, part: &str) -> bool {
    message.blocks.iter().any(|block| match block {
        ContentBlock::ToolResult(result) => result.parts.iter().any(|text| text.contains(part)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::scenario::Content;
    use crate::wire::{Tool, ToolResult};

    fn scenario() -> Scenario {
        let text = r#"{"turns": [[{"text":"t0"}],[{"text":"t1"}]],
            "branches": [
                {"when": {"user_contains": "does not match"}, "turns": [[{"text":"b0"}],[{"text":"b1"}]]},
                {"when": {"tool_result_contains": "boom"}, "turns": [[{"text":"r0"}]]},
                {"when": {"system_contains": "helper", "offers_tool": "Read"}, "turns": [[{"text":"s0"}]]}]}"#;
        Scenario::parse("s.json", text.as_bytes()).unwrap()
    }

    fn says(role: MessageRole, text: &str) -> Message {
        Message { role, blocks: vec![ContentBlock::Text(text.to_owned())] }
    }

    fn result(text: &str) -> Message {
        let result = ToolResult { id: "c".into(), parts: vec![text.to_owned()], is_error: false };
        Message { role: MessageRole::User, blocks: vec![ContentBlock::ToolResult(result)] }
    }

    fn check(messages: &[Message], expected: &str) {
        let request = ModelRequest { messages: messages.to_vec(), ..ModelRequest::default() };
        check_request(&request, expected);
    }

    fn check_request(request: &ModelRequest, expected: &str) {
        let scenario = scenario();
        let said = match choose(&scenario, request) {
            Ok(ChosenTurn { acts: [Action::Say(Content::Text(text))], .. }) => text.clone(),
            Ok(other) => panic!("{other:?}"),
            Err(place) => place.to_string(),
        };
        assert_eq!(said, expected, "{:?}", request.messages);
    }

    #[test]
    fn the_history_chooses_the_turn() {
        let go = says(MessageRole::User, "go");
        let a = says(MessageRole::Assistant, "a");
        let feedback = says(MessageRole::User, "the output does not match the schema");
        check(std::slice::from_ref(&go), "t0");
        check(&[go.clone(), a.clone(), result("fine")], "t1");
        check(&[go.clone(), a.clone(), a.clone(), result("fine")], "t1");
        check(&[go.clone(), a.clone(), result("x"), a.clone(), go.clone()], "turns[2]");
        // The same branch serves the conversation that goes on and the one that starts afresh.
        check(&[go.clone(), a.clone(), feedback.clone()], "b0");
        check(&[go.clone(), a.clone(), feedback.clone(), a.clone(), result("x")], "b1");
        check(std::slice::from_ref(&feedback), "b0");
        check(&[feedback.clone(), a.clone(), result("x"), a.clone(), result("x")], "branches[0].turns[2]");
        check(&[go, a, result("boom")], "r0");
    }

    #[test]
    fn all_conditions_of_a_branch_must_hold() {
        let tool = Tool { name: "Read".into(), description: String::new(), schema: serde_json::Value::Null };
        let mut request = ModelRequest {
            system: vec!["a helper".into()],
            messages: vec![says(MessageRole::User, "go")],
            ..ModelRequest::default()
        };
        check_request(&request, "t0");
        request.tools.push(tool);
        check_request(&request, "s0");
        request.system.clear();
        check_request(&request, "t0");
    }
}
