//! A server with 10,000 runs and 100,000 sessions: what its lists cost in time and memory.

use std::fs;
use std::path::Path;
use std::time::Instant;

use fullsend::event::log::Emitter;
use rusqlite::Connection;
use serde_json::{Value as Json, json};

use super::line;
use super::server::{Served, get, post};

const RUNS: usize = 10_000;
const SESSIONS: usize = 100_000;

/// The lists of the page, and what the page of a run or a session asks besides.
const PATHS: [(&str, &str); 7] = [
    ("runs", "/v1/runs?limit=50"),
    ("runs-filtered", "/v1/runs?outcome=timeout"),
    ("sessions", "/v1/sessions?limit=50"),
    ("sessions-filtered", "/v1/sessions?status=terminated"),
    ("work", "/v1/work"),
    ("costs", "/v1/costs?by=harness"),
    ("workers", "/v1/workers"),
];

/// Copies of one session, made where the store has it.
fn copy_sessions(store: &Path) {
    let connection = Connection::open(store).unwrap();
    let sql = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
        INSERT INTO sessions (id, agent, header, state, repository, labels)
        SELECT unhex(printf('%032x', n)), agent,
               json_set(header, '$.id', printf('00000000-0000-0000-0000-%012x', n)), state, repository, labels
        FROM (SELECT * FROM sessions LIMIT 1), number";
    connection.execute(sql, [SESSIONS as i64]).unwrap();
}

/// Runs that ended.
fn make_runs(runs: &Path) {
    for number in 0..RUNS {
        let run = runs.join(format!("local/01990000-0000-7000-8000-{number:012x}"));
        fs::create_dir_all(&run).unwrap();
        let emitter = Emitter::create(&run.join("events.jsonl"), |_| {}).unwrap();
        let emit = |event: Json| emitter.emit(serde_json::from_value(event).unwrap());
        emit(json!({ "type": "run_started", "run_id": "x", "harness": format!("harness-{}", number % 7),
                     "runtime": "native", "model": "m", "repository": "a/b", "repository_directory": "b",
                     "fullsend": "0.1.0" }));
        emit(json!({ "type": "run_finished", "outcome": "completed", "exit_code": 0, "reason": "" }));
    }
}

/// The slowest of some rounds, in milliseconds, and how many entries came.
async fn ask(served: &Served, path: &str) -> (f64, usize) {
    let mut slowest = 0.0_f64;
    let mut entries = 0;
    for _ in 0..3 {
        let start = Instant::now();
        let answer = get(&served.host, path).await.unwrap();
        slowest = slowest.max(start.elapsed().as_secs_f64() * 1e3);
        let lists = answer.as_object().unwrap().values().filter_map(Json::as_array);
        entries = lists.map(Vec::len).max().unwrap_or(0);
    }
    (slowest, entries)
}

pub fn many() {
    super::readers::in_runtime(async {
        let mut served = Served::start();
        let answer = post(&served.host, "/v1/sessions", "", &json!({ "agent": "helper" })).await;
        answer.unwrap();
        let mut alone = Vec::new();
        for (_, path) in PATHS {
            alone.push(ask(&served, path).await.0);
        }
        let base = served.memory();
        copy_sessions(&served.store());
        make_runs(&served.runs());
        served.restart();
        for ((name, path), alone) in PATHS.iter().zip(alone) {
            let (slowest, entries) = ask(&served, path).await;
            println!("many: {entries} entries of {name}");
            line(&format!("many-{name}-ms"), slowest, alone);
        }
        line("many-memory-mb", served.most_memory() / 1024.0, base / 1024.0);
    });
}
