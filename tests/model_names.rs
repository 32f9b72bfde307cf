//! Names of models as the services take them, with `/`, `:`, `@` and `[1m]`.

use serde_json::Value as Json;

use crate::services::{BEDROCK, Fake, world};
use crate::support::has_program;

/// Names as the services take them, from `check` to the path of the request.
#[test]
fn every_name_of_a_model_reaches_the_service() {
    if !has_program("python3", "every_name_of_a_model_reaches_the_service") {
        return;
    }
    let arn = "arn:aws:bedrock:eu-west-1:111122223333:application-inference-profile/eu.anthropic.x1y2";
    for (name, id) in [
        (arn, arn),
        ("eu.anthropic.claude-opus-4-6-v1:0", "eu.anthropic.claude-opus-4-6-v1:0"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0[1m]", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("claude-sonnet-4-5-20250929[1m]", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ] {
        let fake = Fake::start("bedrock.py", &[]);
        let bearer = "credentials: {AWS_BEARER_TOKEN_BEDROCK: '${AWS_BEARER_TOKEN_BEDROCK}'}\n";
        let provider = BEDROCK.replace("PORT", &fake.port.to_string()) + bearer;
        let world = world(&provider, &format!("\"{name}\""))
            .env("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-of-the-fake");
        let checked = world.run(&["check", "triage"]);
        assert_eq!(checked.code, 0, "{name}: {}", checked.all());
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let id = id.replace(':', "%3A").replace('/', "%2F");
        let path = format!("/model/{id}/invoke-with-response-stream");
        let asked = fake.requests("/model/");
        assert_eq!(asked[0]["path"], path, "{name}");
        let is_long = asked[0]["body"].as_str().unwrap().contains("context-1m-");
        assert_eq!(is_long, name.ends_with("[1m]"), "{name}: {}", asked[0]["body"]);
    }
    for name in
        ["anthropic/claude-sonnet-4.5:beta", "qwen3:8b", "hf.co/unsloth/Qwen3-GGUF:Q4_K_M", "gpt-5@2025"]
    {
        let fake = Fake::start("openai.py", &["open"]);
        let provider = format!(
            "name: model\ntype: openai\nconfig: {{base_url: 'http://127.0.0.1:{}', wire: chat}}\n",
            fake.port
        );
        let world = world(&provider, &format!("\"{name}\""));
        assert_eq!(world.run(&["check", "triage"]).code, 0, "{name}");
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let asked = fake.requests("/v1/chat/completions");
        let body: Json = serde_json::from_str(asked[0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["model"], name);
    }
}
