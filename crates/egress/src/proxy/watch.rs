//! What must not leave in a message that passes in portions: placeholders that nobody replaced, and what the lookout sees.

use super::lookout::Look;
use super::refusal::Refusal;
use crate::credentials::{CredentialError, PlaceholderWatch};

pub(super) struct Watch {
    place: &'static str,
    placeholders: PlaceholderWatch,
    look: Look,
}

impl Watch {
    /// `place` is where a placeholder would be misplaced.
    pub(super) fn new(place: &'static str, look: Look) -> Self {
        Self { place, placeholders: PlaceholderWatch::default(), look }
    }

    /// Why this portion must not pass.
    pub(super) fn sees(&mut self, portion: &[u8]) -> Option<Refusal> {
        if self.placeholders.sees(portion) {
            return Some(Refusal::credential(&CredentialError::Misplaced { place: self.place }));
        }
        (self.look)(portion).map(Refusal::seen)
    }

    /// Placeholders do not reach over the borders of messages; what is looked for may.
    pub(super) fn next_message(&mut self) {
        self.placeholders = PlaceholderWatch::default();
    }
}
