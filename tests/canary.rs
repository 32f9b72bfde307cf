//! The canary token in the agent's prompt: found in calls, results, answers, the output and the transcript, however it is
//! spelled.

use std::fs;

use serde_json::{Value as Json, json};

use crate::guarded::{directory, findings, has, record, run, security, sent};
use crate::vendor::{finish, runs, shell, vendor, world};

/// The canary token in a request.
pub fn canary(request: &Json) -> String {
    let text = request.to_string();
    let end = text.find(" is a secret test value").expect("the prompt has a canary token");
    text[end - 34..end].to_owned()
}

#[test]
fn the_canary_token_is_noticed_wherever_it_is_repeated() {
    let leak = |switch: &str, command: fn(&str) -> String, denied: u64| {
        let (port, _) = vendor(move |turn, request| match turn {
            0 => shell(0, &command(&canary(request))),
            _ => finish(&json!({ "summary": "done" })),
        });
        let world = world(port, &security(&format!("{{sandbox_hooks: {{{switch}}}}}")));
        let ran = run(&world);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(record(&world)["attempts"][0]["denied_calls"], denied, "{switch}");
        findings(&world)
    };
    let plain = |word: &str| format!("echo {word}");
    let apart =
        |word: &str| format!("echo {}", word.chars().map(|letter| format!("{letter}.")).collect::<String>());
    assert!(has(&leak("canary_pretool: true", plain, 1), "canary", "denied"));
    leak("canary_pretool: true", apart, 1);
    leak("canary_pretool: false", plain, 0);
    // Joined only inside, it is seen in the result.
    let joined = |word: &str| {
        format!("echo {} | tr -d '-' | rev", word.chars().rev().map(|c| format!("{c}-")).collect::<String>())
    };
    let found = leak("canary_pretool: false, canary_posttool: true", joined, 0);
    assert!(has(&found, "canary", "withheld"), "{found:?}");
    let (port, seen) = runs(&[]);
    let off = world(port, &security("{sandbox_hooks: {canary_pretool: false, canary_posttool: false}}"));
    assert_eq!(run(&off).code, 0);
    assert!(!sent(&seen).contains("is a secret test value"), "no check looks for it, so there is none");
}

#[test]
fn a_canary_token_in_the_output_ends_the_run() {
    let (port, _) = vendor(|turn, request| match turn {
        0 => finish(&json!({ "summary": canary(request) })),
        _ => finish(&json!({ "summary": "done" })),
    });
    let world = world(
        port,
        &security(
            "{sandbox_hooks: {canary_pretool: false}, escalation: {on_critical: review, review_label: look}}",
        ),
    );
    let file = world.path("ci.txt");
    let world = world.env("GITHUB_OUTPUT", file.to_str().unwrap());
    let ran = run(&world);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("set the label `look`"), "{}", ran.err);
    let outputs = fs::read_to_string(file).unwrap();
    assert!(outputs.starts_with("outcome=security_stop\nexit_code=6\n"), "{outputs}");
    assert!(outputs.ends_with("\nreview_label=look\n") && !outputs.contains("result="), "{outputs}");
    let record = record(&world);
    assert_eq!((&record["outcome"], &record["review_label"]), (&json!("security_stop"), &json!("look")));
    assert!(!directory(&world).join("iteration-1/output").exists(), "nothing is promoted");
    assert!(has(&findings(&world), "canary", "stopped"));
}

#[test]
fn a_canary_token_in_an_answer_ends_the_run() {
    let check = |more: &str, code: i32, written: fn(&str) -> String| {
        let (port, seen) = vendor(move |turn, request| match turn {
            0 => json!([{ "type": "text", "text": written(&canary(request)) }, shell(0, "ls")[0]]),
            _ => finish(&json!({ "summary": "done" })),
        });
        let world = world(port, more);
        let ran = run(&world);
        assert_eq!(ran.code, code, "{}", ran.err);
        let found = findings(&world);
        let action = if code == 6 { "stopped" } else { "reported" };
        let told = |finding: &&Json| finding["rule"] == "canary" && finding["place"] == "answer";
        let told: Vec<&Json> = found.iter().filter(told).collect();
        assert!(told.len() == 1 && told[0]["action"] == action, "{found:?}");
        assert_eq!(seen.lock().unwrap().len(), if code == 6 { 1 } else { 2 }, "what was asked of the model");
    };
    check("", 6, |word| format!("It is {word}."));
    check("", 6, |word| word.chars().rev().collect());
    check("", 6, |word| word.chars().map(|letter| format!("{letter} - ")).collect());
    // So far apart that no part of the stream that is held back shows it.
    check("", 6, |word| word.chars().map(|letter| format!("{letter}{}", " . ".repeat(100))).collect());
    let open = security("{fail_mode: open, sandbox_hooks: {canary_pretool: false}}");
    check(&open, 0, |word| word.chars().map(|letter| format!("{letter} - ")).collect());
}

#[test]
fn findings_in_a_transcript_are_reported_and_do_not_stop_the_run() {
    // Everything passes on its way, so that it comes into the transcript.
    let (port, _) = vendor(|turn, request| match turn {
        0 => shell(0, "cat leak.txt"),
        1 => shell(1, &format!("echo {}", canary(request))),
        _ => finish(&json!({ "summary": "done" })),
    });
    let world = world(port, &security("{sandbox_hooks: {secret_redact_posttool: false}}"));
    world.write("repo/leak.txt", "DB_PASSWORD=hunter2-rainbow\nDB_PASSWORD=hunter3-rainbow\n");
    let ran = run(&world);
    assert_eq!(ran.code, 0, "the call was denied, and that is enough: {}", ran.err);
    let found = findings(&world);
    let place = "transcripts/conversation.json";
    let told = |rule: &str| {
        let at = |finding: &&Json| finding["place"] == place && finding["rule"] == rule;
        found.iter().filter(at).map(|finding| finding["action"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(
        (told("password-assignment"), told("canary")),
        (vec!["cleaned"], vec!["reported"]),
        "{found:?}"
    );
    let (port, _) = runs(&["ls"]);
    let quiet = self::world(port, "");
    assert_eq!(run(&quiet).code, 0);
    assert!(findings(&quiet).is_empty(), "that it was planted is nothing to tell: {:?}", findings(&quiet));
}
