//! What our own loop can do, in real sandboxes: both formats of models, MCP servers, calls side by side, files, options.

use serde_json::{Value as Json, json};

use super::stage::{Stage, good};

fn calc() -> &'static str {
    "import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if 'id' not in asked:
        continue
    if asked['method'] == 'tools/list':
        schema = {'type': 'object', 'properties': {'a': {'type': 'integer'}, 'b': {'type': 'integer'}}}
        result = {'tools': [{'name': 'add', 'description': 'Adds.', 'inputSchema': schema}]}
    elif asked['method'] == 'tools/call':
        numbers = asked['params']['arguments']
        result = {'content': [{'type': 'text', 'text': f\"SUM-{numbers['a'] + numbers['b']}\"}]}
    else:
        result = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'calc', 'version': '1'}}
    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)
"
}

#[test]
fn servers_of_the_harness_are_tools_with_their_names() {
    for runtime in ["native", "claude"] {
        let call = json!({ "tool": "mcp__calc__add", "input": { "a": 40, "b": 2 } });
        let scenario = json!({ "turns": [[call], [{ "finish": good() }]] });
        let more =
            "mcp_servers:\n  calc:\n    command: python3\n    args: [/sandbox/workspace/repo/calc.py]\n";
        let Some(stage) = Stage::with(runtime, "mcp servers", &scenario, more) else { continue };
        stage.world.write("repo/calc.py", calc());
        stage.ends(0);
        let words = stage.words();
        assert!(words[1].contains("SUM-42"), "{runtime}: {}", words[1]);
    }
}

#[test]
fn a_server_that_does_not_start_fails_the_run() {
    let more = "mcp_servers:\n  calc:\n    command: /none/calc\n";
    let stage =
        Stage::with("native", "mcp servers", &json!({ "turns": [[{ "finish": good() }]] }), more).unwrap();
    let ran = stage.run();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("the MCP server `calc` did not start"), "{}", ran.err);
    assert!(stage.server.requests().is_empty());
}

#[test]
fn the_other_format_is_spoken_as_well() {
    let turns = json!([[{ "shell": "cat greet.sh" }], [{ "finish": good() }]]);
    let stage = Stage::new("native", "responses", &json!({ "turns": turns })).unwrap();
    let provider = stage.world.path("repo/.fullsend/providers/model.yaml");
    let text = std::fs::read_to_string(&provider).unwrap().replace("type: anthropic", "type: openai");
    std::fs::write(provider, text).unwrap();
    stage.ends(0);
    let requests = stage.server.requests();
    assert!(requests.iter().all(|request| request["path"] == "/v1/responses"), "{requests:#?}");
    assert!(requests[1]["body"].to_string().contains("wrold"));
    assert_eq!(stage.accepted(1), good());
}

/// Each waits for the other: one after the other they would wait for ever.
#[test]
fn calls_of_one_answer_run_side_by_side() {
    let wait = |mine: &str, other: &str| {
        json!({ "shell": format!(
        "touch {mine}; for n in $(seq 200); do [ -e {other} ] && echo MET-{mine} && exit 0; sleep 0.1; done; exit 1"
    ) })
    };
    let scenario = json!({ "turns": [[wait("a", "b"), wait("b", "a")], [{ "finish": good() }]] });
    let stage = Stage::new("native", "side by side", &scenario).unwrap();
    stage.ends(0);
    let words = stage.words();
    assert!(
        words[1].find("MET-a\\n").unwrap() < words[1].find("MET-b\\n").unwrap(),
        "in the order of the calls"
    );
}

#[test]
fn files_are_read_changed_and_found() {
    let tool = |name: &str, input: Json| json!([{ "tool": name, "input": input }]);
    let scenario = json!({ "turns": [
        tool("Glob", json!({ "pattern": "**/*.sh" })),
        tool("Grep", json!({ "pattern": "wr.ld" })),
        tool("Edit", json!({ "path": "greet.sh", "old": "wrold", "new": "world" })),
        tool("Read", json!({ "path": "greet.sh", "offset": 1, "limit": 1 })),
        tool("Read", json!({ "path": "none.sh" })),
        [{ "finish": good() }],
    ] });
    let stage = Stage::new("native", "files", &scenario).unwrap();
    stage.ends(0);
    let words = stage.words();
    assert!(words[1].contains("greet.sh"), "{}", words[1]);
    assert!(words[2].contains("greet.sh:1:echo"), "{}", words[2]);
    assert!(words[3].contains("changed 1 places"), "{}", words[3]);
    assert!(words[4].contains("Hello, world!"), "{}", words[4]);
    assert!(words[5].contains("No such file"), "{}", words[5]);
}

#[test]
fn options_of_the_agent_reach_the_model() {
    let scenario = json!({ "turns": [[{ "tool": "Bash", "input": { "command": "echo RAN-$((6*7))" } }], [{ "finish": good() }]] });
    let stage = Stage::with("native", "options", &scenario, "effort: low\n").unwrap();
    let agent = "---\nname: mend\ntools: Bash, Read, Grep\ndisallowedTools: Bash\nmaxTurns: 1\n---\nReport `fixed`, `file` and `cause`.\n";
    stage.world.write("repo/.fullsend/agents/mend.md", agent);
    let ran = stage.run();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("it did not finish within 1 turns"), "{}", ran.err);
    let body = stage.server.requests()[0]["body"].clone();
    let names: Vec<&str> =
        body["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["Read", "Grep", "finish"]);
    assert_eq!(body["output_config"]["effort"], "low");
}

/// An agent that kills its own loop has killed itself and nothing else.
#[test]
fn a_loop_that_is_killed_fails_the_run() {
    let scenario = json!({ "turns": [[{ "shell": "kill -9 $PPID; sleep 5" }], [{ "finish": good() }]] });
    let stage = Stage::new("native", "killed", &scenario).unwrap();
    let ran = stage.run();
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("signal 9"), "{}", ran.err);
}
