//! Random histories over a real store and over a model of sessions that is written down naively: lists and flags, no log, no
//! fold. After every command both must tell the same. A failure names the seed that repeats it.

mod command;
mod player;
mod reference;

use session::limits::Limits;

use self::player::Player;
use crate::suite::{Place, on_sqlite_with};

const COMMANDS_PER_HISTORY: usize = 40;

/// Small bounds, so that short histories reach all of them.
fn limits() -> Limits {
    Limits {
        pending_inputs: 6,
        inputs_per_wake: 3,
        queued_wakes: 3,
        open_requests: 3,
        continues: 2,
        attempts: 3,
        ..Limits::default()
    }
}

pub(crate) fn play(place: &Place, histories: std::ops::Range<u64>) {
    for seed in histories {
        let mut player = Player::new(place, seed, limits());
        for _ in 0..COMMANDS_PER_HISTORY {
            player.step();
        }
        player.finish();
    }
}

#[test]
fn sqlite_tells_the_same_as_the_model() {
    on_sqlite_with(limits(), |place| play(place, 0..2_000));
}
