//! A model that stays busy: the run asks the next one that the harness names, says so, and records it.

use std::fs;

use serde_json::Value as Json;

use crate::services::{Fake, world};
use crate::support::has_program;

/// Is overloaded, but for one model.
const BUSY: &str = r#"
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Busy(BaseHTTPRequestHandler):
    def log_message(self, *arguments): pass
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print(json.dumps({"path": self.path, "model": request["model"]}), flush=True)
        answer, status = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529
        if request["model"] == sys.argv[1]:
            call = {"type": "tool_use", "id": "t", "name": "finish", "input": {"output": {"summary": "done"}}}
            answer, status = {"id": "m", "type": "message", "role": "assistant", "model": sys.argv[1], "content": [call],
                              "stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 3}}, 200
        body = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(body), "retry-after-ms": 20}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
server = HTTPServer(("127.0.0.1", 0), Busy)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn the_next_model_is_asked_and_recorded() {
    if !has_program("python3", "the_next_model_is_asked_and_recorded") {
        return;
    }
    let world = world("", "claude-sonnet-5").env("ANTHROPIC_API_KEY", "key-that-stays-on-the-host");
    let script = world.write("busy.py", BUSY);
    let fake = Fake::start(script.to_str().unwrap(), &["claude-opus-4-6"]);
    let provider = format!(
        "name: model\ntype: anthropic\nconfig: {{base_url: 'http://127.0.0.1:{}'}}\ncredentials:\n  ANTHROPIC_API_KEY: ${{ANTHROPIC_API_KEY}}\n",
        fake.port
    );
    world.write("repo/.fullsend/providers/model.yaml", provider);
    let harness = "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: claude-sonnet-5\ngateway: {fallback: [claude-opus-4-6]}\n";
    world.write("repo/.fullsend/harness/triage.yaml", harness);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let asked: Vec<Json> = fake.requests("/v1/messages").iter().map(|one| one["model"].clone()).collect();
    assert_eq!(asked, ["claude-sonnet-5", "claude-sonnet-5", "claude-sonnet-5", "claude-opus-4-6"]);
    assert!(ran.err.contains("claude-opus-4-6 is asked instead"), "{}", ran.err);
    let run = fs::read_dir(world.path("state/fullsend/runs/local")).unwrap().next().unwrap().unwrap().path();
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(events.contains("\"type\":\"model_fallback\""), "{events}");
    assert_eq!(events.matches("\"type\":\"model_retry\"").count(), 2, "{events}");
    let record: Json = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let used: Vec<&String> = record["usage"].as_object().unwrap().keys().collect();
    assert_eq!(used, ["claude-opus-4-6"], "only what answered is paid");
}
