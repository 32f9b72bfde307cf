//! From a waiting message to the finished prompt: claim, load, screen, assemble, on logs of ten to a million events,
//! and among ten thousand other sessions. The peer is the same wake on a log of two hundred events, alone, in turns:
//! the ratio says how flat the cost is. Times are medians in microseconds; pages and rows are what a wake reads that
//! has nothing in any cache of its own.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use std::path::Path;
use std::time::Instant;

use fullsend::internal::DIRECTORY;
use fullsend::internal::MemoryScreen;
use fullsend::internal::{PromptBudget, PromptSource, assemble};
use scan::{LearnedScanner, Toggles};
use serde_json::json;
use session::{
    ClaimTarget, ContextSource, ContextWindow, Directive, EventId, Lease, LeaseTerms, MemoryAuthor,
    MemoryFile, MemoryWrite, Payload, QueuedWake, RunReport, SessionHeader, SessionId, SessionInput,
    SessionLimits, SessionUsage, Sessions, SqliteStore, TimeSeed, WakeCommit, WakeEnding, WakeId,
    WakePriority,
};

const ROUNDS: usize = 51;

/// The sessions beside the one that is woken.
const SIBLINGS: usize = 10_000;

struct Bench {
    directory: tempfile::TempDir,
    sessions: Sessions,
    id: SessionId,
}

impl Bench {
    fn new(events: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut sessions = open(directory.path());
        let id = create(&mut sessions);
        let mut bench = Self { directory, sessions, id };
        bench.grow(events);
        bench
    }

    /// Others of the same agent, each with a wake of tomorrow.
    fn among_siblings(mut self) -> Self {
        for _ in 0..SIBLINGS {
            let id = create(&mut self.sessions);
            let mut seed = self.seed();
            let wake = QueuedWake {
                id: WakeId::generate(&mut seed),
                due_ms: seed.now.plus_ms(86_400_000),
                reason: "tomorrow".to_owned(),
                note: None,
                dedupe_key: None,
                priority: WakePriority::Normal,
                cron: None,
            };
            self.sessions.queue_wake(id, &wake, &mut seed).unwrap();
        }
        self
    }

    fn seed(&mut self) -> TimeSeed {
        fullsend::internal::time_seed(self.sessions.now().unwrap())
    }

    fn grow(&mut self, events: u64) {
        let used = Payload::AgentToolUse {
            tool: "Bash".to_owned(),
            input: json!({ "summary": "x".repeat(200) }),
            output: None,
            is_error: false,
            confirmation: None,
        };
        loop {
            let head = self.sessions.session(self.id).unwrap().state.head.0;
            let left = usize::try_from(events.saturating_sub(head)).unwrap();
            if left == 0 {
                return;
            }
            self.send(left.min(60));
            let lease = self.claim();
            let mut seed = self.seed();
            let report =
                |seed: &mut TimeSeed| RunReport { id: EventId::generate(seed), payload: used.clone() };
            let reports: Vec<RunReport> =
                (0..left.saturating_sub(70).min(5_000)).map(|_| report(&mut seed)).collect();
            self.sessions.report(&lease, &reports, &mut seed).unwrap();
            self.commit(&lease);
        }
    }

    fn send(&mut self, count: usize) {
        let mut seed = self.seed();
        let message = Payload::UserMessage { message: "word ".repeat(40) };
        let inputs: Vec<SessionInput> = (0..count)
            .map(|_| SessionInput { id: EventId::generate(&mut seed), payload: message.clone() })
            .collect();
        self.sessions.append(self.id, &inputs, &mut seed).unwrap();
    }

    fn claim(&mut self) -> Lease {
        let worker = LeaseTerms { owner: "bench".to_owned(), lease_ms: 60_000 };
        let mut seed = self.seed();
        self.sessions.claim(ClaimTarget::Due, &worker, &mut seed).unwrap().unwrap().lease
    }

    fn commit(&mut self, lease: &Lease) {
        let directive = json!({ "summary": "Did it.", "response": "Done.", "outcome": "sleep" });
        let content = "notes ".repeat(500);
        let file = MemoryFile { name: "working-buffer.md".to_owned(), content };
        let commit = WakeCommit {
            reports: Vec::new(),
            ending: WakeEnding::Directive(Directive::from_json(&directive.to_string()).unwrap()),
            usage: SessionUsage::default(),
            bindings: std::collections::BTreeMap::new(),
            memory: vec![MemoryWrite { author: MemoryAuthor::Agent, file }],
            deleted_memory: Vec::new(),
        };
        let mut seed = self.seed();
        self.sessions.commit(lease, &commit, &mut seed).unwrap();
    }

    /// What a wake reads with nothing in any cache of its own: pages of the database, and rows.
    fn reads(&mut self) -> (f64, f64) {
        self.send(1);
        let lease = self.claim();
        let mut cold = open(self.directory.path());
        cold.session(self.id).unwrap();
        let before = bytes_read();
        let context = cold.context(&lease, &ContextWindow::default()).unwrap();
        let pages = (bytes_read() - before) / 4_096;
        self.commit(&lease);
        (pages as f64, rows(&context) as f64)
    }

    /// Microseconds from the message to the prompt.
    fn wake(&mut self, screen: &MemoryScreen) -> f64 {
        self.send(1);
        let start = Instant::now();
        let lease = self.claim();
        let context = self.sessions.context(&lease, &ContextWindow::default()).unwrap();
        let screened = screen.screen(&context.memory, &context.learnings);
        let assembled = assemble(&PromptSource {
            context: &context,
            screened: &screened,
            resumes: false,
            directory: DIRECTORY,
            budget: PromptBudget::default(),
        });
        let time = start.elapsed().as_secs_f64() * 1e6;
        assert!(assembled.text.contains("New inputs, oldest first"));
        self.commit(&lease);
        time
    }
}

fn open(directory: &Path) -> Sessions {
    let store = SqliteStore::open(&directory.join("sessions.db")).unwrap();
    Sessions::new(Box::new(store), SessionLimits::default())
}

fn create(sessions: &mut Sessions) -> SessionId {
    let mut seed = fullsend::internal::time_seed(sessions.now().unwrap());
    let header = SessionHeader::new(SessionId::generate(&mut seed), "bench", seed.now);
    sessions.create(&header).unwrap().header.id
}

fn rows(context: &ContextSource) -> usize {
    let ContextSource { inputs, history, work, requests, outcome, last_message, memory, learnings, .. } =
        context;
    let single = usize::from(outcome.is_some()) + usize::from(last_message.is_some());
    1 + inputs.len() + history.len() + work.len() + requests.len() + single + memory.len() + learnings.len()
}

/// What this process has read through system calls: the database is read so, page by page.
fn bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

fn main() {
    let screen = MemoryScreen::new(Toggles::default(), LearnedScanner::default());
    let mut full = Bench::new(200);
    for events in [10, 1_000, 100_000, 1_000_000] {
        compare(&events.to_string(), &mut Bench::new(events), &mut full, &screen);
    }
    let mut among = Bench::new(200).among_siblings();
    compare(&format!("among-{SIBLINGS}-sessions"), &mut among, &mut full, &screen);
}

fn compare(name: &str, ours: &mut Bench, peer: &mut Bench, screen: &MemoryScreen) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        times.0.push(ours.wake(screen));
        times.1.push(peer.wake(screen));
    }
    line(&format!("wake-to-prompt-text-{name}"), median(times.0), median(times.1));
    let (our_pages, our_rows) = ours.reads();
    let (peer_pages, peer_rows) = peer.reads();
    line(&format!("pages-per-wake-{name}"), our_pages, peer_pages);
    line(&format!("rows-per-wake-{name}"), our_rows, peer_rows);
}

fn line(name: &str, ours: f64, peer: f64) {
    println!("{name} {ours:.1} {peer:.1} {:.2}", ours / peer);
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
