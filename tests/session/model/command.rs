//! The commands of random histories, and the small random numbers that choose them.

use serde_json::json;
use session::{FailureClass, WakeCommit, WakeEnding, WakePriority};

use crate::fixture::{directive, ending};

/// A generator that is the same everywhere (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What may happen. Sessions, workers, inputs and requests are numbers; many name nothing, or something that is over.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Message {
        session: usize,
    },
    Interrupt {
        session: usize,
    },
    /// An input that was sent before, again; `changed` says something else under the same id.
    Repeat {
        session: usize,
        input: usize,
        changed: bool,
    },
    Result {
        session: usize,
        request: usize,
        forged: bool,
    },
    QueueWake {
        session: usize,
        wake: Wish,
    },
    Terminate {
        session: usize,
    },
    Claim {
        worker: usize,
    },
    ClaimNamed {
        worker: usize,
        session: usize,
    },
    Renew {
        worker: usize,
    },
    Commit {
        worker: usize,
        end: End,
    },
    /// The worker forgets everything and connects anew.
    Crash {
        worker: usize,
    },
    Pass {
        milliseconds: i64,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) delay_seconds: u64,
    pub(crate) key: Option<usize>,
    pub(crate) priority: WakePriority,
}

#[derive(Debug, Clone)]
pub(crate) enum End {
    Directive { goes_on: bool, wakes: Vec<Wish>, tools: Vec<Option<u64>> },
    Transient,
    Permanent,
    Malformed,
    Interrupted,
}

pub(crate) fn command(random: &mut Random) -> Command {
    let session = random.below(2);
    let worker = random.below(3);
    match random.below(100) {
        0..20 => Command::Message { session },
        20..24 => Command::Interrupt { session },
        24..29 => Command::Repeat { session, input: random.below(8), changed: random.chance(30) },
        29..41 => Command::Result { session, request: random.below(5), forged: random.chance(15) },
        41..45 => Command::QueueWake { session, wake: wish(random) },
        45..46 => Command::Terminate { session },
        46..62 => Command::Claim { worker },
        62..65 => Command::ClaimNamed { worker, session },
        65..68 => Command::Renew { worker },
        68..86 => Command::Commit { worker, end: end(random) },
        86..90 => Command::Crash { worker },
        _ => Command::Pass { milliseconds: [1, 900, 5_000, 61_000, 400_000][random.below(5)] },
    }
}

fn end(random: &mut Random) -> End {
    match random.below(100) {
        0..12 => End::Transient,
        12..16 => End::Permanent,
        16..22 => End::Malformed,
        22..30 => End::Interrupted,
        _ => {
            let wakes = (0..random.below(3)).map(|_| wish(random)).collect();
            let count = if random.chance(40) { 1 + random.below(2) } else { 0 };
            let tools = (0..count).map(|_| random.chance(40).then_some(5)).collect();
            End::Directive { goes_on: random.chance(40), wakes, tools }
        }
    }
}

fn wish(random: &mut Random) -> Wish {
    Wish {
        delay_seconds: [1, 5, 60][random.below(3)],
        key: random.chance(50).then(|| random.below(2)),
        priority: WakePriority::ALL[random.below(3)],
    }
}

/// What a worker commits for this end.
pub(crate) fn commit_of(end: &End) -> WakeCommit {
    ending(match end {
        End::Transient => WakeEnding::Failed { class: FailureClass::Transient, message: "t".to_owned() },
        End::Permanent => WakeEnding::Failed { class: FailureClass::Permanent, message: "p".to_owned() },
        End::Malformed => WakeEnding::Malformed { error: "m".to_owned(), excerpt: String::new() },
        End::Interrupted => WakeEnding::Interrupted,
        End::Directive { goes_on, wakes, tools } => {
            let wakes: Vec<_> = wakes
                .iter()
                .map(|wish| {
                    json!({"reason": "r", "delay_seconds": wish.delay_seconds,
                           "dedupe_key": wish.key.map(|key| format!("key {key}")), "priority": wish.priority})
                })
                .collect();
            let tools: Vec<_> = tools
                .iter()
                .map(|expires| json!({"name": "tool", "input": {}, "expires_seconds": expires}))
                .collect();
            let outcome = if *goes_on { "continue" } else { "sleep" };
            WakeEnding::Directive(directive(&json!({"response": "ok", "summary": "s", "outcome": outcome,
                                                "queued_wakes": wakes, "custom_tools": tools})))
        }
    })
}
