//! Messages of editors, and the events of a run as updates.

use std::path::Path;

use super::*;
use crate::event::{RunEvent, Step};

fn decided(message: &Json) -> EditorMessage {
    decide(message.to_string().as_bytes(), true)
}

fn request(method: &str, parameters: &Json) -> Json {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": parameters })
}

fn error_code(message: &EditorMessage) -> i64 {
    match message {
        EditorMessage::Answer(answer) => answer["error"]["code"].as_i64().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_editor_reads_what_the_agent_can_do() {
    for loads in [false, true] {
        let message = request("initialize", &json!({ "protocolVersion": 1 })).to_string();
        let EditorMessage::Answer(answer) = decide(message.as_bytes(), loads) else { panic!() };
        assert_eq!(answer["result"]["protocolVersion"], 1);
        assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], loads);
    }
}

#[test]
fn requests_are_checked() {
    let new = decided(&request("session/new", &json!({ "cwd": "/project", "mcpServers": [] })));
    let wanted = EditorRequest::NewSession { directory: "/project".into() };
    assert_eq!(new, EditorMessage::Request { id: json!(7), request: wanted });
    for (method, parameters, code) in [
        ("session/new", json!({ "cwd": "work" }), INVALID_PARAMETERS),
        ("session/new", json!({}), INVALID_PARAMETERS),
        ("session/prompt", json!({ "sessionId": "a" }), INVALID_PARAMETERS),
        ("session/prompt", json!({ "prompt": [] }), INVALID_PARAMETERS),
        ("terminal/create", json!({}), UNKNOWN_METHOD),
    ] {
        assert_eq!(error_code(&decided(&request(method, &parameters))), i64::from(code), "{method}");
    }
    let load = request("session/load", &json!({ "sessionId": "a", "cwd": "/" })).to_string();
    assert_eq!(error_code(&decide(load.as_bytes(), false)), i64::from(UNKNOWN_METHOD));
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "a" } });
    assert_eq!(decided(&cancel), EditorMessage::Cancel("a".to_owned()));
}

#[test]
fn a_prompt_becomes_text() {
    let blocks = [
        json!({ "type": "text", "text": "Fix this:" }),
        json!({ "type": "resource_link", "name": "a.rs", "uri": "file:///project/src/a.rs" }),
        json!({ "type": "resource", "resource": { "uri": "file:///etc/hosts", "text": "a ``` b\n" } }),
    ];
    let text = prompt::text(&blocks, Path::new("/project")).unwrap();
    assert_eq!(text, "Fix this:\nsrc/a.rs\n/etc/hosts:\n````\na ``` b\n````");
    for wrong in [json!([]), json!([{ "type": "image", "data": "" }]), json!([{ "text": "x" }])] {
        let blocks = wrong.as_array().unwrap();
        assert_eq!(
            prompt::text(blocks, Path::new("/project")).unwrap_err().code,
            INVALID_PARAMETERS,
            "{wrong}"
        );
    }
}

#[test]
fn only_an_explicit_answer_allows() {
    let selected = |option: &str| json!({ "outcome": { "outcome": "selected", "optionId": option } });
    assert!(is_allowed(&selected("allow")));
    for other in
        [selected("deny"), selected("else"), json!({ "outcome": { "outcome": "cancelled" } }), json!({})]
    {
        assert!(!is_allowed(&other), "{other}");
    }
}

#[test]
fn the_end_of_a_run_is_a_stop_reason_or_an_error() {
    let end = |exit: Exit| PromptEnd {
        exit_code: Some(exit.code().into()),
        is_cancelled: false,
        reason: "why".to_owned(),
    };
    for (exit, stop) in [
        (Exit::Done, "end_turn"),
        (Exit::NoOutput, "end_turn"),
        (Exit::Budget, "max_tokens"),
        (Exit::Security, "refusal"),
    ] {
        assert_eq!(end(exit).result().unwrap(), json!({ "stopReason": stop }));
    }
    let failure = end(Exit::Missing).result().unwrap_err();
    assert_eq!((failure.code, failure.message.as_str()), (INTERNAL_ERROR, "why"));
    let cancelled = PromptEnd { is_cancelled: true, ..end(Exit::Terminated) };
    assert_eq!(cancelled.result().unwrap(), json!({ "stopReason": "cancelled" }));
}

#[test]
fn a_denied_call_is_shown_with_its_reason() {
    let mut updates = updates::Updates::new(3);
    let text = |text: &str| text.to_owned();
    let started =
        RunEvent::ToolStarted { iteration: 1, call: text("c"), tool: text("Bash"), summary: text("ls\n-la") };
    let update = &updates.of(&started)[0];
    assert_eq!(update["toolCallId"], "3.c");
    assert_eq!((&update["title"], &update["kind"]), (&json!("Bash ls -la"), &json!("execute")));
    let denied = RunEvent::ToolDenied { call: text("c"), tool: text("Bash"), reason: text("no") };
    let update = &updates.of(&denied)[0];
    assert_eq!(update["status"], "failed");
    assert_eq!(update["content"][0]["content"]["text"], "no");
    let finished = RunEvent::ToolFinished { iteration: 1, call: text("c"), is_error: true, bytes: 1 };
    assert!(updates.of(&finished).is_empty(), "a call ends once");
    let unknown = RunEvent::ToolDenied { call: text("d"), tool: text("Bash"), reason: text("no") };
    assert_eq!(updates.of(&unknown).len(), 2, "the editor must know a call before it ends");
}

#[test]
fn the_steps_of_a_run_are_its_plan() {
    let mut updates = updates::Updates::new(1);
    let update = &updates.of(&RunEvent::StepStarted { step: Step::Agent })[0];
    let statuses: Vec<&str> =
        update["entries"].as_array().unwrap().iter().map(|entry| entry["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["completed", "in_progress", "pending", "pending"]);
}
