//! `fullsend acp` before editors: a client that writes the messages itself, and the official SDK from npm.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};

use serde_json::{Value as Json, json};

use crate::support::{World, has_programs, program, root, skip, wait_for};
use crate::wakes::stage::{EVERY_WAKE, FOREVER, Stage, finish, shell, sleeps, when};

/// An editor.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
    /// The updates that were read so far.
    updates: Vec<Json>,
    /// The questions that were read so far.
    questions: Vec<Json>,
    /// What the person answers.
    choice: &'static str,
}

impl Editor {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut child = world.spawn_talking(&[&["acp"], arguments].concat());
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut editor = Self {
            child,
            input,
            output,
            last_id: 0,
            updates: Vec::new(),
            questions: Vec::new(),
            choice: "allow",
        };
        let answer = editor.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        editor
    }

    fn write(&mut self, message: &Json) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn read(&mut self) -> Json {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    fn send(&mut self, method: &str, parameters: &Json) -> u64 {
        self.last_id += 1;
        self.write(&json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": parameters }));
        self.last_id
    }

    /// Reads up to the answer. Updates are kept, and questions are answered.
    fn answer(&mut self, id: u64) -> Json {
        loop {
            let message = self.read();
            match message["method"].as_str() {
                None => {
                    assert_eq!(message["id"], id, "{message}");
                    return message;
                }
                Some("session/update") => self.updates.push(message["params"]["update"].clone()),
                Some("session/request_permission") => {
                    let outcome = json!({ "outcome": "selected", "optionId": self.choice });
                    let id = &message["id"];
                    self.write(&json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } }));
                    self.questions.push(message["params"].clone());
                }
                Some(other) => panic!("{other}"),
            }
        }
    }

    fn ask(&mut self, method: &str, parameters: &Json) -> Json {
        let id = self.send(method, parameters);
        self.answer(id)
    }

    fn new_session(&mut self, world: &World) -> String {
        let answer = self.ask("session/new", &json!({ "cwd": world.path("repo"), "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> Json {
        self.ask("session/prompt", &prompt(session, text))
    }

    /// Reads updates until one has this text.
    fn wait_for_update(&mut self, text: &str) {
        while !self.updates.iter().any(|update| update.to_string().contains(text)) {
            let message = self.read();
            assert_eq!(message["method"], "session/update", "{message}");
            self.updates.push(message["params"]["update"].clone());
        }
    }

    fn cancel(&mut self, session: &str) {
        let parameters = json!({ "sessionId": session });
        self.write(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": parameters }));
    }

    /// Everything that the agent said.
    fn words(&self) -> String {
        let said = self.updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.map(|update| update["content"]["text"].as_str().unwrap()).collect()
    }

    /// The status that the last update gave each tool call, by its title.
    fn calls(&self) -> Vec<(String, String)> {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let mut calls = Vec::new();
        for started in self.updates.iter().filter(|update| update["sessionUpdate"] == "tool_call") {
            let id = &started["toolCallId"];
            let last = self.updates.iter().rev().find(|update| update["toolCallId"] == *id).unwrap();
            calls.push((text(&started["title"]), text(&last["status"])));
        }
        calls
    }

    /// Closes standard input, which ends the agent.
    fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

fn prompt(session: &str, text: &str) -> Json {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// A harness whose agent, asked to look, says something, runs two commands, changes a file and finishes.
fn world() -> World {
    let turns = json!([
        [{ "text": "I look." }, { "shell": "echo changed > new.txt" }], [{ "shell": "exit 3" }],
        [{ "finish": { "summary": "looked" } }],
    ]);
    World::scripted("", json!({ "branches": [when("please look", turns)] }))
}

#[test]
fn a_prompt_is_a_run_whose_events_are_updates() {
    let world = world();
    let mut editor = Editor::start(&world, &["triage"]);
    let session = editor.new_session(&world);
    let answer = editor.prompt(&session, "please look");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let words = editor.words();
    assert!(words.contains("I look.") && words.contains("looked"), "{words}");
    assert!(words.contains("new.txt") && words.contains("fullsend runs apply"), "{words}");
    assert!(!world.path("repo/new.txt").exists(), "the person applies changes");
    let calls = editor.calls();
    let statuses: Vec<&str> = calls.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(statuses, ["completed", "failed", "completed"], "{calls:?}");
    assert!(calls[0].0.contains("echo changed"), "{calls:?}");
    let plan = editor.updates.iter().rfind(|update| update["sessionUpdate"] == "plan").unwrap();
    assert_eq!(plan["entries"][3]["status"], "completed", "{plan}");
    // What is wrong is an answer, and the agent goes on.
    for (asked, code) in [
        (editor.ask("session/prompt", &prompt("none", "x")), -32_002),
        (editor.ask("session/new", &json!({ "cwd": world.path("repo/none"), "mcpServers": [] })), -32_602),
        (editor.ask("session/load", &json!({ "sessionId": session, "cwd": "/", "mcpServers": [] })), -32_601),
    ] {
        assert_eq!(asked["error"]["code"], code, "{asked}");
    }
    assert_eq!(editor.end(), 0);
}

#[test]
fn a_harness_that_is_missing_is_an_error_that_says_so() {
    let world = World::with_harness();
    let mut editor = Editor::start(&world, &["none", "--repo", "."]);
    let outside = editor.ask("session/new", &json!({ "cwd": "/etc", "mcpServers": [] }));
    assert!(outside["error"]["message"].as_str().unwrap().contains("which this agent serves"), "{outside}");
    let session = editor.new_session(&world);
    let answer = editor.prompt(&session, "x");
    assert!(answer["error"]["message"].as_str().unwrap().contains("there is no harness `none`"), "{answer}");
    assert!(answer["error"]["data"]["exit_code"].is_number(), "{answer}");
    assert_eq!(editor.end(), 0);
}

#[test]
fn a_cancelled_prompt_ends_its_run_in_order() {
    let world = World::scripted("", json!({ "turns": [[{ "shell": FOREVER }]] }));
    let mut editor = Editor::start(&world, &["triage"]);
    let session = editor.new_session(&world);
    let id = editor.send("session/prompt", &prompt(&session, "wait"));
    editor.wait_for_update("tool_call");
    let second = editor.send("session/prompt", &prompt(&session, "more"));
    let refused = editor.answer(second);
    assert_eq!(refused["error"]["code"], -32_602, "one prompt at a time: {refused}");
    editor.cancel(&session);
    let answer = editor.answer(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let record: Json = serde_json::from_str(&world.run(&["runs", "show", "--json"]).out).unwrap();
    assert!(record["outcome"].is_string() && record["outcome"] != "completed", "{record}");
    assert_eq!(editor.end(), 0);
}

/// The editor goes away in the middle of a prompt: the run ends too.
#[test]
fn a_run_ends_with_its_editor() {
    let world = World::scripted("", json!({ "turns": [[{ "shell": FOREVER }]] }));
    let mut editor = Editor::start(&world, &["triage"]);
    let session = editor.new_session(&world);
    editor.send("session/prompt", &prompt(&session, "wait"));
    editor.wait_for_update("tool_call");
    assert_eq!(editor.end(), 0);
    let record: Json = serde_json::from_str(&world.run(&["runs", "show", "--json"]).out).unwrap();
    assert!(record["outcome"].is_string() && record["outcome"] != "completed", "{record}");
}

const PUSH: &str = "echo pushed >> /sandbox/workspace/session/pushes.md";

/// A session whose agent asks before it pushes.
fn asking() -> Stage {
    let stage = Stage::new(&[
        when("the user allowed request", json!([shell(PUSH), finish(sleeps("Pushed once."))])),
        when("the user denied request", json!([finish(sleeps("Not pushed."))])),
        when(EVERY_WAKE, json!([shell(PUSH), finish(sleeps("I asked."))])),
    ]);
    stage.harness("native", "confirm_tools: [Bash]\n");
    stage
}

#[test]
fn a_tool_that_needs_a_confirmation_asks_in_the_editor() {
    for (choice, said, pushed) in [("allow", "Pushed once.", Some("pushed\n")), ("deny", "Not pushed.", None)]
    {
        let stage = asking();
        let mut editor = Editor::start(&stage.world, &["helper", "--session"]);
        editor.choice = choice;
        let session = editor.new_session(&stage.world);
        let answer = editor.prompt(&session, "please push");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let [question] = &editor.questions[..] else { panic!("{:?}", editor.questions) };
        assert_eq!(question["toolCall"]["rawInput"]["command"], PUSH, "{question}");
        assert!(editor.words().contains(said), "{}", editor.words());
        assert_eq!(stage.memory(&session, "pushes.md").as_deref(), pushed, "{choice}");
        // Another editor loads the conversation.
        let mut other = Editor::start(&stage.world, &["helper", "--session"]);
        let load = json!({ "sessionId": session, "cwd": stage.world.path("repo"), "mcpServers": [] });
        let loaded = other.ask("session/load", &load);
        assert!(loaded["result"].is_object(), "{loaded}");
        assert_eq!(other.updates[0]["sessionUpdate"], "user_message_chunk", "{:?}", other.updates);
        assert_eq!(other.updates[0]["content"]["text"], "please push");
        assert!(other.words().contains(said), "{}", other.words());
        assert_eq!((other.end(), editor.end()), (0, 0));
    }
}

#[test]
fn a_cancelled_session_is_interrupted_and_goes_on() {
    let stage = Stage::new(&[
        when("user: second", json!([finish(sleeps("Here again."))])),
        when(EVERY_WAKE, json!([shell(FOREVER)])),
    ]);
    let mut editor = Editor::start(&stage.world, &["helper", "--session"]);
    let session = editor.new_session(&stage.world);
    let id = editor.send("session/prompt", &prompt(&session, "first"));
    editor.wait_for_update("tool_call");
    editor.cancel(&session);
    let answer = editor.answer(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(stage.show(&session)["stop_reason"], "interrupted");
    let answer = editor.prompt(&session, "second");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(editor.words().contains("Here again."), "{}", editor.words());
    assert_eq!(editor.end(), 0);
}

#[test]
fn a_signal_ends_the_agent_and_its_runs() {
    let world = World::scripted("", json!({ "turns": [[{ "shell": FOREVER }]] }));
    let mut editor = Editor::start(&world, &["triage"]);
    let session = editor.new_session(&world);
    editor.send("session/prompt", &prompt(&session, "wait"));
    editor.wait_for_update("tool_call");
    let process = rustix::process::Pid::from_child(&editor.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(editor.child.wait().unwrap().code(), Some(143));
    wait_for(|| {
        let record: Json = serde_json::from_str(&world.run(&["runs", "show", "--json"]).out).unwrap();
        record["outcome"].is_string().then_some(())
    });
}

/// What an editor made with the SDK prints.
const SCRIPT: &str = r#"
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
const [, , program, directory] = process.argv;
const agent = spawn(program, ["acp", "helper", "--session"], { cwd: directory, stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const { agent: agentMethods, client: clientMethods } = acp.methods;
const updates = [];
const asked = [];
const editor = acp
  .client({ name: "test" })
  .onNotification(clientMethods.session.update, (context) => {
    updates.push(context.params.update);
  })
  .onRequest(clientMethods.session.requestPermission, (context) => {
    asked.push(context.params);
    return { outcome: { outcome: "selected", optionId: context.params.options[0].optionId } };
  });
const said = await editor.connectWith(stream, async (context) => {
  const initialized = await context.request(agentMethods.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const { sessionId } = await context.request(agentMethods.session.new, { cwd: directory, mcpServers: [] });
  const { stopReason } = await context.request(agentMethods.session.prompt, {
    sessionId,
    prompt: [{ type: "text", text: "please push" }],
  });
  return { initialized, stopReason };
});
console.log(JSON.stringify({ ...said, updates, asked }));
agent.stdin.end();
"#;

#[test]
fn the_official_editor_prompts_and_answers_questions() {
    if !has_programs(&["node", "npm"], "acp") {
        return;
    }
    let Some(sdk) = sdk() else { return skip("acp", "npm cannot install @agentclientprotocol/sdk") };
    let stage = asking();
    let script = stage.world.write("editor.mjs", SCRIPT);
    std::os::unix::fs::symlink(sdk.join("node_modules"), stage.world.path("node_modules")).unwrap();
    let repository = stage.world.path("repo");
    let program = program();
    let words = [script.as_os_str(), program.as_os_str(), repository.as_os_str()];
    let ran = stage.world.run_program(Path::new("node"), &words);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["initialized"]["agentInfo"]["name"], "fullsend", "{said}");
    assert_eq!(said["stopReason"], "end_turn", "{said}");
    assert_eq!(said["asked"][0]["toolCall"]["rawInput"]["command"], PUSH, "{said}");
    for kind in ["plan", "tool_call", "tool_call_update", "agent_message_chunk"] {
        let updates = said["updates"].as_array().unwrap();
        assert!(updates.iter().any(|update| update["sessionUpdate"] == kind), "{kind}: {said}");
    }
    assert!(said["updates"].to_string().contains("Pushed once."), "{said}");
}

/// The SDK, which npm installs into the cache of the checkout, once. `None` where it cannot.
fn sdk() -> Option<std::path::PathBuf> {
    const VERSION: &str = "2.4.0";
    let cache = root().join("target/cache");
    let place = cache.join(format!("acp-sdk-{VERSION}"));
    if !place.exists() {
        let part = cache.join(format!("acp-sdk-{}.part", std::process::id()));
        std::fs::create_dir_all(&part).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&part);
        npm.arg(format!("@agentclientprotocol/sdk@{VERSION}"));
        let is_installed = npm.output().is_ok_and(|ended| ended.status.success());
        // Another test may have been faster.
        if !is_installed || std::fs::rename(&part, &place).is_err() {
            std::fs::remove_dir_all(&part).unwrap();
        }
    }
    place.exists().then_some(place)
}
