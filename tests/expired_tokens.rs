//! Tokens that a service refuses before their time: they are made again once, whatever they are made from.

use serde_json::{Value as Json, json};

use crate::services::{Fake, VERTEX, rsa_key, service_account, world};
use crate::support::has_program;

/// A token that the service refuses before its time is made again once, and no oftener.
#[test]
fn a_token_that_has_expired_is_made_again_once() {
    let test = "a_token_that_has_expired_is_made_again_once";
    if !has_program("python3", test) || !has_program("openssl", test) {
        return;
    }
    for (revoked, code, tokens) in [("1", 0, 2), ("9", 1, 2)] {
        let world = world("", "claude-sonnet-4-5-20250929");
        let (key, modulus) = rsa_key(&world);
        let result = json!({ "summary": "done by Vertex" }).to_string();
        let fake = Fake::start("vertex.py", &[&modulus, &result, revoked]);
        let from = "file:${GOOGLE_APPLICATION_CREDENTIALS}";
        let provider = VERTEX.replace("PORT", &fake.port.to_string()).replace("FROM", from);
        world.write("repo/.fullsend/providers/model.yaml", provider);
        let file = world.write("service-account.json", service_account(&key, fake.port));
        let ran = world.env("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap()).run(&["run", "triage"]);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert_eq!(fake.requests("/token").len(), tokens, "{}", ran.err);
        assert_eq!(fake.requests("publishers/anthropic").len(), 2, "{}", ran.err);
        assert!(!ran.all().contains("ya29.made"), "{}", ran.all());
        if code != 0 {
            let named = "the provider `model`, credential GOOGLE_APPLICATION_CREDENTIALS";
            assert!(ran.err.contains(named), "{}", ran.err);
        }
    }
}

/// The same for a token that a command of the provider prints.
#[test]
fn a_command_is_asked_again_for_a_token_that_has_expired() {
    if !has_program("python3", "a_command_is_asked_again_for_a_token_that_has_expired") {
        return;
    }
    let world = world("", "claude-sonnet-5");
    let script = world.write("key.py", KEY_OF_THE_DAY);
    let fake = Fake::start(script.to_str().unwrap(), &["Bearer token-number-2"]);
    world.script(
        "repo/.fullsend/scripts/mint",
        "#!/bin/sh\necho x >> ../minted\nprintf 'token-number-%s' \"$(wc -l < ../minted | tr -d ' ')\"\n",
    );
    let provider = format!(
        "name: model\ntype: anthropic\nconfig: {{base_url: 'http://127.0.0.1:{}'}}\ncredentials:\n  ANTHROPIC_AUTH_TOKEN: exec:.fullsend/scripts/mint\n",
        fake.port
    );
    world.write("repo/.fullsend/providers/model.yaml", provider);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let keys: Vec<Json> = fake.requests("/v1/messages").iter().map(|one| one["key"].clone()).collect();
    assert_eq!(keys, ["Bearer token-number-1", "Bearer token-number-2"]);
    assert!(!ran.all().contains("token-number-"), "{}", ran.all());
}

/// Answers 401 without a body, but for one value of the header.
const KEY_OF_THE_DAY: &str = r#"
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Daily(BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        key = self.headers["authorization"] or self.headers["x-api-key"]
        print(json.dumps({"path": self.path, "key": key}), flush=True)
        body, status = b"", 401
        if key == sys.argv[1]:
            call = {"type": "tool_use", "id": "t", "name": "finish", "input": {"output": {"summary": "done"}}}
            answer = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": [call],
                      "stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 3}}
            body, status = json.dumps(answer).encode(), 200
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = HTTPServer(("127.0.0.1", 0), Daily)
print(server.server_port, flush=True)
server.serve_forever()
"#;
