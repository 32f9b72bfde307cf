//! Random histories over a real store and over a model of sessions that is written down naively: lists and flags, no log, no
//! fold. After every command both must tell the same. A failure names the seed that repeats it.

mod command;
mod player;
mod reference;

use self::player::Player;
use crate::suite::{Place, on_postgres_with, on_sqlite_with};
use session::SessionLimits;

const COMMANDS_PER_HISTORY: usize = 40;

/// Small bounds, so that short histories reach all of them.
fn limits() -> SessionLimits {
    SessionLimits {
        pending_inputs: 6,
        inputs_per_wake: 3,
        queued_wakes: 3,
        open_requests: 3,
        continues: 2,
        attempts: 3,
        retry_for_ms: 0,
        ..SessionLimits::default()
    }
}

pub(crate) fn play(place: &Place, histories: std::ops::Range<u64>) {
    let mut connections = (0..3).map(|_| place.open()).collect();
    for seed in histories {
        let mut player = Player::new(place, connections, seed, limits());
        for _ in 0..COMMANDS_PER_HISTORY {
            player.step();
        }
        connections = player.finish();
    }
}

/// How many histories to play, where somebody wants more than the usual ones.
fn histories(usual: u64) -> u64 {
    std::env::var("FULLSEND_TEST_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn sqlite_tells_the_same_as_the_model() {
    let share = histories(600) / 4;
    std::thread::scope(|scope| {
        for part in 0..4 {
            let seeds = part * share..(part + 1) * share;
            scope.spawn(move || on_sqlite_with(limits(), |place| play(place, seeds)));
        }
    });
}

#[test]
fn postgres_tells_the_same_as_the_model() {
    on_postgres_with("postgres_tells_the_same_as_the_model", limits(), |place| {
        play(place, 0..histories(60));
    });
}
