//! Mistakes about models and money, and what the program says: a price that is missing, a credential that is missing, a server that
//! is no model's, a budget that is too small.

use serde_json::json;

use crate::services::{Fake, world};
use crate::support::{Ran, World, has_program};

/// Answers every request with this status and this body, or with a page.
const ANSWERS: &str = r#"
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Answers(BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        print('{"path": "%s"}' % self.path, flush=True)
        body = sys.argv[2].encode()
        self.send_response(int(sys.argv[1]))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = HTTPServer(("127.0.0.1", 0), Answers)
print(server.server_port, flush=True)
server.serve_forever()
"#;

const KEY: &str = "key-that-stays-on-the-host";

fn provider(service: &str, port: u16) -> String {
    let rest = match service {
        "anthropic" => "}\ncredentials: {ANTHROPIC_API_KEY: '${KEY}'}",
        "openai" => ", wire: chat}\ncredentials: {OPENAI_API_KEY: '${KEY}'}",
        "azure-openai" => "}\ncredentials: {AZURE_OPENAI_API_KEY: '${KEY}'}",
        "vertex" => ", project: acme}\ncredentials: {GOOGLE_TOKEN: 'exec:echo ya29.token-of-the-fake'}",
        _ => ", region: eu-west-1}\ncredentials: {AWS_BEARER_TOKEN_BEDROCK: '${KEY}'}",
    };
    format!("name: model\ntype: {service}\nconfig: {{base_url: 'http://127.0.0.1:{port}'{rest}\n")
}

fn variable(service: &str) -> &'static str {
    match service {
        "anthropic" => "ANTHROPIC_API_KEY",
        "openai" => "OPENAI_API_KEY",
        "azure-openai" => "AZURE_OPENAI_API_KEY",
        "vertex" => "GOOGLE_TOKEN",
        _ => "AWS_BEARER_TOKEN_BEDROCK",
    }
}

/// What the doctor says of a service that answers so.
fn doctor(service: &str, status: &str, body: &str) -> Ran {
    let world = world("", "claude-sonnet-5").env("KEY", KEY);
    let script = world.write("answers.py", ANSWERS);
    let fake = Fake::start(script.to_str().unwrap(), &[status, body]);
    world.write("repo/.fullsend/providers/model.yaml", provider(service, fake.port));
    let ran = world.run(&["doctor", "--model", "triage"]);
    assert!(!ran.all().contains(KEY), "{}", ran.all());
    ran
}

#[test]
fn the_doctor_names_the_credential_the_server_or_the_model() {
    if !has_program("python3", "the_doctor_names_the_credential_the_server_or_the_model") {
        return;
    }
    for service in ["anthropic", "openai", "azure-openai", "vertex", "bedrock"] {
        let named = format!("check the provider `model`, credential {}", variable(service));
        for (status, body, code, lines, missing) in [
            (
                "403",
                "",
                4,
                ["bad     authentication: HTTP 403, the answer has no text", named.as_str()],
                "model:",
            ),
            (
                "401",
                r#"{"message":"The security token is invalid."}"#,
                4,
                ["bad     authentication: HTTP 401, The security token is invalid.\n", named.as_str()],
                "model:",
            ),
            (
                "429",
                r#"{"error":{"message":"slow down"}}"#,
                11,
                ["bad     model: HTTP 429, slow down\n", "fix: try again later"],
                "accepted",
            ),
            (
                "200",
                "<html>Please log in</html>",
                3,
                [
                    "bad     model: HTTP 200, <html>Please log in</html>\n",
                    "fix: check `base_url` of the provider",
                ],
                "accepted",
            ),
            (
                "302",
                "",
                3,
                ["bad     model: HTTP 302, ", "fix: check `base_url` of the provider"],
                "accepted",
            ),
            (
                "404",
                r#"{"error":"model 'x' not found"}"#,
                3,
                ["bad     model: HTTP 404, model 'x' not found\n", "fix: check the model's name"],
                "base_url",
            ),
        ] {
            let ran = doctor(service, status, body);
            assert_eq!(ran.code, code, "{service} {status}: {}", ran.all());
            for line in lines {
                assert!(ran.out.contains(line), "{service} {status}: {line} in {}", ran.all());
            }
            assert!(!ran.out.contains(missing), "{service} {status}: {}", ran.all());
        }
    }
}

/// Nobody asks again for what is missing, and the last line says what it is.
#[test]
fn a_missing_credential_ends_the_run_at_once() {
    if !has_program("python3", "a_missing_credential_ends_the_run_at_once") {
        return;
    }
    let unnamed = "(the provider `model`, which names no credential)";
    for (service, rest, words) in [
        ("bedrock", ", region: eu-west-1", "no AWS credential is known"),
        ("vertex", ", project: acme, credentials_file: /no/such.json", "/no/such.json cannot be read"),
        (
            "vertex",
            ", project: acme, metadata_host: '127.0.0.1:1'",
            "run `gcloud auth application-default login`",
        ),
        ("anthropic", "", "HTTP 401, authentication_error: wrong key"),
    ] {
        let world = world("", "claude-sonnet-5");
        let script = world.write("answers.py", ANSWERS);
        let fake = Fake::start(script.to_str().unwrap(), &["401", r#"{"error":{"message":"wrong key"}}"#]);
        let config = format!("{{base_url: 'http://127.0.0.1:{}'{rest}}}", fake.port);
        world.write(
            "repo/.fullsend/providers/model.yaml",
            format!("name: model\ntype: {service}\nconfig: {config}\n"),
        );
        let ran = world.run(&["run", "triage"]);
        assert!(ran.code != 0 && ran.err.contains(words), "{service}: {}", ran.err);
        if service != "vertex" || !rest.contains("metadata") {
            assert_eq!(ran.code, 1, "{service}: {}", ran.err);
            assert!(!ran.err.contains("asked again"), "{service}: {}", ran.err);
            assert!(ran.err.trim_end().ends_with(unnamed), "{service}: {}", ran.err);
        }
    }
}

/// The file that `gcloud auth application-default login` writes is found where it is.
#[test]
fn the_login_of_gcloud_is_found_in_the_home_directory() {
    if !has_program("python3", "the_login_of_gcloud_is_found_in_the_home_directory") {
        return;
    }
    let fake = Fake::start("vertex.py", &["c5"]);
    let provider = format!(
        "name: model\ntype: vertex\nconfig: {{project: acme-ml, region: europe-west1, base_url: 'http://127.0.0.1:{}'}}\n",
        fake.port
    );
    let world = world(&provider, "claude-sonnet-4-5");
    let login = json!({
        "type": "authorized_user", "client_id": "client-1", "client_secret": "secret-1",
        "refresh_token": "refresh-1", "token_uri": format!("http://127.0.0.1:{}/token", fake.port),
    });
    world.write("home/.config/gcloud/application_default_credentials.json", login.to_string());
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(fake.requests("/token").len(), 1);
}

/// A log has no live line.
#[test]
fn a_log_says_why_the_run_waits() {
    if !has_program("python3", "a_log_says_why_the_run_waits") {
        return;
    }
    let world = world("", "claude-sonnet-5").env("KEY", KEY);
    let script = world.write("answers.py", ANSWERS);
    let fake = Fake::start(script.to_str().unwrap(), &["429", r#"{"error":{"message":"slow down"}}"#]);
    world.write("repo/.fullsend/providers/model.yaml", provider("anthropic", fake.port));
    let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: claude-sonnet-5\ngateway: {retry_seconds: 4}\n";
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 11, "{}", ran.err);
    assert_eq!(ran.err.matches("  model     rate limited, next try in ").count(), 1, "{}", ran.err);
}

#[test]
fn every_model_without_a_price_is_named_with_lines_to_paste() {
    let provider = "name: model\ntype: openai\nconfig: {base_url: 'http://127.0.0.1:11434', wire: chat}\n";
    let world = world(provider, "qwen3:8b");
    let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: qwen3:8b\ngateway: {fallback: [llama4]}\nbudget:\n  day_usd: 5\n";
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    let ran = world.run(&["check", "triage"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("the models `qwen3:8b`, `llama4` have no price"), "{}", ran.err);
    assert!(ran.err.contains("harness/triage.yaml:8:12"), "it shows the budget: {}", ran.err);
    let pasted: Vec<&str> =
        ran.err.lines().map(str::trim).filter(|line| line.starts_with("- {model: ")).collect();
    assert_eq!(pasted.len(), 2, "{}", ran.err);
    let config = format!("prices:\n  {}\n  {}\n", pasted[0], pasted[1]);
    world.write("repo/.fullsend/config.yaml", &config);
    let ran = world.run(&["check", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    world.write("repo/.fullsend/config.yaml", format!("{config}  {}\n", pasted[0]));
    let ran = world.run(&["check", "triage"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(ran.err.contains("the model `qwen3:8b` has two prices in this file"), "{}", ran.err);
}

/// Only Claude Code's own words for its models need no price.
#[test]
fn a_word_that_is_no_alias_needs_a_price() {
    let provider = "name: model\ntype: anthropic\ncredentials: {ANTHROPIC_API_KEY: '${KEY}'}\n";
    for (model, code) in [("sonnet", 0), ("opus[1m]", 0), ("my-own-model", 3)] {
        let world = world(provider, model).env("KEY", KEY);
        let harness = format!(
            "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: '{model}'\nbudget: {{usd: 1}}\n"
        );
        world.write("repo/.fullsend/harness/triage.yaml", harness);
        let ran = world.run(&["check", "triage"]);
        assert_eq!(ran.code, code, "{model}: {}", ran.all());
    }
    let shown = World::new().run(&["models", "show", "sonnet"]);
    assert!(shown.code == 0 && shown.out.contains("claude-sonnet-5"), "{}", shown.all());
    let wrong = World::new().run(&["models", "show", ""]);
    assert!(wrong.code == 2 && wrong.err.contains("is not the name of a model"), "{}", wrong.all());
}

/// The last line says why nothing more can be asked, also if nothing was spent.
#[test]
fn a_budget_that_is_too_small_says_what_a_request_costs() {
    let scenario = json!({ "turns": [[{ "finish": { "summary": "done" } }]] });
    let world = World::scripted("model: claude-sonnet-4-5\nbudget: {usd: 0.02}\n", scenario);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    let last = ran.err.trim_end().lines().last().unwrap();
    assert!(last.contains("$0.0000 of $0.0200 are spent; the next request can cost $"), "{last}");
    assert!(last.contains(" with an answer of 1024 tokens"), "{last}");
}

#[test]
fn the_turns_of_a_budget_end_native_like_the_others() {
    let scenario = json!({ "turns": [[{ "shell": "echo a" }], [{ "finish": { "summary": "done" } }]] });
    let world = World::scripted("model: claude-sonnet-4-5\nbudget: {turns: 1}\n", scenario);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(ran.err.contains("1 of 1 turns are used"), "{}", ran.err);
}
