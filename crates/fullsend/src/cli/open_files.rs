//! The limit on open files of this process. Every endpoint of a policy is a listening socket and every connection two more, so
//! that the usual soft limit of 1,024 is soon reached.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than a run needs; some programs make a table of as many entries.
const ENOUGH: u64 = 1 << 20;

/// Raises the soft limit as far as the hard one allows. What cannot be raised stays as it is.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if current.is_some_and(|current| current < wanted) {
        // A refusal leaves the limit that the caller gave us.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
