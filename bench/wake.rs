//! From a message that waits to the very words an agent is told: claim, load, screen, assemble, on logs of ten to a million
//! events. The peer is the same wake on a log of two hundred events, in turns: the ratio says how flat the cost is.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use std::time::Instant;

use fullsend::wake::assemble::{Budget, Material, assemble};
use fullsend::wake::memory::DIRECTORY;
use fullsend::wake::screen::Screen;
use scan::Toggles;
use serde_json::json;
use session::commit::{Commit, Ending};
use session::context::Window;
use session::directive::Directive;
use session::event::{Payload, Usage};
use session::header::Header;
use session::id::{EventId, SessionId};
use session::ingress::Input;
use session::lease::{Lease, Pick, Worker};
use session::limits::Limits;
use session::memory::{Author, MemoryFile, MemoryWrite};
use session::moment::Moment;
use session::sessions::Sessions;
use session::store::sqlite::SqliteStore;

const ROUNDS: usize = 51;

struct Bench {
    _directory: tempfile::TempDir,
    sessions: Sessions,
    id: SessionId,
}

impl Bench {
    fn new(events: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("sessions.db")).unwrap();
        let mut sessions = Sessions::new(Box::new(store), Limits::default());
        let mut moment = fullsend::wake::moment(sessions.now().unwrap());
        let header = Header {
            id: SessionId::draw(&mut moment),
            agent: "bench".to_owned(),
            environment: None,
            resources: Vec::new(),
            created_ms: moment.now,
        };
        let id = sessions.create(&header).unwrap().header.id;
        let mut bench = Self { _directory: directory, sessions, id };
        bench.grow(events);
        bench
    }

    fn moment(&mut self) -> Moment {
        fullsend::wake::moment(self.sessions.now().unwrap())
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
            let reports = vec![used.clone(); left.saturating_sub(70).min(5_000)];
            let mut moment = self.moment();
            self.sessions.report(&lease, &reports, &mut moment).unwrap();
            self.commit(&lease);
        }
    }

    fn send(&mut self, count: usize) {
        let mut moment = self.moment();
        let message = Payload::UserMessage { message: "word ".repeat(40) };
        let inputs: Vec<Input> =
            (0..count).map(|_| Input { id: EventId::draw(&mut moment), payload: message.clone() }).collect();
        self.sessions.append(self.id, &inputs, &mut moment).unwrap();
    }

    fn claim(&mut self) -> Lease {
        let worker = Worker { owner: "bench".to_owned(), lease_ms: 60_000 };
        let mut moment = self.moment();
        self.sessions.claim(Pick::Due, &worker, &mut moment).unwrap().unwrap().lease
    }

    fn commit(&mut self, lease: &Lease) {
        let directive = json!({ "summary": "Did it.", "response": "Done.", "outcome": "sleep" });
        let content = "notes ".repeat(500);
        let file = MemoryFile { name: "working-buffer.md".to_owned(), content };
        let commit = Commit {
            reports: Vec::new(),
            ending: Ending::Directive(Directive::from_json(&directive.to_string()).unwrap()),
            usage: Usage::default(),
            bindings: std::collections::BTreeMap::new(),
            memory: vec![MemoryWrite { author: Author::Agent, file }],
        };
        let mut moment = self.moment();
        self.sessions.commit(lease, &commit, &mut moment).unwrap();
    }

    /// Microseconds from the message to the words.
    fn wake(&mut self, screen: &Screen) -> f64 {
        self.send(1);
        let start = Instant::now();
        let lease = self.claim();
        let context = self.sessions.context(&lease, &Window::default()).unwrap();
        let screened = screen.screen(&context.memory, &context.learnings);
        let assembled = assemble(&Material {
            context: &context,
            screened: &screened,
            resumes: false,
            directory: DIRECTORY,
            budget: Budget::default(),
        });
        let time = start.elapsed().as_secs_f64() * 1e6;
        assert!(assembled.text.contains("What is new"));
        self.commit(&lease);
        time
    }
}

fn main() {
    let screen = Screen::new(Toggles::default());
    let mut full = Bench::new(200);
    for events in [10, 1_000, 100_000, 1_000_000] {
        let mut long = Bench::new(events);
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            times.0.push(long.wake(&screen));
            times.1.push(full.wake(&screen));
        }
        let (ours, peer) = (median(times.0), median(times.1));
        println!("wake-to-prompt-text-{events} {ours:.1} {peer:.1} {:.2}", ours / peer);
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
