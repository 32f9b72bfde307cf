//! SIGKILL at every step of a write of a real process, round after round on one file, checked by a reader that knows
//! only the acknowledged appends. Not a time: `ours` is how many appends were found again, `peer` how many were
//! acknowledged. Run with `cargo bench -p session --bench killed [-- ROUNDS]`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../tests/session/fixture.rs"]
#[expect(dead_code, reason = "a bench needs less than the tests")]
mod fixture;
#[path = "../tests/session/kill.rs"]
mod kill;

const ROUNDS: usize = 500;

fn main() {
    if kill::child() {
        return;
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let rounds = wanted.map_or(ROUNDS, |text| text.parse().unwrap());
    // If an acknowledged append is missing, the bench has ended before this line.
    let acknowledged = kill::rounds(rounds, &[]);
    println!("killed-{rounds}-rounds {acknowledged} {acknowledged} 1.00");
}
