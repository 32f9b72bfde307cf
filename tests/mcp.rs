//! `fullsend mcp` before clients: one that writes the messages itself, and the official SDK from npm.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};

use serde_json::{Value as Json, json};

use crate::support::{World, has_programs, program, root, skip};

/// A client of the current revision.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    fn start(world: &World) -> Self {
        let mut child = world.spawn_talking(&["mcp"]);
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, last_id: 0 }
    }

    fn write(&mut self, message: &Json) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn read(&mut self) -> Json {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Sends a call and returns its id.
    fn send(&mut self, tool: &str, arguments: &Json) -> u64 {
        self.last_id += 1;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let parameters = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        self.write(
            &json!({ "jsonrpc": "2.0", "id": self.last_id, "method": "tools/call", "params": parameters }),
        );
        self.last_id
    }

    fn call(&mut self, tool: &str, arguments: &Json) -> Json {
        let id = self.send(tool, arguments);
        let answer = self.read();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    /// Closes standard input, which ends the server.
    fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

fn text(result: &Json) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_client_runs_harnesses_and_reads_their_records() {
    let world = World::scripted("", r#"{"turns":[[{"finish":{"summary":"x"}}]]}"#);
    let mut client = Client::start(&world);
    let listed = client.call("list_harnesses", &json!({}));
    assert_eq!(listed["structuredContent"]["documents"][0]["name"], "triage", "{listed}");
    let checked = client.call("check", &json!({ "harness": "triage" }));
    assert_eq!(checked["isError"], false, "{checked}");
    let ran = client.call("run_harness", &json!({ "harness": "triage" }));
    assert_eq!(ran["isError"], false, "{ran}");
    let result: Json = serde_json::from_str(text(&ran)).unwrap();
    assert_eq!(result["summary"], "x", "{ran}");
    let shown = client.call("runs_show", &json!({}));
    assert_eq!(shown["structuredContent"]["document"]["harness"], "triage", "{shown}");
    let missing = client.call("run_harness", &json!({ "harness": "none" }));
    assert_eq!(missing["isError"], true);
    assert!(text(&missing).contains("there is no harness `none`"), "{missing}");
    world.write("repo/p.yaml", "version: 1\nnetwork_policies: {}\n");
    let asked = json!({ "policy": "p.yaml", "method": "GET", "url": "https://example.com/" });
    let tested = client.call("policy_test", &asked);
    assert!(text(&tested).contains("deny") || text(&tested).contains("denied"), "{tested}");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_client_uses_a_sandbox_that_ends_with_the_server() {
    let world = World::with_harness();
    let mut client = Client::start(&world);
    let created = client.call("sandbox_create", &json!({ "repo": "." }));
    assert_eq!(created["isError"], false, "{created}");
    let id = created["structuredContent"]["output"].as_str().unwrap().to_owned();
    let put = client.call("sandbox_put", &json!({ "sandbox": id, "path": "a.txt", "content": "one\n" }));
    assert_eq!(put["isError"], false, "{put}");
    let command = ["sh", "-c", "cat a.txt; echo two >&2; exit 3"];
    let ran = client.call("sandbox_exec", &json!({ "sandbox": id, "command": command }));
    assert_eq!((&ran["isError"], &ran["structuredContent"]["exit_code"]), (&json!(true), &json!(3)), "{ran}");
    assert_eq!(text(&ran), "one\n");
    assert_eq!(ran["content"][1]["text"], "two");
    let read = client.call("sandbox_get", &json!({ "sandbox": id, "path": "a.txt" }));
    assert_eq!(text(&read), "one\n", "{read}");

    std::os::unix::fs::symlink("/", world.path("repo/everything")).unwrap();
    for outside in ["/etc", "..", "everything/etc"] {
        let refused = client.call("sandbox_create", &json!({ "repo": outside }));
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains("which this server serves"), "{refused}");
    }

    // A call that is cancelled gets no answer, and stops nothing else.
    let cancelled = client.send("sandbox_exec", &json!({ "sandbox": id, "command": ["sleep", "600"] }));
    let cancel = json!({ "requestId": cancelled, "reason": "enough" });
    client.write(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel }));
    let listed = client.call("sandbox_list", &json!({}));
    assert!(text(&listed).contains(&id), "{listed}");
    assert_eq!(client.end(), 0);
    crate::support::wait_for(|| {
        let listed = world.run(&["sandbox", "list", "--json"]);
        (!listed.out.contains(&id)).then_some(())
    });
}

/// A signal ends the calls first: a run completes its record.
#[test]
fn a_signal_ends_the_server_and_its_runs() {
    let world = World::scripted("", r#"{"turns":[[{"shell":"true; tail -f /dev/null"}]]}"#);
    let mut client = Client::start(&world);
    client.send("run_harness", &json!({ "harness": "triage" }));
    crate::support::wait_for(|| {
        let listed = world.run(&["runs", "list", "--json"]).out;
        listed.contains("triage").then_some(())
    });
    let process = rustix::process::Pid::from_child(&client.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(client.child.wait().unwrap().code(), Some(143));
    let shown = world.run(&["runs", "show", "--json"]);
    let record: Json = serde_json::from_str(&shown.out).unwrap();
    assert!(record["outcome"].is_string() && record["outcome"] != "completed", "{}", shown.out);
}

/// What a script of the SDK prints: the tools, and what two calls return.
const SCRIPT: &str = r#"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const [, , program, directory] = process.argv;
const transport = new StdioClientTransport({ command: program, args: ["mcp"], cwd: directory, env: process.env });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const listed = await client.callTool({ name: "list_harnesses", arguments: {} });
let refused = "";
try {
  await client.callTool({ name: "check", arguments: { harness: "--all" } });
} catch (error) {
  refused = String(error.code);
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), server: client.getServerVersion(), listed, refused }));
await client.close();
"#;

#[test]
fn the_official_client_lists_and_calls_the_tools() {
    if !has_programs(&["node", "npm"], "mcp") {
        return;
    }
    let Some(sdk) = sdk() else { return skip("mcp", "npm cannot install @modelcontextprotocol/sdk") };
    let world = World::with_harness();
    let script = sdk.join("fullsend-mcp.mjs");
    std::fs::write(&script, SCRIPT).unwrap();
    let repository = world.path("repo");
    let program = program();
    let words = [script.as_os_str(), program.as_os_str(), repository.as_os_str()];
    let ran = world.run_program(Path::new("node"), &words);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said: Json = serde_json::from_str(&ran.out).unwrap();
    assert!(said["tools"].as_array().unwrap().contains(&json!("run_harness")), "{said}");
    assert_eq!(said["server"]["name"], "fullsend");
    assert_eq!(said["listed"]["structuredContent"]["documents"][0]["name"], "triage", "{said}");
    assert_eq!(said["refused"], "-32602");
}

/// The SDK, which npm installs into the cache of the checkout, once. `None` where it cannot.
fn sdk() -> Option<std::path::PathBuf> {
    const VERSION: &str = "1.32.2";
    let cache = root().join("target/cache");
    let place = cache.join(format!("mcp-sdk-{VERSION}"));
    if !place.exists() {
        let part = cache.join(format!("mcp-sdk-{}.part", std::process::id()));
        std::fs::create_dir_all(&part).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&part);
        npm.arg(format!("@modelcontextprotocol/sdk@{VERSION}"));
        let is_installed = npm.output().is_ok_and(|ended| ended.status.success());
        // Another test may have been faster.
        if !is_installed || std::fs::rename(&part, &place).is_err() {
            std::fs::remove_dir_all(&part).unwrap();
        }
    }
    place.exists().then_some(place)
}

/// `mcp --http` with its address and token.
struct HttpServer {
    child: Child,
    address: String,
    token: String,
}

impl HttpServer {
    fn start(world: &World) -> Self {
        let mut child = world.spawn_piped(&["mcp", "--http", "127.0.0.1:0"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after = |start: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(start).unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let address = after("http://").trim_end_matches("/mcp").to_owned();
        let token = after("Authorization: Bearer ");
        Self { child, address, token }
    }

    fn open(&self, method: &str, headers: &[(&str, &str)], message: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut head =
            format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n");
        let own = [("Host", self.address.as_str())];
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        for (name, value) in own.iter().filter(|(name, _)| !is_given(name)).chain(headers) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", message.len()));
        stream.write_all(format!("{head}{message}").as_bytes()).unwrap();
        stream
    }

    /// The status, the head and the body of an answer.
    fn ask(&self, method: &str, headers: &[(&str, &str)], message: &str) -> (u16, String, String) {
        let mut answer = String::new();
        self.open(method, headers, message).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), head.to_owned(), body.to_owned())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[test]
fn http_clients_need_the_token_and_name_this_server() {
    let world = World::with_harness();
    let server = HttpServer::start(&world);
    let bearer = format!("Bearer {}", server.token);
    let token = ("Authorization", bearer.as_str());
    let (status, _, body) = server.ask("POST", &[token], LIST);
    assert!(status == 200 && body.contains("run_harness"), "{status} {body}");
    for (method, headers, expected) in [
        ("POST", vec![], 401),
        ("POST", vec![("Authorization", "Bearer 0123456789abcdef")], 401),
        ("POST", vec![token, ("Host", "evil.example")], 421),
        ("POST", vec![token, ("Origin", "https://evil.example")], 403),
        ("POST", vec![token, ("MCP-Protocol-Version", "1900-01-01")], 400),
        ("GET", vec![token], 405),
        ("DELETE", vec![token], 405),
    ] {
        let (status, _, body) = server.ask(method, &headers, LIST);
        assert_eq!(status, expected, "{headers:?}: {body}");
    }
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(server.ask("POST", &[token], notification).0, 202);
    let outside = world.run(&["mcp", "--http", "0.0.0.0:0"]);
    assert_eq!(outside.code, 2, "{}", outside.err);
    assert!(
        outside.err.contains("can be reached from outside, and FULLSEND_MCP_TOKEN is not set"),
        "{}",
        outside.err
    );
}

/// A client that hangs up, and one that cancels by the name that the handshake gave it.
#[test]
fn http_clients_cancel_their_own_calls() {
    let world = World::scripted("", r#"{"turns":[[{"shell":"true; tail -f /dev/null"}]]}"#);
    let server = HttpServer::start(&world);
    let bearer = format!("Bearer {}", server.token);
    let token = ("Authorization", bearer.as_str());
    let handshake =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let (_, head, _) = server.ask("POST", &[token], handshake);
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let named = [token, ("Mcp-Session-Id", session.as_str())];
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_harness","arguments":{"harness":"triage"}}}"#;
    let ended = |count: usize| {
        let runs = world.run(&["runs", "list", "--json"]).out;
        let runs: Vec<Json> = runs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (runs.len() == count && runs.iter().all(|run| run["outcome"] != "running")).then_some(())
    };
    let started =
        |count: usize| (world.run(&["runs", "list", "--json"]).out.lines().count() == count).then_some(());
    let abandoned = server.open("POST", &[token], call);
    crate::support::wait_for(|| started(1));
    drop(abandoned);
    crate::support::wait_for(|| ended(1));
    let mut cancelled = server.open("POST", &named, call);
    crate::support::wait_for(|| started(2));
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    server.ask("POST", &[token], cancel);
    server.ask("POST", &named, cancel);
    let mut answer = String::new();
    cancelled.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("the client cancelled the call"), "{answer}");
    crate::support::wait_for(|| ended(2));
}
