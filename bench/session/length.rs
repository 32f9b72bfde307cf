//! How the cost of loading, appending and waking grows with the log's length, and with the number of other sessions. The
//! peer is the same call on a log of ten events (or among no others), in turns.

use std::fs;

use serde_json::json;

use crate::fixture::{Clock, Directory, message, reports, sleeps, worker};
use crate::{in_turns, line, median, microseconds};
use session::{
    ClaimTarget, ContextSource, ContextWindow, Lease, Payload, SessionId, SessionLimits, Sessions,
    SqliteStore,
};

const ROUNDS: usize = 101;

/// A store with one session of this many events, or a few more.
struct Bench {
    directory: Directory,
    sessions: Sessions,
    clock: Clock,
    id: SessionId,
}

impl Bench {
    fn new(events: u64) -> Self {
        let directory = Directory::below(&std::env::temp_dir());
        let mut clock = Clock::new(events);
        let mut sessions = open(&directory);
        let id = sessions.create(&clock.header("bench")).unwrap().header.id;
        let mut bench = Self { directory, sessions, clock, id };
        bench.grow(events);
        bench
    }

    fn grow(&mut self, events: u64) {
        let text = "x".repeat(200);
        let used = Payload::AgentToolUse {
            tool: "shell".to_owned(),
            input: json!({"command": text}),
            output: Some(json!(text)),
            is_error: false,
            confirmation: None,
        };
        loop {
            let head = self.sessions.session(self.id).unwrap().state.head.0;
            let left = usize::try_from(events.saturating_sub(head)).unwrap();
            if left == 0 {
                return;
            }
            let inputs: Vec<_> = (0..left.min(64)).map(|_| self.clock.input(message(&text))).collect();
            self.sessions.append(self.id, &inputs, &mut self.clock.seed()).unwrap();
            let lease = self.claim();
            let used = vec![used.clone(); left.saturating_sub(70).min(5_000)];
            let reports = reports(&mut self.clock, &used);
            self.sessions.report(&lease, &reports, &mut self.clock.seed()).unwrap();
            self.commit(&lease);
        }
    }

    fn send(&mut self) {
        let input = [self.clock.input(message("go on"))];
        self.sessions.append(self.id, &input, &mut self.clock.seed()).unwrap();
    }

    fn claim(&mut self) -> Lease {
        let claimed =
            self.sessions.claim(ClaimTarget::Due, &worker("bench"), &mut self.clock.seed()).unwrap();
        claimed.expect("the session is due").lease
    }

    fn commit(&mut self, lease: &Lease) {
        self.sessions.commit(lease, &sleeps(), &mut self.clock.seed()).unwrap();
    }

    /// From a message that waits to everything a prompt is made of: the claim is durable, too.
    fn wake(&mut self) -> (f64, ContextSource) {
        self.send();
        let mut found = None;
        let time = microseconds(|| {
            let lease = self.claim();
            found = Some((self.sessions.context(&lease, &ContextWindow::default()).unwrap(), lease));
        });
        let (context, lease) = found.unwrap();
        self.commit(&lease);
        (time, context)
    }

    /// The pages that a wake reads with nothing in any cache of its own, and the rows that come of it.
    fn pages_and_rows(&mut self) -> (f64, f64) {
        self.send();
        let lease = self.claim();
        let mut cold = open(&self.directory);
        cold.session(self.id).unwrap();
        let before = bytes_read();
        let context = cold.context(&lease, &ContextWindow::default()).unwrap();
        let pages = (bytes_read() - before) / 4_096;
        self.commit(&lease);
        (pages as f64, rows(&context) as f64)
    }
}

fn open(directory: &Directory) -> Sessions {
    Sessions::new(Box::new(SqliteStore::open(&directory.database()).unwrap()), SessionLimits::default())
}

fn rows(context: &ContextSource) -> usize {
    let ContextSource { inputs, history, work, requests, outcome, last_message, memory, learnings, .. } =
        context;
    let single = usize::from(outcome.is_some()) + usize::from(last_message.is_some());
    1 + inputs.len() + history.len() + work.len() + requests.len() + single + memory.len() + learnings.len()
}

/// What this process has read through system calls: the database is read so, page by page.
fn bytes_read() -> u64 {
    let counters = fs::read_to_string("/proc/self/io").unwrap();
    let line = counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

pub(crate) fn run() {
    // Long enough for the windows to be full: what is read must not depend on the length from there on.
    let mut short = Bench::new(10);
    let mut full = Bench::new(200);
    let short_pages = full.pages_and_rows();
    for events in [1_000, 100_000, 1_000_000] {
        let mut long = Bench::new(events);
        let (ours, peer) = in_turns(ROUNDS, || drop(load(&mut long)), || drop(load(&mut short)));
        line(&format!("load-{events}"), ours, peer);
        let (ours, peer) = in_turns(ROUNDS, || long.send(), || short.send());
        line(&format!("append-{events}"), ours, peer);
        drain(&mut long);
        drain(&mut short);
        wakes(&format!("wake-to-prompt-{events}"), &mut long, &mut full);
        let (pages, rows) = long.pages_and_rows();
        line(&format!("pages-per-wake-{events}"), pages, short_pages.0);
        line(&format!("rows-per-wake-{events}"), rows, short_pages.1);
    }
    let ten: Vec<f64> = (0..ROUNDS).map(|_| Bench::wake(&mut short).0).collect();
    let full: Vec<f64> = (0..ROUNDS).map(|_| full.wake().0).collect();
    line("wake-to-prompt-10", median(ten), median(full));
}

fn load(bench: &mut Bench) -> session::Session {
    bench.sessions.session(bench.id).unwrap()
}

fn drain(bench: &mut Bench) {
    while let Some(claimed) =
        bench.sessions.claim(ClaimTarget::Due, &worker("bench"), &mut bench.clock.seed()).unwrap()
    {
        bench.commit(&claimed.lease);
    }
}

fn wakes(name: &str, long: &mut Bench, short: &mut Bench) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        times.0.push(long.wake().0);
        times.1.push(short.wake().0);
    }
    line(name, median(times.0), median(times.1));
}

/// Ten thousand other sessions, each with a queued wake, of which one comes due now and then.
pub(crate) fn run_siblings() {
    let mut alone = Bench::new(200);
    let mut among = Bench::new(200);
    for _ in 0..10_000 {
        let id = among.sessions.create(&among.clock.header("bench")).unwrap().header.id;
        let wake = session::QueuedWake {
            id: session::WakeId::generate(&mut among.clock.seed()),
            due_ms: among.clock.now().plus_ms(86_400_000),
            reason: "tomorrow".to_owned(),
            note: None,
            dedupe_key: None,
            priority: session::WakePriority::Normal,
            cron: None,
        };
        among.sessions.queue_wake(id, &wake, &mut among.clock.seed()).unwrap();
    }
    wakes("siblings-10000-wake-to-prompt", &mut among, &mut alone);
    let (ours, peer) = in_turns(ROUNDS, || among.send(), || alone.send());
    line("siblings-10000-append", ours, peer);
    let ours = among.pages_and_rows();
    let peer = alone.pages_and_rows();
    line("siblings-10000-pages-per-wake", ours.0, peer.0);
}
