//! The lease: the right of one worker to run one wake and commit its result, and the fence that refuses everyone else. Each claim gets a
//! higher fencing token than any claim before it; every write of a wake carries its token and passes `fence`.

use super::refusal::SessionRefusal;
use crate::log::id::{SessionId, WakeId};
use crate::log::state::{CurrentWake, SessionState};
use crate::log::time::Timestamp;

/// The right to run a session's wake and to commit its result, until another worker claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub session: SessionId,
    /// The same for all attempts of one wake. Use it as the idempotency key of external actions.
    pub wake: WakeId,
    /// The fencing token.
    pub token: u64,
    pub until_ms: Timestamp,
}

/// Who asks for a lease, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Unique to each start of a worker process.
    pub owner: String,
    /// How long the lease lasts unless it is renewed.
    pub lease_ms: u64,
}

/// Who holds the lease, and until when. It is stored in the session's row, not as an event, because it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHolder {
    pub owner: String,
    pub until_ms: Timestamp,
}

/// Returns the running wake if `token` is its token, else refuses. A late worker passes as long as no other worker has claimed the
/// wake; once a higher token exists, every write with this one is refused.
pub(crate) fn fence(state: &SessionState, token: u64) -> Result<&CurrentWake, SessionRefusal> {
    let held = state.running().filter(|wake| wake.token == token);
    held.ok_or(SessionRefusal::Stale { token, current: state.token })
}
