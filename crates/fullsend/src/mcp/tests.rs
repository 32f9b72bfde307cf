//! Messages of both kinds of revisions, and how arguments and results are converted.

use super::*;
use crate::json_rpc::{INVALID_REQUEST, PARSE_ERROR};

fn answered(message: &Json) -> Json {
    match react(message.to_string().as_bytes()) {
        Reaction::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn called(name: &str, arguments: &Json) -> Result<Vec<String>, String> {
    tools::command(name, arguments).map(|command| command.arguments)
}

fn current(method: &str) -> Json {
    let meta = json!({ VERSION_KEY: CURRENT, CAPABILITIES_KEY: {} });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "_meta": meta } })
}

#[test]
fn a_handshake_agrees_on_a_revision() {
    for (asked, agreed) in
        [("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), ("2024-11-05", "2025-11-25")]
    {
        let message = json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize",
            "params": { "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
        let answer = answered(&message);
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!("a"), &json!(agreed)));
        assert_eq!(answer["result"]["serverInfo"]["name"], "fullsend");
        assert!(answer["result"].get("resultType").is_none());
    }
}

#[test]
fn the_current_revision_needs_no_handshake() {
    let answer = answered(&current("server/discover"));
    assert_eq!(answer["result"]["supportedVersions"], json!([CURRENT]));
    assert_eq!(answer["result"]["_meta"][SERVER_KEY]["name"], "fullsend");
    let answer = answered(&current("tools/list"));
    assert_eq!(answer["result"]["resultType"], "complete");
    assert!(answer["result"]["ttlMs"].is_number() && answer["result"]["cacheScope"] == "public");
    // It has neither.
    for method in ["initialize", "ping"] {
        assert_eq!(answered(&current(method))["error"]["code"], UNKNOWN_METHOD, "{method}");
    }
}

#[test]
fn a_wrong_revision_and_missing_keys_are_errors() {
    let mut message = current("tools/list");
    message["params"]["_meta"][VERSION_KEY] = "2030-01-01".into();
    let answer = answered(&message);
    assert_eq!(answer["error"]["code"], UNSUPPORTED_VERSION);
    assert_eq!(answer["error"]["data"], json!({ "supported": [CURRENT], "requested": "2030-01-01" }));
    let mut message = current("tools/list");
    message["params"]["_meta"].as_object_mut().unwrap().remove(CAPABILITIES_KEY);
    assert_eq!(answered(&message)["error"]["code"], INVALID_PARAMETERS);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
    assert_eq!(answered(&message)["error"]["code"], INVALID_PARAMETERS);
}

#[test]
fn messages_that_are_no_requests() {
    for (message, code) in [
        ("{", PARSE_ERROR),
        ("[]", INVALID_REQUEST),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, INVALID_REQUEST),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, UNKNOWN_METHOD),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}"#, INVALID_PARAMETERS),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, INVALID_PARAMETERS),
    ] {
        let Reaction::Answer(answer) = react(message.as_bytes()) else { panic!("{message}") };
        assert_eq!(answer["error"]["code"], code, "{message}");
    }
    for message in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        assert_eq!(react(message.as_bytes()), Reaction::Nothing, "{message}");
    }
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    assert_eq!(react(cancel.as_bytes()), Reaction::Cancel(json!(7)));
}

#[test]
fn arguments_become_words_that_are_no_options() {
    let words = |words: &[&str]| Ok(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(called("check", &json!({})), words(&["check", "--json"]));
    assert_eq!(called("check", &json!({ "harness": "triage" })), words(&["check", "--json", "--", "triage"]));
    assert_eq!(
        called("run_harness", &json!({ "harness": "a", "prompt": "--dry-run" })),
        words(&["run", "--output=json", "--quiet", "--prompt=--dry-run", "--", "a"])
    );
    assert_eq!(
        called("sandbox_exec", &json!({ "sandbox": "s", "command": ["env"], "env": { "K": "v=w" } })),
        words(&["sandbox", "exec", "--env=K=v=w", "s", "--", "env"])
    );
    assert_eq!(
        called("sandbox_exec", &json!({ "sandbox": "s", "command": ["ls", "-la"], "cwd": "/tmp" })),
        words(&["sandbox", "exec", "--cwd=/tmp", "s", "--", "ls", "-la"])
    );
    assert_eq!(
        called("sandbox_get", &json!({ "sandbox": "s", "path": "a" })),
        words(&["sandbox", "get", "--", "s", "a", "-"])
    );
    let put =
        tools::command("sandbox_put", &json!({ "sandbox": "s", "path": "a", "content": "text" })).unwrap();
    assert_eq!(put.arguments, ["sandbox", "put", "--", "s", "-", "a"]);
    assert_eq!(put.input, b"text");
    for (name, arguments, why) in [
        ("check", json!({ "harness": "--all" }), "does not start with `-`"),
        ("check", json!({ "harness": "" }), "not empty"),
        ("sandbox_exec", json!({ "sandbox": "--tty", "command": ["ls"] }), "does not start with `-`"),
        ("sandbox_exec", json!({ "sandbox": "s", "command": [] }), "at least one entry"),
        ("sandbox_exec", json!({ "sandbox": "s", "command": [1] }), "list of strings"),
        ("run_harness", json!({}), "needs the argument `harness`"),
        ("run_harness", json!({ "harness": "a", "repo": "/" }), "has no argument `repo`"),
        (
            "sandbox_exec",
            json!({ "sandbox": "s", "command": ["ls"], "env": { "K": 1 } }),
            "values are strings",
        ),
        ("run_harness", json!({ "harness": "a", "max_usd": 100 }), "has no argument `max_usd`"),
        ("run_harness", json!([]), "not an object"),
        ("sandbox_create", json!({ "image": "/var/images/a.tar" }), "a name in a registry"),
        ("sandbox_create", json!({ "image": "images/a.tar" }), "a name in a registry"),
        ("sandbox_create", json!({ "image": "../a" }), "a name in a registry"),
        ("policy_test", json!({ "policy": "p\u{0}", "method": "GET", "url": "u" }), "has no NUL"),
    ] {
        let error = called(name, &arguments).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn results_are_text_and_data() {
    let call = |name: &str, arguments: Json| Call {
        id: json!(1),
        command: tools::command(name, &arguments).unwrap(),
        is_current: true,
    };
    let end = |code: Option<i32>, output: &[u8], errors: &str| ToolEnd {
        exit_code: code,
        output: output.to_vec(),
        is_cut: false,
        errors: errors.to_owned(),
    };
    let lines =
        call("list_harnesses", json!({})).answer(&end(Some(0), b"{\"name\":\"a\"}\n{\"name\":\"b\"}\n", ""));
    assert_eq!(lines["result"]["structuredContent"]["documents"], json!([{ "name": "a" }, { "name": "b" }]));
    assert_eq!(
        (&lines["result"]["isError"], &lines["result"]["resultType"]),
        (&json!(false), &json!("complete"))
    );
    let failed = call("runs_show", json!({})).answer(&end(Some(4), b"", "there is no run"));
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(failed["result"]["content"][0]["text"], "there is no run");
    assert_eq!(failed["result"]["content"][1]["text"], "exit code 4");
    let file =
        call("sandbox_get", json!({ "sandbox": "s", "path": "p" })).answer(&end(Some(0), b"\xff\x00", ""));
    assert_eq!(file["result"]["content"][0]["resource"]["blob"], "/wA=");
    let cut = ToolEnd { is_cut: true, ..end(Some(0), b"abc\xc3", "") };
    let file = call("sandbox_get", json!({ "sandbox": "s", "path": "p" })).answer(&cut);
    assert_eq!(
        (&file["result"]["isError"], &file["result"]["content"][0]["text"]),
        (&json!(true), &json!("abc"))
    );
    assert!(file["result"]["content"][1]["text"].as_str().unwrap().contains("the rest is left out"));
    let output = call("sandbox_exec", json!({ "sandbox": "s", "command": ["yes"] })).answer(&cut);
    assert_eq!(output["result"]["isError"], false);
    let cancelled = call("runs_show", json!({})).answer(&end(None, b"", ""));
    assert_eq!(cancelled["result"]["content"][0]["text"], "cancelled");
}
