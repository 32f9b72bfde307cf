//! What one wake costs a PostgreSQL server while fifty workers wait. The workers are processes of the real program, which
//! `FULLSEND_BIN` names. The figures are transactions per wake (of the server's own count, without what idle workers make in the
//! same time), connections, and milliseconds from a message to the start of its wake.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Durability};
use crate::fixture::Directory;
use crate::median;
use session::{Payload, PostgresStore, Seq, SessionId, SessionLimits, SessionStatus, Sessions};

const WORKERS: usize = 50;
const WAKES: usize = 5;

/// The server counts the transactions of an idle connection up to ten seconds late.
const WINDOW: Duration = Duration::from_secs(45);

pub(crate) fn run() {
    let Ok(program) = std::env::var("FULLSEND_BIN") else {
        return println!("# idle was left out: FULLSEND_BIN names no program");
    };
    let cluster = match Cluster::start(Durability::Disk) {
        Ok(cluster) => cluster,
        Err(reason) => return println!("# idle was left out: {reason}"),
    };
    let url = cluster.database();
    let place = Directory::new();
    prepare(place.path());
    let bench = Bench { program: &program, url: &url, place: place.path() };
    let mut sessions =
        Sessions::new(Box::new(PostgresStore::connect(&url).unwrap()), SessionLimits::default());
    let workers: Vec<Worker> =
        (0..WORKERS).map(|_| Worker(bench.command(&["worker", "--quiet"]).spawn().unwrap())).collect();
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    let start = Instant::now();
    while connections(&mut client) < WORKERS && start.elapsed() < Duration::from_secs(120) {
        sleep(Duration::from_millis(200));
    }
    // Every worker has looked for work and waits.
    sleep(Duration::from_secs(20));
    println!("# {} connections for {WORKERS} idle workers", connections(&mut client));
    let idle = transactions_in_window(&mut client, || {});
    let mut delays = Vec::new();
    let all = transactions_in_window(&mut client, || {
        for _ in 0..WAKES {
            delays.push(bench.one_wake(&mut sessions));
        }
    });
    drop(workers);
    let per_wake = all.saturating_sub(idle) as f64 / WAKES as f64;
    println!("idle-transactions-per-minute {:.0}", idle as f64 * 60.0 / WINDOW.as_secs_f64());
    println!("idle-transactions-per-wake {per_wake:.0} 300 {:.2}", per_wake / 300.0);
    println!("idle-message-to-wake-ms {:.0}", median(delays));
}

struct Bench<'a> {
    program: &'a str,
    url: &'a str,
    place: &'a Path,
}

/// Ends with this value.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Bench<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments).args(["--store", self.url]).current_dir(self.place.join("repo"));
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.place);
        command.env("XDG_STATE_HOME", self.place.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Creates a session, sends it a message and waits for the wake. Returns the milliseconds until it started.
    fn one_wake(&self, sessions: &mut Sessions) -> f64 {
        let created =
            self.command(&["session", "create", "--agent", "helper"]).stdout(Stdio::piped()).output();
        let created: serde_json::Value = serde_json::from_slice(&created.unwrap().stdout).unwrap();
        let id: SessionId = created["id"].as_str().unwrap().parse().unwrap();
        assert!(self.command(&["session", "send", &id.to_string(), "go"]).status().unwrap().success());
        let start = Instant::now();
        loop {
            let state = sessions.session(id).unwrap().state;
            if state.status == SessionStatus::Idle && state.pending.is_empty() {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the wake does not end");
            sleep(Duration::from_millis(500));
        }
        let events = sessions.events(id, Seq(0), 100).unwrap();
        let time =
            |kind: fn(&Payload) -> bool| events.iter().find(|event| kind(&event.payload)).unwrap().time_ms.0;
        let sent = time(|payload| matches!(payload, Payload::UserMessage { .. }));
        (time(|payload| matches!(payload, Payload::SpanStarted { .. })) - sent) as f64
    }
}

/// A repository with an agent and a scripted model.
fn prepare(place: &Path) {
    let files = [
        ("harness/helper.yaml", "agent: agents/helper.md\nruntime: native\nproviders: [model]\n"),
        ("agents/helper.md", "---\nname: helper\ndescription: Helps.\n---\nHelp.\n"),
        ("providers/model.yaml", "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/s.json\n"),
        (
            "scenarios/s.json",
            r#"{"turns":[[{"finish":{"response":"ok","summary":"did it","outcome":"sleep"}}]]}"#,
        ),
    ];
    for (name, text) in files {
        let path = place.join("repo/.fullsend").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn connections(client: &mut postgres::Client) -> usize {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    usize::try_from(client.query_one(sql, &[]).unwrap().get::<_, i64>(0)).unwrap()
}

/// The server's count of transactions in one window, in which something is done.
fn transactions_in_window(client: &mut postgres::Client, work: impl FnOnce()) -> u64 {
    let before = transactions(client);
    let start = Instant::now();
    work();
    sleep(WINDOW.saturating_sub(start.elapsed()));
    transactions(client) - before
}

fn transactions(client: &mut postgres::Client) -> u64 {
    let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    u64::try_from(client.query_one(sql, &[]).unwrap().get::<_, i64>(0)).unwrap()
}
