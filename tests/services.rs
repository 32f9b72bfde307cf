//! The services that models come from, each played by a program in Python that knows nothing of our types: the request has
//! the service's own form, the credential stays on the host, and what the service says reaches the agent.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};

use crate::support::{World, has_program, root};

/// A service in `tests/fakes`, until it is dropped.
pub struct Fake {
    process: Child,
    pub port: u16,
    seen: Arc<Mutex<Vec<Json>>>,
}

impl Fake {
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new("python3")
            .arg(root().join("tests/fakes").join(name))
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self { process, port, seen }
    }

    pub fn requests(&self, path: &str) -> Vec<Json> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request["path"].as_str().unwrap().contains(path)).cloned().collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A run of `native` with this provider.
pub fn world(provider: &str, model: &str) -> World {
    let world = World::with_harness();
    let harness = format!(
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: {model}\n"
    );
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    world.write("repo/.fullsend/providers/model.yaml", provider);
    world
}

/// A fresh RSA key in PKCS#8, and its modulus.
pub fn rsa_key(world: &World) -> (String, String) {
    let path = world.path("key.pem");
    let path = path.to_str().unwrap();
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", path])
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let shown = Command::new("openssl").args(["rsa", "-in", path, "-noout", "-modulus"]).output().unwrap();
    let modulus = String::from_utf8(shown.stdout).unwrap();
    let modulus = modulus.trim().strip_prefix("Modulus=").unwrap().to_owned();
    (std::fs::read_to_string(path).unwrap(), modulus)
}

pub const VERTEX: &str = "name: model\ntype: google-vertex-ai\nconfig:\n  project: acme-ml\n  region: europe-west1\n  base_url: http://127.0.0.1:PORT\ncredentials:\n  GOOGLE_APPLICATION_CREDENTIALS: FROM\n";

pub fn service_account(key: &str, port: u16) -> String {
    json!({
        "type": "service_account",
        "project_id": "acme-ml",
        "private_key_id": "k1",
        "private_key": key,
        "client_email": "runner@example.iam.gserviceaccount.com",
        "token_uri": format!("http://127.0.0.1:{port}/token"),
    })
    .to_string()
}

#[test]
fn claude_on_vertex_needs_no_key_inside() {
    if !has_program("python3", "claude_on_vertex_needs_no_key_inside")
        || !has_program("openssl", "claude_on_vertex_needs_no_key_inside")
    {
        return;
    }
    for from in ["${GOOGLE_APPLICATION_CREDENTIALS}", "file:${GOOGLE_APPLICATION_CREDENTIALS}"] {
        let world = world("", "claude-sonnet-4-5-20250929");
        let (key, modulus) = rsa_key(&world);
        let fake = Fake::start("vertex.py", &[&modulus]);
        let provider = VERTEX.replace("PORT", &fake.port.to_string()).replace("FROM", from);
        world.write("repo/.fullsend/providers/model.yaml", provider);
        let file = world.write("service-account.json", service_account(&key, fake.port));
        let world = world.env("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap());
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{from}: {}", ran.err);
        assert_eq!(fake.requests("/token").len(), 1, "one token serves the run");
        let asked = fake.requests("publishers/anthropic");
        let path = asked[0]["path"].as_str().unwrap();
        let project = "/v1/projects/acme-ml/locations/europe-west1/publishers/anthropic/models";
        assert_eq!(path, format!("{project}/claude-sonnet-4-5@20250929:streamRawPredict"));
        assert!(!ran.all().contains("ya29.made") && !ran.all().contains("PRIVATE KEY"), "{}", ran.all());
    }
}

#[test]
fn the_login_of_a_user_serves_too_and_a_wrong_one_is_explained() {
    if !has_program("python3", "the_login_of_a_user_serves_too_and_a_wrong_one_is_explained") {
        return;
    }
    let fake = Fake::start("vertex.py", &["c5"]);
    let provider = VERTEX.replace("PORT", &fake.port.to_string());
    let world = world(&provider.replace("FROM", "file:${LOGIN}"), "claude-sonnet-4-5");
    let login = |refresh: &str| {
        json!({
            "type": "authorized_user", "client_id": "client-1", "client_secret": "secret-1",
            "refresh_token": refresh, "token_uri": format!("http://127.0.0.1:{}/token", fake.port),
        })
        .to_string()
    };
    let file = world.write("login.json", login("refresh-1"));
    let world = world.env("LOGIN", file.to_str().unwrap());
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    world.write("login.json", login("refresh-of-somebody-else"));
    let ran = world.run(&["run", "triage"]);
    assert_ne!(ran.code, 0);
    assert!(
        ran.err.contains("no credential for the model's service") && ran.err.contains("Bad Request"),
        "{}",
        ran.err
    );
    assert!(!ran.all().contains("refresh-of-somebody-else"), "{}", ran.all());
}

pub const BEDROCK: &str = "name: model\ntype: aws-bedrock\nconfig: {region: eu-west-1, inference_profile: eu, base_url: 'http://127.0.0.1:PORT'}\n";

#[test]
fn claude_on_bedrock_gets_signed_requests() {
    if !has_program("python3", "claude_on_bedrock_gets_signed_requests") {
        return;
    }
    let secret = "secret/of+the-fake-key-for-the-tests-0001";
    let named = "credentials: {AWS_ACCESS_KEY_ID: '${AWS_ACCESS_KEY_ID}', AWS_SECRET_ACCESS_KEY: '${AWS_SECRET_ACCESS_KEY}', AWS_SESSION_TOKEN: '${AWS_SESSION_TOKEN}'}\n";
    let bearer = "credentials: {AWS_BEARER_TOKEN_BEDROCK: '${AWS_BEARER_TOKEN_BEDROCK}'}\n";
    for (credentials, secret, code) in
        [(named, secret, 0), (bearer, secret, 0), (named, "another-secret-key", 1)]
    {
        let fake = Fake::start("bedrock.py", &[]);
        let provider = BEDROCK.replace("PORT", &fake.port.to_string()) + credentials;
        let world = world(&provider, "claude-sonnet-4-5-20250929")
            .env("AWS_ACCESS_KEY_ID", "AKIAFAKEFAKEFAKE0001")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_SESSION_TOKEN", "session-token-of-the-fake")
            .env("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-of-the-fake");
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, code, "{}", ran.err);
        let asked = fake.requests("/model/");
        let path = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream";
        assert_eq!(asked[0]["path"], path);
        assert!(!ran.all().contains(secret), "{}", ran.all());
        if code == 1 {
            assert!(ran.err.contains("credential AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"), "{}", ran.err);
        }
    }
}

/// The bill is what the service counted.
#[test]
fn openai_azure_and_a_server_without_keys_serve_native() {
    if !has_program("python3", "openai_azure_and_a_server_without_keys_serve_native") {
        return;
    }
    let azure = "config: {base_url: 'http://127.0.0.1:PORT', api_version: 2024-10-21, deployment: main, wire: chat}\ncredentials: {AZURE_OPENAI_API_KEY: '${AZURE_KEY}'}\n";
    for (kind, service, rest, path) in [
        (
            "openai",
            "openai",
            "config: {base_url: 'http://127.0.0.1:PORT', organization: org-7}\ncredentials: {OPENAI_API_KEY: '${OPENAI_KEY}'}\n",
            "/v1/responses",
        ),
        ("azure", "azure-openai", azure, "/openai/deployments/main/chat/completions?api-version=2024-10-21"),
        (
            "open",
            "openai",
            "config: {base_url: 'http://127.0.0.1:PORT', wire: chat}\n",
            "/v1/chat/completions",
        ),
    ] {
        let fake = Fake::start("openai.py", &[kind]);
        let provider =
            format!("name: model\ntype: {service}\n{rest}").replace("PORT", &fake.port.to_string());
        let world = world(&provider, "vendor/gpt-5.1:free")
            .env("OPENAI_KEY", "sk-of-the-fake-for-tests")
            .env("AZURE_KEY", "azure-key-of-the-fake-for-tests");
        world.write(
            "repo/.fullsend/config.yaml",
            "prices:\n  - {model: 'vendor/gpt-5.1:free', input: 2, output: 10, cache_read: 1}\n",
        );
        let ran = world.run(&["run", "triage"]);
        assert_eq!(ran.code, 0, "{kind}: {}", ran.err);
        let asked = fake.requests(path);
        assert_eq!(asked.len(), 1, "{kind}");
        let listed = world.run(&["runs", "list", "--json"]).out;
        let listed: Json = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        // 7 at $2, 4 from the cache at $1 and 5 at $10 the million.
        assert_eq!(listed["usd"].as_f64(), Some(0.000_068), "{kind}: {listed}");
        assert!(!ran.all().contains("-of-the-fake-for-tests"), "{kind}: {}", ran.all());
    }
}

#[test]
fn a_service_of_the_wrong_vendor_is_an_error_of_check() {
    let provider = "name: model\ntype: openai\ncredentials:\n  OPENAI_API_KEY: ${OPENAI_API_KEY}\n";
    let world = world(provider, "gpt-5").env("OPENAI_API_KEY", "sk-never-used-at-all");
    let harness = "agent: agents/triage.md\nruntime: claude\nproviders: [model]\n";
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    let world = world.with_runtime_programs();
    let ran = world.run(&["check", "triage"]);
    assert!(
        ran.err.contains("the provider `model` cannot serve the runtime `claude`: it takes requests to /v1/responses and /v1/chat/completions, which this runtime does not send; with `wire: chat` in the provider's `config`, the gateway translates its requests"),
        "{}",
        ran.all()
    );
    for (wire, model, words) in [
        ("chat", "", "is not the vendor of the runtime `claude`: name the model that it serves in `model`"),
        (
            "responses",
            "model: gpt-5\n",
            "it takes requests to /v1/responses, which this runtime does not send",
        ),
    ] {
        world.write("repo/.fullsend/providers/model.yaml", format!("{provider}config: {{wire: {wire}}}\n"));
        world.write("repo/.fullsend/harness/triage.yaml", format!("{harness}{model}"));
        let ran = world.run(&["check", "triage"]);
        assert!(ran.err.contains(words), "{}", ran.all());
    }
}

#[test]
fn an_unknown_setting_of_a_service_is_refused() {
    let provider = VERTEX.replace("PORT", "1").replace("region:", "regoin:").replace("FROM", "file:${LOGIN}");
    let world = world(&provider, "claude-sonnet-4-5");
    let file = world.write("login.json", "{\"type\":\"authorized_user\"}");
    let ran = world.env("LOGIN", file.to_str().unwrap()).run(&["check", "triage"]);
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(
        ran.err.contains("`config.regoin` is not a setting of vertex; known are base_url"),
        "{}",
        ran.all()
    );
}

/// Answers every request with this status and these words, and says how often it was asked.
const BUSY: &str = r#"
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Busy(BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        print(json.dumps({"path": self.path}), flush=True)
        body = json.dumps({"type": "error", "error": {"type": "x", "message": sys.argv[2]}}).encode() if sys.argv[2] else b""
        self.send_response(int(sys.argv[1]))
        for name, value in {"content-length": len(body), "request-id": "req_7", "retry-after": 1}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
server = HTTPServer(("127.0.0.1", 0), Busy)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn a_model_that_stays_busy_is_unavailable_and_a_refused_key_is_named() {
    if !has_program("python3", "a_model_that_stays_busy_is_unavailable_and_a_refused_key_is_named") {
        return;
    }
    let named = "the provider `model`, credential ANTHROPIC_API_KEY";
    for (status, said, code, words) in [
        ("429", "come back later", 11, "the model is not available: HTTP 429, come back later"),
        ("401", "come back later", 1, named),
        ("401", "", 1, named),
        ("403", "", 1, named),
    ] {
        let world = world("", "claude-sonnet-5");
        let script = world.write("busy.py", BUSY);
        let fake = Fake::start(script.to_str().unwrap(), &[status, said]);
        let provider = format!(
            "name: model\ntype: anthropic\nconfig: {{base_url: 'http://127.0.0.1:{}'}}\ncredentials:\n  ANTHROPIC_API_KEY: ${{ANTHROPIC_API_KEY}}\n",
            fake.port
        );
        world.write("repo/.fullsend/providers/model.yaml", provider);
        let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: claude-sonnet-5\ngateway: {retry_seconds: 3}\n";
        world.write("repo/.fullsend/harness/triage.yaml", harness);
        let ran = world.env("ANTHROPIC_API_KEY", "key-that-stays-on-the-host").run(&["run", "triage"]);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(ran.err.contains(words), "{}", ran.err);
        let asked = fake.requests("/v1/messages").len();
        assert!(if status == "429" { (2..5).contains(&asked) } else { asked == 1 }, "{status}: {asked}");
    }
}

#[test]
fn a_file_of_variables_that_moves_the_model_is_a_warning() {
    let provider = "name: model\ntype: anthropic\ncredentials:\n  ANTHROPIC_API_KEY: ${ANTHROPIC_API_KEY}\n";
    let world = world(provider, "claude-sonnet-5").env("ANTHROPIC_API_KEY", "key-that-stays-on-the-host");
    let harness = "agent: agents/triage.md\nruntime: claude\nproviders: [model]\nhost_files:\n  - {src: env/gcp.env, dest: /tmp/workspace/.env.d/gcp.env}\n";
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    world.write(
        "repo/.fullsend/env/gcp.env",
        "CLAUDE_CODE_USE_VERTEX=1\nexport CLAUDE_CODE_USE_MANTLE=1\nCLOUD_ML_REGION=eu\n",
    );
    let ran = world.with_runtime_programs().run(&["check", "triage"]);
    for name in ["CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_MANTLE"] {
        assert!(ran.err.contains(&format!("warning[model-variable]: `{name}` is cleared")), "{}", ran.all());
    }
    assert!(!ran.err.contains("CLOUD_ML_REGION"), "{}", ran.all());
}

#[test]
fn the_doctor_asks_the_model_and_reports_each_step() {
    if !has_program("python3", "the_doctor_asks_the_model_and_reports_each_step") {
        return;
    }
    let credentials = "credentials: {AWS_ACCESS_KEY_ID: '${AWS_ACCESS_KEY_ID}', AWS_SECRET_ACCESS_KEY: '${AWS_SECRET_ACCESS_KEY}', AWS_SESSION_TOKEN: '${AWS_SESSION_TOKEN}'}\n";
    let fake = Fake::start("bedrock.py", &[]);
    let right = "secret/of+the-fake-key-for-the-tests-0001";
    for (port, secret, code, lines) in [
        (
            fake.port,
            right,
            0,
            &["good    DNS: 127.0.0.1 is", "good    authentication", "good    model: claude-sonnet-4-5"][..],
        ),
        (
            fake.port,
            "another-secret-key",
            4,
            &[
                "good    connection",
                "bad     authentication: HTTP 403",
                "fix: check the provider `model`, credential AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
            ],
        ),
        (1, right, 11, &["bad     connection: cannot reach the model"]),
    ] {
        let provider = BEDROCK.replace("PORT", &port.to_string()) + credentials;
        let world = world(&provider, "claude-sonnet-4-5-20250929")
            .env("AWS_ACCESS_KEY_ID", "AKIAFAKEFAKEFAKE0001")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_SESSION_TOKEN", "session-token-of-the-fake");
        let ran = world.run(&["doctor", "--model", "triage"]);
        assert_eq!(ran.code, code, "{}", ran.all());
        for line in lines {
            assert!(ran.out.contains(line), "{line}: {}", ran.all());
        }
        assert!(!ran.all().contains(secret), "{}", ran.all());
    }
}
