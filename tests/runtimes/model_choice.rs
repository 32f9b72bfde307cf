//! Which model is asked, with the real programs: names as the services take them, and the next model if one stays busy.

use std::fs;

use serde_json::Value as Json;

use super::matrix::{staged_before, way};
use super::stage::good;
use crate::services::Fake;

/// Names with `.`, `:`, `/`, `@` and `[1m]`, and what the service gets: in the path, or in the body.
#[test]
fn claude_reaches_models_with_odd_names() {
    let arn = "arn:aws:bedrock:eu-west-1:111122223333:application-inference-profile/a1b2c3d4e5f6";
    for (service, wire, model, expected) in [
        (
            "bedrock",
            None,
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/",
        ),
        (
            "bedrock",
            None,
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0[1m]",
            "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/",
        ),
        (
            "bedrock",
            None,
            arn,
            "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A111122223333%3Aapplication-inference-profile%2Fa1b2c3d4e5f6/",
        ),
        ("vertex", None, "claude-sonnet-4-5@20250929", "/models/claude-sonnet-4-5@20250929:streamRawPredict"),
        ("vertex", None, "claude-opus-4-6[1m]", "/models/claude-opus-4-6:streamRawPredict"),
        ("anthropic", None, "claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5-20250929"),
        ("openai", Some("chat"), "anthropic/claude-sonnet-4.5:beta", "anthropic/claude-sonnet-4.5:beta"),
        ("openai", Some("chat"), "hf.co/unsloth/Qwen3-GGUF:Q4_K_M", "hf.co/unsloth/Qwen3-GGUF:Q4_K_M"),
    ] {
        let fake = Fake::start("matrix.py", &["short", &good().to_string()]);
        let Some(stage) = staged_before("claude", &way(service, wire, model), &fake, "") else { return };
        let ran = stage.run();
        let seen = fake.requests("/");
        assert_eq!(ran.code, 0, "{service} {model}: {}\n{seen:#?}", ran.err);
        let is_asked = |request: &Json| {
            request["path"].as_str().unwrap().contains(expected) || request["model"] == expected
        };
        let main: Vec<&Json> = seen.iter().filter(|request| request["main"] == true).collect();
        assert!(!main.is_empty() && main.iter().all(|request| is_asked(request)), "{model}: {seen:#?}");
    }
}

fn asks_the_next_model(runtime: &str, service: &'static str, busy: &'static str, next: &str) {
    let fake = Fake::start("matrix.py", &["short", &good().to_string(), busy]);
    let more = format!("gateway: {{fallback: [{next}]}}\n");
    let wire = (service == "openai").then_some("responses");
    let Some(stage) = staged_before(runtime, &way(service, wire, busy), &fake, &more) else { return };
    let ran = stage.run();
    let seen = fake.requests("/");
    assert_eq!(ran.code, 0, "{runtime}: {}\n{seen:#?}", ran.err);
    assert!(ran.err.contains(&format!("{next} is asked instead")), "{runtime}: {}", ran.err);
    let events = fs::read_to_string(stage.directory().join("events.jsonl")).unwrap();
    let switched = events.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()["event"].clone());
    let switched: Vec<Json> = switched.filter(|event| event["type"] == "model_fallback").collect();
    assert!(!switched.is_empty(), "{runtime}: {events}");
    for event in &switched {
        assert_eq!((event["from"].as_str(), event["to"].as_str()), (Some(busy), Some(next)), "{runtime}");
    }
    assert!(seen.iter().any(|request| request["model"] == busy), "{runtime}: {seen:#?}");
    assert!(seen.iter().any(|request| request["model"] == next), "{runtime}: {seen:#?}");
    let answered = stage.record()["usage"].as_object().unwrap().clone();
    assert!(!answered.is_empty(), "{runtime}: what answered is paid");
}

#[test]
fn claude_asks_the_next_model() {
    asks_the_next_model("claude", "anthropic", "claude-sonnet-4-5", "claude-opus-4-6");
}

#[test]
fn codex_asks_the_next_model() {
    asks_the_next_model("codex", "openai", "gpt-5.1", "gpt-5.5");
}

#[test]
fn native_asks_the_next_model() {
    asks_the_next_model("native", "anthropic", "claude-sonnet-4-5", "claude-opus-4-6");
}
