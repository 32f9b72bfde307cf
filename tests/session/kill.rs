//! SIGKILL from outside, at every step of a write of a real process, on one file over many rounds. A reader that knows nothing
//! of the program judges what is left: plain SQL and JSON, and the list of appends that were acknowledged.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::fixture::{Clock, Directory, directive, ending, message, reports, worker};
use session::{
    ClaimTarget, MemoryAuthor, MemoryFile, MemoryWrite, Payload, SessionLimits, Sessions, SqliteStore,
    WakeCommit, WakeEnding,
};

/// The steps of a write, in their order. The child stops at one of them and waits to be killed.
const POINTS: &[&str] = &["begin", "decide", "state", "events", "memory", "commit", "committed"];

const DATABASE: &str = "FULLSEND_TEST_KILL_DATABASE";
const POINT: &str = "FULLSEND_TEST_KILL_POINT";
const ROUND: &str = "FULLSEND_TEST_KILL_ROUND";

#[test]
fn killed_at_every_step_nothing_acknowledged_is_lost() {
    rounds(20, &["--exact", "kill::starts_as_the_child", "--ignored", "--nocapture"]);
}

#[test]
#[ignore = "started and killed by the test above"]
fn starts_as_the_child() {
    child();
}

/// Starts this program again with these words, for it to come to `child`, and kills it: so many times. Gives how many appends
/// were acknowledged, all of which were found.
pub(crate) fn rounds(rounds: usize, words: &[&str]) -> usize {
    // On a disk, where the write-ahead log is really synchronised.
    let directory = Directory::below(&env::temp_dir());
    let mut acknowledged = BTreeMap::new();
    for round in 0..rounds {
        let point = POINTS[round % POINTS.len()];
        let mut child = start(&directory.database(), words, round, point);
        let killed = listen(&mut child, &mut acknowledged);
        assert!(killed, "round {round}: the child never came to {point}");
        judge(&directory.database(), &acknowledged, &format!("round {round}, {point}"));
    }
    let mut child = start(&directory.database(), words, rounds, "never");
    assert!(!listen(&mut child, &mut acknowledged));
    judge(&directory.database(), &acknowledged, "at the end");
    let unconsumed = read(&directory.database(), |story| story.unconsumed.clone());
    assert!(unconsumed.is_empty(), "these were never worked on: {unconsumed:?}");
    assert!(acknowledged.len() > rounds * 3, "only {} appends were acknowledged", acknowledged.len());
    acknowledged.len()
}

fn start(database: &Path, words: &[&str], round: usize, point: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(words)
        .env(DATABASE, database)
        .env(POINT, point)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Takes down what the child acknowledges, and kills it where it waits. Gives whether it had to be killed.
fn listen(child: &mut Child, acknowledged: &mut BTreeMap<String, u64>) -> bool {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut killed = false;
    for line in lines.map_while(Result::ok) {
        // What the test harness of the child prints may stand in front.
        let Some((_, told)) = line.split_once("@@") else { continue };
        match told.split(' ').collect::<Vec<_>>()[..] {
            ["appended", event, seq] => {
                acknowledged.insert(event.to_owned(), seq.parse().unwrap());
            }
            ["waiting"] => {
                child.kill().unwrap();
                killed = true;
            }
            _ => panic!("{line}"),
        }
    }
    let status = child.wait().unwrap();
    assert!(killed || status.success(), "the child failed: {status}");
    killed
}

/// What the file tells, without any of our code.
#[derive(Default)]
struct Story {
    /// Event ids of inputs by their place, one map per session.
    inputs: Vec<BTreeMap<u64, String>>,
    unconsumed: Vec<String>,
}

fn read<T>(database: &Path, look: impl FnOnce(&Story) -> T) -> T {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let mut story = Story::default();
    let mut sessions = connection.prepare("SELECT id, state FROM sessions").unwrap();
    let rows = sessions.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for (id, state) in rows.map(Result::unwrap) {
        let state: String = state;
        tell(&connection, id, &serde_json::from_str(&state).unwrap(), &mut story);
    }
    look(&story)
}

fn tell(connection: &Connection, session: Vec<u8>, state: &Value, story: &mut Story) {
    let sql = "SELECT seq, lower(hex(id)), payload FROM events WHERE session_id = ?1 ORDER BY seq";
    let mut events = connection.prepare(sql).unwrap();
    let rows = events.query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    let mut waiting: BTreeMap<u64, String> = BTreeMap::new();
    let mut last = 0;
    for row in rows {
        let (seq, id, payload): (i64, String, String) = row.unwrap();
        let seq = u64::try_from(seq).unwrap();
        assert_eq!(seq, last + 1, "the log has a hole");
        last = seq;
        let payload: Value = serde_json::from_str(&payload).unwrap();
        if payload["type"] == "user.message" {
            inputs.insert(seq, id.clone());
            waiting.insert(seq, id);
        }
        let empty = Vec::new();
        for range in payload["span"]["consumed"].as_array().unwrap_or(&empty) {
            for seq in range[0].as_u64().unwrap()..=range[1].as_u64().unwrap() {
                assert!(waiting.remove(&seq).is_some(), "input {seq} was consumed twice, or never came");
            }
        }
    }
    assert_eq!(state["head"], last, "the state is not that of the log");
    let pending: Vec<u64> = state["pending"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|range| range[0].as_u64().unwrap()..=range[1].as_u64().unwrap())
        .collect();
    assert_eq!(pending, waiting.keys().copied().collect::<Vec<_>>(), "the state forgot an input");
    story.inputs.push(inputs);
    story.unconsumed.extend(waiting.into_values());
}

/// Everything acknowledged is stored once, at the acknowledged position; of the rest, at most the append that was in
/// progress.
fn judge(database: &Path, acknowledged: &BTreeMap<String, u64>, when: &str) {
    read(database, |story| {
        let mut found: BTreeMap<&String, u64> = BTreeMap::new();
        for (seq, id) in story.inputs.iter().flatten() {
            assert!(found.insert(id, *seq).is_none(), "{when}: {id} is there twice");
        }
        for (id, seq) in acknowledged {
            assert_eq!(found.get(id), Some(seq), "{when}: {id} was acknowledged at {seq}");
        }
    });
}

/// How often a step was reached, and at which time to stop there.
static REACHED: AtomicUsize = AtomicUsize::new(0);

fn wait_to_be_killed(step: &'static str) {
    let round: usize = env::var(ROUND).unwrap().parse().unwrap();
    // Another write in every round: appends, claims, reports and commits all get their turn.
    if env::var(POINT).unwrap() == step && REACHED.fetch_add(1, Ordering::Relaxed) == 5 + round * 7 % 13 {
        tell_parent("waiting");
        sleep(Duration::from_secs(600));
    }
}

fn tell_parent(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@@{what}").unwrap();
    out.flush().unwrap();
}

/// Appends and wakes until it is killed, if this process is there for that. Gives whether it is.
pub(crate) fn child() -> bool {
    let Ok(database) = env::var(DATABASE) else { return false };
    let round: i64 = env::var(ROUND).unwrap().parse().unwrap();
    let store = SqliteStore::open(Path::new(&database)).unwrap().with_probe(wait_to_be_killed);
    let mut sessions = Sessions::new(Box::new(store), SessionLimits::default());
    // The same two sessions in every round, and a clock on which the leases of the round before are over.
    let mut headers = Clock::new(8);
    let ids = [headers.header("a"), headers.header("b")].map(|h| sessions.create(&h).unwrap().header.id);
    let mut clock = Clock::new(1_000 + u64::try_from(round).unwrap());
    clock.pass_ms(round * 3_600_000);
    let rounds_of_work = if env::var(POINT).unwrap() == "never" { 0 } else { 12 };
    for number in 0..rounds_of_work {
        for id in ids {
            let input = clock.input(message(&format!("round {round} number {number}")));
            let places = sessions.append(id, std::slice::from_ref(&input), &mut clock.seed()).unwrap();
            tell_parent(&format!("appended {} {}", input.id.to_string().replace('-', ""), places[0].0));
        }
        work(&mut sessions, &mut clock);
    }
    while work(&mut sessions, &mut clock) {}
    true
}

/// One wake with everything in it. Gives whether there was one.
fn work(sessions: &mut Sessions, clock: &mut Clock) -> bool {
    let Some(claimed) = sessions.claim(ClaimTarget::Due, &worker("child"), &mut clock.seed()).unwrap() else {
        return false;
    };
    let attached = Payload::RunAttached { run_id: "run".to_owned(), digest: None };
    sessions.report(&claimed.lease, &reports(clock, &[attached]), &mut clock.seed()).unwrap();
    sessions.renew(&claimed.lease, &worker("child"), clock.now()).unwrap();
    let says = json!({"response": "ok", "summary": "s", "outcome": "sleep",
                      "learnings": [{"kind": "lesson", "title": clock.now_ms.to_string(), "detail": "d"}]});
    let content = format!("after token {}", claimed.lease.token);
    let file = MemoryFile { name: "working-buffer.md".to_owned(), content };
    let memory = vec![MemoryWrite { author: MemoryAuthor::Agent, file }];
    let commit = WakeCommit { memory, ..ending(WakeEnding::Directive(directive(&says))) };
    sessions.commit(&claimed.lease, &commit, &mut clock.seed()).unwrap();
    true
}
