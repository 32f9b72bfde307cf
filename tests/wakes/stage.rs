//! One agent, a scripted model, and a session of it: what the tests of wakes share.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use session::{SessionLimits, Sessions, SqliteStore};

use crate::runtimes::programs::{cache, is_available, user_can_read_programs};
use crate::runtimes::stage::Turn;
use crate::support::{Ran, Who, World};

/// A world with the harness `helper` before a scripted model.
pub struct Stage {
    pub world: World,
    /// Of a runtime whose programs are large.
    _turn: Option<Turn>,
}

/// A command that ends only with its sandbox. No runtime refuses to start it.
pub const FOREVER: &str = "true; tail -f /dev/null";

thread_local! {
    /// Who runs the program in this test.
    static WHO: Cell<Who> = const { Cell::new(Who::Caller) };
}

/// Plays a scene once more, with the program run by somebody without privileges.
pub fn as_user(scene: fn()) {
    // Where the tests are run without privileges, every scene has been played so.
    if rustix::process::geteuid().is_root() && World::new().words_of_user().is_some() {
        WHO.set(Who::User);
        scene();
        WHO.set(Who::Caller);
    }
}

/// Said in every context: turns of a branch with it are counted anew in every wake.
pub const EVERY_WAKE: &str = "Your work is split into wakes";

/// A branch of a scenario: what the user's words must contain, and what the model does then.
pub fn when(words: &str, turns: impl Into<Json>) -> Json {
    let turns: Json = turns.into();
    json!({ "when": { "user_contains": words }, "turns": turns })
}

/// The model returns a directive.
pub fn finish(directive: impl Into<Json>) -> Json {
    let directive: Json = directive.into();
    json!([{ "finish": directive }])
}

pub fn sleeps(response: &str) -> Json {
    json!({ "response": response, "summary": format!("Said: {response}"), "outcome": "sleep" })
}

pub fn shell(command: &str) -> Json {
    json!([{ "shell": command }])
}

impl Stage {
    pub fn new(branches: &[Json]) -> Self {
        let world = match WHO.get() {
            Who::Caller => World::new(),
            Who::User => World::new().by_user().expect("there is a user"),
        };
        let stage = Self { world, _turn: None };
        stage.harness("native", "");
        stage
            .world
            .write("repo/.fullsend/agents/helper.md", "---\nname: helper\ndescription: Helps.\n---\nHelp.\n");
        stage.scenario(branches);
        stage
    }

    /// With these runtimes, of which the first is the harness's. `None` where one of them is not here, which is said.
    pub fn of(runtimes: &[&str], branches: &[Json]) -> Option<Self> {
        let are_available = runtimes.iter().all(|runtime| is_available(runtime, "sessions"));
        let needs_programs = runtimes.iter().any(|runtime| *runtime != "native");
        if !are_available || (needs_programs && WHO.get() == Who::User && !user_can_read_programs()) {
            return None;
        }
        let turn = Turn::wait();
        let stage = Self::new(branches);
        stage.harness(runtimes[0], "");
        let world = stage.world.env("XDG_CACHE_HOME", cache().to_str().unwrap());
        Some(Self { world, _turn: Some(turn) })
    }

    /// The harness; `more` are further lines of it.
    pub fn harness(&self, runtime: &str, more: &str) {
        let vendor = if runtime == "codex" { "openai" } else { "anthropic" };
        let harness = format!(
            "agent: agents/helper.md\nruntime: {runtime}\nproviders: [model]\ntimeout_minutes: 3\n{more}"
        );
        self.world.write("repo/.fullsend/harness/helper.yaml", harness);
        self.world.write(
            "repo/.fullsend/providers/model.yaml",
            format!("name: model\ntype: {vendor}\nconfig:\n  scenario: scenarios/s.json\n"),
        );
    }

    pub fn scenario(&self, branches: &[Json]) {
        let scenario = json!({ "branches": branches, "side": "A title" });
        self.world.write("repo/.fullsend/scenarios/s.json", scenario.to_string());
    }

    pub fn create(&self, more: &[&str]) -> String {
        let ran = self.world.run(&[&["session", "create", "--agent", "helper"], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let line: Json = serde_json::from_str(&ran.out).unwrap();
        line["id"].as_str().unwrap().to_owned()
    }

    pub fn send(&self, id: &str, text: &str) {
        let ran = self.world.run(&["session", "send", id, text]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }

    /// A session that was told this.
    pub fn told(&self, text: &str) -> String {
        let id = self.create(&[]);
        self.send(&id, text);
        id
    }

    pub fn wake(&self, id: &str) -> Ran {
        self.world.run(&["session", "run", id])
    }

    /// A wake that must end with this code.
    pub fn wakes(&self, id: &str, code: i32) {
        let ran = self.wake(id);
        assert_eq!(ran.code, code, "{}{}\n{}", ran.out, ran.err, self.log(id));
    }

    pub fn show(&self, id: &str) -> Json {
        let ran = self.world.run(&["session", "show", id, "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }

    pub fn log(&self, id: &str) -> String {
        self.world.run(&["session", "events", id]).out
    }

    pub fn events(&self, id: &str) -> Vec<Json> {
        self.log(id).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events of one type.
    pub fn of_type(&self, id: &str, kind: &str) -> Vec<Json> {
        self.events(id).into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// A file of the session's memory, as the store has it.
    pub fn memory(&self, id: &str, name: &str) -> Option<String> {
        let bundle = self.world.run(&["session", "export", id]).out;
        let records = bundle.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        let mut files =
            records.filter(|record| record["record"] == "memory").map(|record| record["file"].clone());
        files.find(|file| file["name"] == name).map(|file| file["content"].as_str().unwrap().to_owned())
    }

    /// Removes the conversations of a session: the next wake starts from the log and the memory.
    pub fn forget_conversations(&self, id: &str) {
        let store = SqliteStore::open(&self.world.path("state/fullsend/sessions.db")).unwrap();
        let mut sessions = Sessions::new(Box::new(store), SessionLimits::default());
        let id = id.parse().unwrap();
        let names = sessions.object_names(id).unwrap();
        let conversations: Vec<&String> =
            names.iter().filter(|name| name.starts_with("conversation/")).collect();
        assert!(!conversations.is_empty(), "{names:?}");
        conversations.into_iter().for_each(|name| sessions.remove_object(id, name).unwrap());
    }

    fn last_run(&self) -> std::path::PathBuf {
        let runs = self.world.path("state/fullsend/runs/local");
        let runs = std::fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path());
        runs.max().unwrap()
    }

    pub fn last_record(&self) -> Json {
        serde_json::from_slice(&std::fs::read(self.last_run().join("run.json")).unwrap()).unwrap()
    }

    pub fn last_findings(&self) -> Vec<Json> {
        let text = std::fs::read_to_string(self.last_run().join("findings.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The last run's transcripts, as one text.
    pub fn last_transcript(&self) -> String {
        let transcripts = self.last_run().join("iteration-1/transcripts");
        let files = std::fs::read_dir(transcripts).unwrap().map(|entry| entry.unwrap().path());
        files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    /// Waits until the log of a session holds this.
    pub fn wait_for(&self, id: &str, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(90);
        while !self.log(id).contains(what) {
            assert!(Instant::now() < deadline, "`{what}` did not happen in time:\n{}", self.log(id));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}
