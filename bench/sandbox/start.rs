//! From nothing to `true` and back to nothing. All are measured in turns, so that other load on the machine affects all
//! of them; medians are compared.

use crate::peers::{self, Peer};
use crate::spec;
use sandbox::{Command, ProofSpec, Sandbox, SandboxSpec};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 40;
/// With peers that take up to a second each.
const SLOW_ROUNDS: usize = 14;
const TIMEOUT: Duration = Duration::from_secs(20);

/// One sandbox for `true`, in a process of its own, proof included.
pub(crate) fn once(place: &Path) {
    Ours { spec: spec::full, proof: true }.run(place);
}

/// One way to start ours.
struct Ours {
    spec: fn(&Path, &str) -> SandboxSpec,
    proof: bool,
}

impl Ours {
    /// From a spec to `true` and until everything is gone.
    fn run(&self, place: &Path) {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let name = format!("state-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let sandbox = Sandbox::start((self.spec)(place, &name)).unwrap();
        if self.proof {
            sandbox.prove(&proving()).unwrap();
        }
        let ended = sandbox.exec(Command::new(["true"])).unwrap().wait(TIMEOUT).unwrap();
        sandbox.close().unwrap();
        assert!(ended.success());
    }
}

fn proving() -> ProofSpec {
    ProofSpec {
        unreachable: vec!["192.0.2.1:443".parse().unwrap()],
        // Nobody serves the resolver here, and an answer is waited for.
        unresolvable: None,
        readable: Some("/usr/bin/true".into()),
        writable: Some("/sandbox".into()),
    }
}

/// Ours as a run starts it, in a process that is there already, and once more as a process of its own. Slow peers
/// apart: the kernel clears up after them for a while, and the next one measured would be slower.
pub(crate) fn compare(place: &Path) {
    let (quick, slow): (Vec<Peer>, Vec<Peer>) =
        peers::all(place).into_iter().partition(|peer| peer.name == "bwrap");
    compare_with(place, &quick, ROUNDS);
    compare_with(place, &slow, SLOW_ROUNDS);
    in_process(place);
}

type Way<'a> = (String, Box<dyn Fn() + 'a>, Vec<Duration>);

fn compare_with(place: &Path, peers: &[Peer], rounds: usize) {
    let way = |name: &str, spec: fn(&Path, &str) -> SandboxSpec, proof: bool| -> Way<'_> {
        (name.to_owned(), Box::new(move || Ours { spec, proof }.run(place)), Vec::new())
    };
    let mut ours = vec![
        way("start-before-proof", spec::plain, false),
        way("start-with-proof", spec::plain, true),
        way("start-with-view-sockets-and-proof", spec::full, true),
        ("process-with-view-sockets-and-proof".to_owned(), Box::new(|| process(place)), Vec::new()),
    ];
    if let Some(program) = std::env::var_os("FULLSEND") {
        let whole = move || {
            let mut command = std::process::Command::new(&program);
            command.args(["sandbox", "run", "--", "true"]).current_dir(place.join("directory"));
            assert!(command.status().unwrap().success());
        };
        ours.push(("fullsend-sandbox-run".to_owned(), Box::new(whole), Vec::new()));
    }
    let theirs = peers.iter().map(|peer| -> Way<'_> {
        let run = || assert!(peer.run(&["true"]), "{}", peer.name);
        (peer.name.to_owned(), Box::new(run), Vec::new())
    });
    let count = ours.len();
    let mut all: Vec<Way<'_>> = ours.into_iter().chain(theirs).collect();
    for round in 0..rounds {
        // The order rotates, so that each follows each of the others.
        let first = round % all.len();
        let length = all.len();
        for index in 0..length {
            let (_, run, times) = &mut all[(first + index) % length];
            times.push(time(run));
        }
    }
    let (ours, theirs) = all.split_at_mut(count);
    for (peer, _, theirs) in theirs {
        for (name, _, ours) in ours.iter_mut() {
            row(&format!("{name}/{peer}"), median(ours), median(theirs));
        }
    }
}

fn process(place: &Path) {
    let mut command = std::process::Command::new("/proc/self/exe");
    assert!(command.arg("--once").arg(place).status().unwrap().success());
}

/// As a run does it: in a process that is there already. The aim for the proof is 3 ms.
fn in_process(place: &Path) {
    let mut started = Vec::new();
    let mut proved = Vec::new();
    let mut closed = Vec::new();
    for round in 0..ROUNDS {
        let spec = spec::full(place, &format!("in-{round}"));
        let begun = Instant::now();
        let sandbox = Sandbox::start(spec).unwrap();
        started.push(begun.elapsed());
        proved.push(time(|| drop(sandbox.prove(&proving()).unwrap())));
        closed.push(time(|| sandbox.close().unwrap()));
    }
    println!("in-process-start {:.2} ms", median(&mut started));
    row("in-process-proof/aim", median(&mut proved), 3.0);
    println!("in-process-close {:.2} ms", median(&mut closed));
}

/// The kernel takes namespaces apart in the background; this must not slow down the next one measured.
const SETTLE: Duration = Duration::from_millis(40);

fn time(work: impl FnOnce()) -> Duration {
    std::thread::sleep(SETTLE);
    let begun = Instant::now();
    work();
    begun.elapsed()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn row(name: &str, ours: f64, peer: f64) {
    println!("{name} {ours:.2} {peer:.2} {:.3}", ours / peer);
}
