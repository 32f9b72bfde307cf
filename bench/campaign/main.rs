//! A fault campaign over sessions: many workers and senders on one store, while workers are killed and frozen, the server is
//! stopped, connections are cut, stalled or lose replies, its clock jumps, the provider is away for ten minutes of the server's
//! clock, and rows of a newer program appear. The server is behind a proxy, behind a pooler in transaction mode, or has TLS. At
//! the end every invariant is checked. It is bounded in count and in time, and prints its seed.
//!
//! `cargo bench -p session --bench campaign [-- sqlite|postgres|pooler|tls] [seed=N] [seconds=N] [sessions=N] [messages=N]
//! [old=PROGRAM]`. `old` is this bench as an earlier version built it: the workers start with it and are upgraded one by one.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the summary is the output")]

#[path = "../../tests/session/certificates.rs"]
mod certificates;
#[path = "../../tests/session/cluster.rs"]
#[expect(dead_code, reason = "a bench needs less than the tests")]
mod cluster;
#[path = "../../tests/session/fixture.rs"]
#[expect(dead_code, reason = "a bench needs less than the tests")]
mod fixture;
#[path = "../../tests/session/proxy.rs"]
#[expect(dead_code, reason = "a bench needs less than the tests")]
mod proxy;

mod faults;
mod judge;
mod place;
mod sender;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use faults::Faults;
use place::Place;

/// What a campaign does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) sessions: usize,
    pub(crate) messages: usize,
    pub(crate) workers: usize,
    /// The program of an earlier version that the workers are upgraded from.
    pub(crate) old: Option<PathBuf>,
}

fn main() {
    if worker::runs_as_child() {
        return;
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |key: &str, default: u64| {
        let value = words.iter().find_map(|word| word.strip_prefix(&format!("{key}=")));
        value.map_or(default, |value| value.parse().unwrap())
    };
    let plan = Plan {
        seed: number("seed", 1),
        time: Duration::from_secs(number("seconds", 60)),
        sessions: usize::try_from(number("sessions", 12)).unwrap(),
        messages: usize::try_from(number("messages", 240)).unwrap(),
        workers: 4,
        old: words.iter().find_map(|word| word.strip_prefix("old=")).map(PathBuf::from),
    };
    let wanted = |name: &str| words.iter().all(|word| word.contains('=') || word == name);
    let mut failures = 0;
    for place in [
        ("sqlite", Place::sqlite as fn() -> Result<Place, String>),
        ("postgres", Place::postgres),
        ("pooler", Place::pooler),
        ("tls", Place::tls),
    ] {
        if wanted(place.0) {
            failures += match place.1() {
                Ok(made) => run(place.0, made, &plan),
                Err(reason) => {
                    println!("{}: skipped: {reason}", place.0);
                    0
                }
            };
        }
    }
    assert_eq!(failures, 0, "{failures} invariants do not hold");
}

/// One campaign. Returns how many invariants do not hold.
fn run(name: &str, mut place: Place, plan: &Plan) -> usize {
    println!("{name}: seed {}, {plan:?}", plan.seed);
    let ids = sender::create_sessions(&place, plan);
    let sent = std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..2).map(|number| sender::spawn(scope, &place.through(), &ids, plan, number)).collect();
        let mut faults = Faults::new(plan, &ids);
        faults.run(&mut place);
        let sent = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect::<Vec<_>>();
        faults.drain(&mut place, &ids);
        println!("{name}: faults {:?}", faults.counts());
        sent
    });
    judge::judge(name, &place, &ids, &sent)
}
