//! One sign of an injection in a text.

use std::ops::Range;

use super::signal::SignalFamily;

/// One sign in a text.
#[derive(Debug, Clone)]
pub(crate) struct Sign {
    pub(crate) family: SignalFamily,
    pub(crate) weight: u32,
    /// Which row of the tables; the same sign twice counts little more than once.
    pub(crate) row: usize,
    pub(crate) range: Range<usize>,
}
