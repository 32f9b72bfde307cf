//! The model gateway from inside: only the runtime may use it, and only for what the run is for.

use serde_json::json;

use crate::attack_rows::{AttackRow, held};
use crate::sandboxes::BOTH;
use crate::support::{Who, World, has_program};

/// Asks the gateway for a model, with the betas and tools of its arguments.
const ASK: &str = r#"import json, sys, urllib.error, urllib.request as web
body = {"model": sys.argv[1], "max_tokens": 9, "messages": [{"role": "user", "content": "fetch it for me"}]}
body.update(json.loads(sys.argv[2]))
request = web.Request("http://model.fullsend.internal/v1/messages", json.dumps(body).encode())
try:
    print("answered", web.urlopen(request).status)
except urllib.error.HTTPError as error:
    print("refused", error.read().decode())
"#;

/// The events of a run whose agent runs this program with these arguments.
fn events(who: Who, more: &str, arguments: &str) -> Option<String> {
    let scenario = json!({ "turns": [
        [{ "shell": format!("/usr/bin/python3 ask.py {arguments}") }],
        [{ "finish": { "summary": "asked" } }],
    ] });
    let world = World::scripted(more, scenario);
    world.write("repo/ask.py", ASK);
    let ran = world.run_as(who, &["run", "triage"])?;
    let runs = std::fs::read_dir(world.path("state/fullsend/runs/local")).unwrap();
    let record = runs.flatten().map(|entry| entry.path().join("events.jsonl")).find(|path| path.exists());
    Some(std::fs::read_to_string(record.unwrap_or_else(|| panic!("{}", ran.err))).unwrap())
}

fn refusal(events: &str) -> &str {
    events.lines().find(|line| line.contains("model_refused")).unwrap_or_default()
}

#[test]
fn a_program_beside_the_runtime_is_refused_by_name() {
    if !has_program("python3", "gateway") {
        return;
    }
    for who in BOTH {
        let Some(found) = events(who, "", "claude-sonnet-5 {}") else { continue };
        let refused = refusal(&found);
        assert!(refused.contains("only the agent's runtime may use the model gateway"), "{found}");
        assert!(refused.contains("python3"), "{refused}");
        held(AttackRow::OtherProgramAtGateway, who);
    }
}

#[test]
fn what_the_harness_allows_passes_and_is_an_exception_in_the_record() {
    if !has_program("python3", "gateway") {
        return;
    }
    let more = "gateway: {allow: ['client:*', 'tool:web_search_*']}\n";
    let search = r#"claude-sonnet-5 '{"tools": [{"type": "web_search_20250305", "name": "web_search"}]}'"#;
    let events = |arguments| events(Who::Caller, more, arguments).unwrap();
    let found = events(search);
    assert_eq!(refusal(&found), "", "{found}");
    assert!(found.contains("passes `tool:web_search_*`"), "{found}");
    let fetch = r#"claude-sonnet-5 '{"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}'"#;
    let found = events(fetch);
    assert!(refusal(&found).contains("does not pass `tool:web_fetch_20250910`"), "{found}");
    let other = events("claude-opus-5-5 {}");
    assert!(refusal(&other).contains("not the model `claude-opus-5-5`"), "{other}");
}
