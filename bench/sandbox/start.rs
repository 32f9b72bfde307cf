//! From nothing to `true` and back to nothing. Every contestant is a process of its own, taken in turns, so that what else
//! the machine does hits all alike; medians are compared.

use crate::{peers, spec};
use sandbox::{Command, ProofSpec, Sandbox, SandboxSpec};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 40;
/// Peers that take a second each.
const SLOW_ROUNDS: usize = 7;
const PATIENCE: Duration = Duration::from_secs(20);

/// One sandbox for `true`, in a process of its own, proof included.
pub(crate) fn once(place: &Path) -> ! {
    let whole = Ours { spec: spec::full, proof: true };
    whole.run(place);
    std::process::exit(0);
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
        let ended = sandbox.exec(Command::new(["true"])).unwrap().wait(PATIENCE).unwrap();
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

/// Ours as a run starts it, in a process that is there already, and once more as a process of its own.
pub(crate) fn compare(place: &Path) {
    let peers = peers::all(place);
    let ways: [(&str, Box<dyn Fn()>); 4] = [
        ("start-before-proof", Box::new(|| Ours { spec: spec::plain, proof: false }.run(place))),
        ("start-with-proof", Box::new(|| Ours { spec: spec::plain, proof: true }.run(place))),
        ("start-with-view-sockets-and-proof", Box::new(|| Ours { spec: spec::full, proof: true }.run(place))),
        ("process-with-view-sockets-and-proof", Box::new(|| process(place))),
    ];
    let mut ours: Vec<Vec<Duration>> = ways.iter().map(|_| Vec::new()).collect();
    let mut theirs: Vec<Vec<Duration>> = peers.iter().map(|_| Vec::new()).collect();
    let mut whole = Vec::new();
    let program = std::env::var_os("FULLSEND");
    for round in 0..ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut ours) {
            times.push(time(way));
        }
        for (peer, times) in peers.iter().zip(&mut theirs) {
            let is_quick = times.first().is_none_or(|first| *first < Duration::from_millis(300));
            if is_quick || round < SLOW_ROUNDS {
                times.push(time(|| assert!(peer.run(&["true"]), "{}", peer.name)));
            }
        }
        if let Some(program) = program.as_ref().filter(|_| round < ROUNDS / 2) {
            let mut command = std::process::Command::new(program);
            command.args(["sandbox", "run", "--", "true"]).current_dir(place.join("directory"));
            whole.push(time(|| assert!(command.status().unwrap().success())));
        }
    }
    for (peer, theirs) in peers.iter().zip(&mut theirs) {
        for ((name, _), ours) in ways.iter().zip(&mut ours) {
            row(&format!("{name}/{}", peer.name), median(ours), median(theirs));
        }
        if !whole.is_empty() {
            row(&format!("fullsend-sandbox-run/{}", peer.name), median(&mut whole), median(theirs));
        }
    }
    in_process(place);
}

fn process(place: &Path) {
    let mut command = std::process::Command::new("/proc/self/exe");
    assert!(command.arg("--once").arg(place).status().unwrap().success());
}

/// As a run does it: in a process that is there already. The aim for the proof is 3 ms.
fn in_process(place: &Path) {
    let (mut started, mut proved, mut closed) = (Vec::new(), Vec::new(), Vec::new());
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

/// The kernel takes namespaces apart in the background; whoever comes next must not pay for it.
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
