//! A session's bounded run: what the agent is told, what its answer means, and one commit. It knows nothing of which
//! session runs when: that is for whoever calls it.

pub mod resources;

use session::moment::{Moment, Timestamp};

/// The time of a store, with randomness of the operating system's.
pub fn moment(now: Timestamp) -> Moment {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    seed[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    Moment::new(now, seed)
}
