//! Benches of sessions, one line each: `name ours peer ratio`. Times are medians in microseconds. A peer is either the same
//! database doing the least that is as durable, in turns with ours, or ours on a log of ten events: then the ratio says how flat
//! the cost is. Run with `cargo bench -p session --bench session [-- NAME]`; a name is the beginning of a line's name.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../../tests/session/cluster.rs"]
#[expect(dead_code, reason = "a bench needs less than the tests")]
mod cluster;
#[path = "../../tests/session/fixture.rs"]
#[expect(dead_code, reason = "a bench needs less than the tests")]
mod fixture;

mod append;
mod drain;
mod idle;
mod length;

use std::time::Instant;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, bench) in [
        ("append", append::run as fn()),
        ("drain", drain::run),
        ("idle", idle::run),
        ("length", length::run),
        ("siblings", length::run_siblings),
    ] {
        if name.starts_with(&wanted) {
            bench();
        }
    }
}

fn line(name: &str, ours: f64, peer: f64) {
    println!("{name} {ours:.1} {peer:.1} {:.2}", ours / peer);
}

/// Times two things in turns, so that both see the same load. Gives both medians in microseconds.
fn in_turns(rounds: usize, mut ours: impl FnMut(), mut peer: impl FnMut()) -> (f64, f64) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.0.push(microseconds(&mut ours));
        times.1.push(microseconds(&mut peer));
    }
    (median(times.0), median(times.1))
}

fn microseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
