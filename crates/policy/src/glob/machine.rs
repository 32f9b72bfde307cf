//! A pattern as a state machine over bytes, for proofs over all texts.

use std::hash::Hash;

/// Something that reads a text byte by byte and accepts it or not.
pub(super) trait Machine {
    type State: Clone + Eq + Hash;

    fn start(&self) -> Self::State;
    fn step(&self, state: &Self::State, byte: u8) -> Self::State;
    fn accepting(&self, state: &Self::State) -> bool;
    /// Whether nothing can be accepted any more.
    fn is_dead(&self, state: &Self::State) -> bool;
}
