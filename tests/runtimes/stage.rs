//! One run of one runtime against a scripted model server: the repository, the harness, the server's log, the record.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::programs::{cache, is_available, user_can_read_programs};
use crate::support::{Ran, Who, World, has_program, root};

/// Real programs are large: two runs at a time are enough for a small machine.
const AT_ONCE: usize = 2;

/// A place in the queue, across threads and processes; free again when dropped.
pub struct Turn {
    _lock: File,
}

impl Turn {
    pub fn wait() -> Self {
        loop {
            for number in 0..AT_ONCE {
                let path = root().join(format!("target/runtime-{number}.lock"));
                let file = File::options().create(true).append(true).open(path).unwrap();
                if file.try_lock().is_ok() {
                    return Self { _lock: file };
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The scripted model, in a process of its own.
pub struct Server {
    child: Child,
    log: PathBuf,
    pub port: u16,
}

impl Server {
    pub fn start(world: &World, scenario: &Json) -> Self {
        let script = root().join("tests/data/runtimes/model_server.py");
        let scenario = world.write("server/scenario.json", scenario.to_string());
        let log = world.path("server/log.jsonl");
        let port_file = world.path("server/port");
        let mut command = Command::new("python3");
        command.args([&script, &scenario, &log, &port_file]).stdin(Stdio::null());
        let child = command.spawn().unwrap(); // ended when the value is dropped
        let deadline = Instant::now() + Duration::from_secs(30);
        let port = loop {
            if let Some(port) = fs::read_to_string(&port_file).ok().and_then(|text| text.parse().ok()) {
                break port;
            }
            assert!(Instant::now() < deadline, "the scripted model did not start");
            std::thread::sleep(Duration::from_millis(10));
        };
        Self { child, log, port }
    }

    /// Every request so far, with the usage that was sent for it.
    pub fn requests(&self) -> Vec<Json> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A harness before a server, ready to run.
pub struct Stage {
    pub world: World,
    pub server: Server,
    _turn: Turn,
}

pub const KEY: &str = "sk-test-4f9c1d7a2b8e6035";

/// A result that the schema of the stage accepts.
pub fn good() -> Json {
    json!({ "fixed": true, "file": "greet.sh", "cause": "The world was misspelt." })
}

impl Stage {
    /// `None` where the runtime cannot be run; `test` is who asks.
    pub fn new(runtime: &str, test: &str, scenario: &Json) -> Option<Self> {
        Self::with(runtime, test, scenario, "")
    }

    /// `more` are further lines of the harness.
    pub fn with(runtime: &str, test: &str, scenario: &Json, more: &str) -> Option<Self> {
        if is_available(runtime, test) { Self::command(runtime, test, scenario, more) } else { None }
    }

    /// The same without a program of the runtime: the harness names one.
    pub fn command(runtime: &str, test: &str, scenario: &Json, more: &str) -> Option<Self> {
        if !has_program("python3", test) {
            return None;
        }
        let turn = Turn::wait();
        let world = World::new().env("MODEL_KEY", KEY).env("XDG_CACHE_HOME", cache().to_str().unwrap());
        let server = Server::start(&world, scenario);
        let model = if runtime == "codex" { "gpt-5.1" } else { "claude-sonnet-4-5" };
        let vendor = if runtime == "codex" { "openai" } else { "anthropic" };
        world.write("repo/.fullsend/harness/mend.yaml", format!(
            "agent: agents/mend.md\nruntime: {runtime}\nmodel: {model}\npolicy: policies/mend.yaml\nproviders: [model]\n\
             output_schema: schemas/mend.json\ntimeout_minutes: 3\nvalidation_loop:\n  max_iterations: 2\n{more}"
        ));
        world.write("repo/.fullsend/agents/mend.md", "---\nname: mend\ndescription: Mends one bug.\n---\nYou are MEND-OF-THE-HARNESS. Report `fixed`, `file` and `cause`.\n");
        world.write("repo/.fullsend/providers/model.yaml", format!(
            "name: model\ntype: {vendor}\ncredentials:\n  MODEL_KEY: ${{MODEL_KEY}}\nconfig:\n  base_url: http://127.0.0.1:{}\n",
            server.port
        ));
        world.write("repo/.fullsend/policies/mend.yaml", "version: 1\nfilesystem_policy:\n  include_workdir: true\n  read_only: [/usr, /lib, /etc, /proc, /dev/urandom]\n  read_write: [/sandbox, /tmp, /dev/null]\nprocess:\n  run_as_user: sandbox\n  run_as_group: sandbox\nnetwork_policies: {}\n");
        world.write("repo/.fullsend/schemas/mend.json", r#"{"type":"object","required":["fixed","file","cause"],"additionalProperties":false,"properties":{"fixed":{"type":"boolean"},"file":{"type":"string"},"cause":{"type":"string","minLength":10}}}"#);
        world.write("repo/greet.sh", "echo 'Hello, wrold!'\n");
        Some(Self { world, server, _turn: turn })
    }

    /// Another model than the stage's own.
    pub fn ask(&self, own: &str, model: &str) {
        let path = self.world.path("repo/.fullsend/harness/mend.yaml");
        let harness = fs::read_to_string(&path).unwrap();
        fs::write(path, harness.replace(own, model)).unwrap();
    }

    pub fn run(&self) -> Ran {
        self.world.run(&["run", "mend"])
    }

    /// `None` where this machine cannot, or where that user cannot read the programs.
    pub fn run_as(&self, who: Who) -> Option<Ran> {
        if who == Who::User && rustix::process::geteuid().is_root() && !user_can_read_programs() {
            return None;
        }
        self.world.run_as(who, &["run", "mend"])
    }

    /// The run that must end with this code.
    pub fn ends(&self, code: i32) -> Json {
        let ran = self.run();
        assert_eq!(ran.code, code, "{}\n{:#?}", ran.err, self.words());
        self.record()
    }

    pub fn directory(&self) -> PathBuf {
        let runs = fs::read_dir(self.world.path("state/fullsend/runs/local")).unwrap();
        let mut runs: Vec<PathBuf> = runs.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(runs.len(), 1);
        runs.pop().unwrap()
    }

    pub fn record(&self) -> Json {
        serde_json::from_slice(&fs::read(self.directory().join("run.json")).unwrap()).unwrap()
    }

    /// What went to the model in all requests, as one text: what the agent saw.
    pub fn words(&self) -> Vec<String> {
        self.server.requests().iter().map(|request| request["body"].to_string()).collect()
    }

    /// Every byte that the model was sent, as it came, but for the key's own field.
    pub fn raw(&self) -> String {
        let bytes = fs::read(self.world.path("server/log.jsonl.raw")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn accepted(&self, iteration: u32) -> Json {
        let path = self.directory().join(format!("iteration-{iteration}/output/agent-result.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}
