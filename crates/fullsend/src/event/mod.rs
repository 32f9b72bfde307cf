//! What happens in a run, as facts in the order they happened. The lowest module: everything may use it.

pub mod clock;
