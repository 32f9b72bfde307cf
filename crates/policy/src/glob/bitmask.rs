//! A short pattern as bit masks: one bit for each position, so that all open positions move in one go.

use super::machine::Machine;
use super::parse::ByteSet;

/// The bit for the place before the first byte.
const START: usize = 63;

#[derive(Clone, Debug)]
pub(super) struct BitmaskAutomaton {
    /// The positions that may come after each position.
    next: [u64; 64],
    /// The positions that read each byte.
    reading: Box<[u64; 256]>,
    accepting: u64,
}

impl BitmaskAutomaton {
    /// `None` when there are too many positions.
    pub(super) fn new(
        reads: &[ByteSet],
        next: &[Vec<u16>],
        first: &[u16],
        accepts: &[bool],
        accepts_empty: bool,
    ) -> Option<Self> {
        if reads.len() > START {
            return None;
        }
        let mask = |positions: &[u16]| positions.iter().fold(0u64, |mask, position| mask | 1 << position);
        let mut bitmask = Self { next: [0; 64], reading: Box::new([0; 256]), accepting: 0 };
        bitmask.next[START] = mask(first);
        bitmask.accepting = u64::from(accepts_empty) << START;
        for (position, set) in reads.iter().enumerate() {
            bitmask.next[position] = mask(&next[position]);
            bitmask.accepting |= u64::from(accepts[position]) << position;
            for byte in set.bytes() {
                bitmask.reading[usize::from(byte)] |= 1 << position;
            }
        }
        Some(bitmask)
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let mut state = self.start();
        for byte in text {
            state = self.step(&state, *byte);
            if state == 0 {
                return false;
            }
        }
        self.accepting(&state)
    }
}

impl Machine for BitmaskAutomaton {
    type State = u64;

    fn start(&self) -> u64 {
        1 << START
    }

    fn step(&self, state: &u64, byte: u8) -> u64 {
        let mut open = *state;
        let mut after = 0;
        while open != 0 {
            after |= self.next[open.trailing_zeros() as usize];
            open &= open - 1;
        }
        after & self.reading[usize::from(byte)]
    }

    fn accepting(&self, state: &u64) -> bool {
        state & self.accepting != 0
    }

    fn is_dead(&self, state: &u64) -> bool {
        *state == 0
    }
}
