//! A long run as one HTML file: how long the export takes, and how long a browser takes to show it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fullsend::event::log::Emitter;
use serde_json::{Value as Json, json};

use super::server::program;
use super::{line, median};

const EVENTS: u64 = 10_000;
const ROUNDS: usize = 5;
const ID: &str = "0198c2f0-0000-7000-8000-000000000000";

/// A run with this many events, and the page that was made of it.
struct LongRun {
    place: tempfile::TempDir,
}

impl LongRun {
    fn make() -> Self {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("local").join(ID);
        fs::create_dir_all(&run).unwrap();
        let emitter = Emitter::create(&run.join("events.jsonl"), |_| {}).unwrap();
        let emit = |event: Json| emitter.emit(serde_json::from_value(event).unwrap());
        emit(
            json!({ "type": "run_started", "run_id": ID, "harness": "triage", "runtime": "native", "model": "m",
                     "repository": "a/b", "repository_directory": "b", "fullsend": "0.1.0" }),
        );
        emit(json!({ "type": "agent_started", "iteration": 1 }));
        for number in 0..(EVENTS - 4) / 2 {
            let call = format!("call-{number}");
            emit(json!({ "type": "tool_started", "iteration": 1, "call": call, "tool": "Bash",
                         "summary": format!("grep -rn 'pattern {number}' src | head") }));
            emit(
                json!({ "type": "tool_finished", "iteration": 1, "call": call, "is_error": number % 50 == 0, "bytes": number }),
            );
        }
        emit(json!({ "type": "agent_finished", "iteration": 1, "ending": "finished", "turns": EVENTS / 2 }));
        emit(json!({ "type": "run_finished", "outcome": "completed", "exit_code": 0, "reason": "" }));
        Self { place }
    }

    fn log(&self) -> PathBuf {
        self.place.path().join("local").join(ID).join("events.jsonl")
    }

    fn page(&self) -> PathBuf {
        self.place.path().join("page.html")
    }

    fn export(&self) {
        let mut command = Command::new(program());
        command
            .args(["runs", "export", ID, "--html"])
            .arg(self.page())
            .arg("--output-dir")
            .arg(self.place.path());
        let output = command.env("HOME", self.place.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

pub fn export() {
    let run = LongRun::make();
    let lines = fs::read_to_string(run.log()).unwrap().lines().count();
    assert_eq!(lines as u64, EVENTS);
    let mut ours = Vec::new();
    let mut peer = Vec::new();
    for _ in 0..ROUNDS {
        ours.push(milliseconds(|| run.export()));
        let size = fs::metadata(run.page()).unwrap().len();
        peer.push(milliseconds(|| {
            let text = fs::read_to_string(run.log()).unwrap();
            let parsed = text.lines().filter(|line| serde_json::from_str::<Json>(line).is_ok()).count();
            assert_eq!(parsed, lines);
            fs::write(run.place.path().join("peer.html"), vec![b'x'; usize::try_from(size).unwrap()])
                .unwrap();
        }));
    }
    line("export-10000-events-ms", median(ours), median(peer));
    let log = fs::metadata(run.log()).unwrap().len() as f64;
    line("export-10000-events-mb", fs::metadata(run.page()).unwrap().len() as f64 / 1e6, log / 1e6);
}

pub fn paint() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cache/web");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/serve/paint.mjs");
    if !web.join("node_modules/playwright-core").is_dir() {
        return println!("paint: no browser driver in target/cache/web; the tests of the page install it");
    }
    let run = LongRun::make();
    run.export();
    // The driver is found from where the script stands.
    let own = tempfile::tempdir_in(&web).unwrap();
    fs::copy(script, own.path().join("paint.mjs")).unwrap();
    let output =
        Command::new("node").arg("paint.mjs").arg(run.page()).current_dir(own.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [first, list, empty] = numbers[..] else {
        return println!(
            "paint: {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no figures")
        );
    };
    line("first-paint-10000-events-ms", first, empty);
    line("list-shown-10000-events-ms", list, empty);
}
