//! The real programs before services other than their vendor's own: the request reaches the service in its own form, and no
//! credential of the host is inside.

use serde_json::json;

use super::stage::{Stage, good};
use crate::services::{BEDROCK, Fake, VERTEX, rsa_key, service_account};
use crate::support::has_program;

fn stage(runtime: &str, test: &str) -> Option<Stage> {
    Stage::new(runtime, test, &json!({ "turns": [[{ "finish": good() }]] }))
}

/// Runs, and looks for the value of a credential in everything that the run kept and printed.
fn ends_without(stage: &Stage, secrets: &[&str]) {
    let ran = stage.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(stage.accepted(1), good());
    let events = std::fs::read_to_string(stage.directory().join("events.jsonl")).unwrap();
    for secret in secrets {
        assert!(!ran.all().contains(secret) && !events.contains(secret), "{}", ran.all());
    }
}

#[test]
fn claude_works_with_the_token_of_a_subscription() {
    let Some(mut stage) = stage("claude", "the token of a subscription") else { return };
    let provider = format!(
        "name: model\ntype: anthropic\ncredentials:\n  CLAUDE_CODE_OAUTH_TOKEN: ${{SUBSCRIPTION}}\nconfig:\n  base_url: http://127.0.0.1:{}\n",
        stage.server.port
    );
    stage.world.write("repo/.fullsend/providers/model.yaml", provider);
    let token = "sk-ant-oat01-of-the-fake-subscription";
    stage.world = stage.world.env("SUBSCRIPTION", token);
    ends_without(&stage, &[token]);
    assert_eq!(stage.server.requests()[0]["key"], format!("Bearer {token}"));
    assert!(stage.raw().contains("oauth-2025-04-20"), "the API wants this beta");
}

/// Claude with a service account at a fake of Vertex AI.
fn claude_on_vertex(test: &str) -> Option<(Stage, Fake)> {
    if !has_program("openssl", test) {
        return None;
    }
    let mut stage = stage("claude", "Vertex")?;
    let (key, modulus) = rsa_key(&stage.world);
    let fake = Fake::start("vertex.py", &[&modulus, &good().to_string()]);
    let from = "file:${GOOGLE_APPLICATION_CREDENTIALS}";
    let provider = VERTEX.replace("PORT", &fake.port.to_string()).replace("FROM", from);
    stage.world.write("repo/.fullsend/providers/model.yaml", provider);
    let file = stage.world.write("service-account.json", service_account(&key, fake.port));
    stage.world = stage.world.env("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap());
    Some((stage, fake))
}

#[test]
fn claude_works_on_vertex() {
    let Some((stage, fake)) = claude_on_vertex("claude_works_on_vertex") else { return };
    ends_without(&stage, &["ya29.made", "PRIVATE KEY"]);
    let asked = fake.requests("claude-sonnet-4-5:streamRawPredict");
    assert!(!asked.is_empty());
}

#[test]
fn claude_works_on_bedrock() {
    let Some(mut stage) = stage("claude", "Bedrock") else { return };
    let fake = Fake::start("bedrock.py", &[&good().to_string()]);
    let named = "credentials: {AWS_ACCESS_KEY_ID: '${KEY_ID}', AWS_SECRET_ACCESS_KEY: '${KEY_SECRET}', AWS_SESSION_TOKEN: '${KEY_SESSION}'}\n";
    let provider = BEDROCK.replace("PORT", &fake.port.to_string()) + named;
    stage.world.write("repo/.fullsend/providers/model.yaml", provider);
    let secret = "secret/of+the-fake-key-for-the-tests-0001";
    stage.world = stage
        .world
        .env("KEY_ID", "AKIAFAKEFAKEFAKE0001")
        .env("KEY_SECRET", secret)
        .env("KEY_SESSION", "session-token-of-the-fake");
    ends_without(&stage, &[secret, "session-token-of-the-fake"]);
    let asked = fake.requests("/model/eu.anthropic.claude-sonnet-4-5/invoke-with-response-stream");
    assert!(!asked.is_empty());
}

/// The harness's own file selects the service, as it would for a run without a gateway. Two settings of it would lead elsewhere.
fn select(stage: &Stage, lines: &str) {
    let harness = stage.world.path("repo/.fullsend/harness/mend.yaml");
    let text = std::fs::read_to_string(&harness).unwrap();
    let file = "host_files:\n  - {src: env/model.env, dest: /sandbox/workspace/.env.d/model.env}\n";
    std::fs::write(harness, text + file).unwrap();
    stage.world.write("repo/.fullsend/env/model.env", lines);
}

/// What Claude Code wrote about its own requests.
fn debug_log(stage: &Stage) -> String {
    let path = stage.directory().join("iteration-1/claude-debug.log");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn claude_sends_the_format_of_vertex_if_the_harness_selects_it() {
    let Some((stage, fake)) = claude_on_vertex("claude_sends_the_format_of_vertex_if_the_harness_selects_it")
    else {
        return;
    };
    select(
        &stage,
        "CLAUDE_CODE_USE_VERTEX=1\nCLOUD_ML_REGION=us-east5\nANTHROPIC_VERTEX_BASE_URL=https://elsewhere.example/v1\n",
    );
    ends_without(&stage, &["ya29.made", "PRIVATE KEY"]);
    let asked = fake.requests("/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5:stream");
    assert!(!asked.is_empty(), "the provider says where, not the variables inside");
    let log = debug_log(&stage);
    assert!(log.contains("vertex"), "{log}");
}

#[test]
fn claude_sends_the_format_of_bedrock_if_the_harness_selects_it() {
    let Some(mut stage) = stage("claude", "the format of Bedrock") else { return };
    let fake = Fake::start("bedrock.py", &[&good().to_string()]);
    let named = "credentials: {AWS_BEARER_TOKEN_BEDROCK: '${BEARER}'}\n";
    let provider = BEDROCK.replace("PORT", &fake.port.to_string()) + named;
    stage.world.write("repo/.fullsend/providers/model.yaml", provider);
    let bearer = "bedrock-api-key-of-the-fake";
    stage.world = stage.world.env("BEARER", bearer);
    select(&stage, "CLAUDE_CODE_USE_BEDROCK=true\nAWS_REGION=us-west-2\n");
    ends_without(&stage, &[bearer]);
    let asked = fake.requests("/model/eu.anthropic.claude-sonnet-4-5/invoke-with-response-stream");
    assert!(!asked.is_empty());
    let log = debug_log(&stage);
    assert!(log.contains("bedrock"), "{log}");
}

#[test]
fn claude_works_with_chat_completions() {
    works_with_chat_completions("claude");
}

#[test]
fn codex_works_with_chat_completions() {
    works_with_chat_completions("codex");
}

/// Before a server like Ollama: the gateway translates, and bills what the server counted.
fn works_with_chat_completions(runtime: &str) {
    let Some(stage) = stage(runtime, "Chat Completions") else { return };
    let fake = Fake::start("openai.py", &["open", &good().to_string()]);
    let provider = format!(
        "name: model\ntype: openai\nconfig: {{base_url: 'http://127.0.0.1:{}', wire: chat}}\n",
        fake.port
    );
    stage.world.write("repo/.fullsend/providers/model.yaml", provider);
    let harness = stage.world.path("repo/.fullsend/harness/mend.yaml");
    let text = std::fs::read_to_string(&harness).unwrap();
    let others = text.lines().filter(|line| !line.starts_with("model:"));
    let text: String = others.map(|line| format!("{line}\n")).collect();
    std::fs::write(&harness, format!("{text}model: qwen3-coder\n")).unwrap();
    ends_without(&stage, &[]);
    let asked = fake.requests("/v1/chat/completions");
    assert!(!asked.is_empty());
    for request in &asked {
        let body: serde_json::Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["model"], "qwen3-coder", "{body}");
        assert_eq!(body["messages"][0]["role"], "system", "{body}");
        assert!(body.get("thinking").is_none() && body.get("input").is_none(), "{body}");
    }
    let usage = stage.record()["usage"].clone();
    let sum = |kind: &str| {
        usage.as_object().unwrap().values().filter_map(|model| model[kind].as_u64()).sum::<u64>()
    };
    let count = u64::try_from(asked.len()).unwrap();
    let counted = (count * 7, count * 4, count * 5);
    assert_eq!((sum("input"), sum("cache_read"), sum("output")), counted, "{usage}");
}

#[test]
fn codex_works_on_azure() {
    let Some(mut stage) = stage("codex", "Azure") else { return };
    let fake = Fake::start("openai.py", &["azure", &good().to_string()]);
    let provider = format!(
        "name: model\ntype: azure-openai\ncredentials:\n  AZURE_OPENAI_API_KEY: ${{AZURE_KEY}}\nconfig:\n  base_url: http://127.0.0.1:{}\n",
        fake.port
    );
    stage.world.write("repo/.fullsend/providers/model.yaml", provider);
    let key = "azure-key-of-the-fake-for-tests";
    stage.world = stage.world.env("AZURE_KEY", key);
    ends_without(&stage, &[key]);
    assert!(!fake.requests("/openai/v1/responses").is_empty());
}
