//! The identity on the host to which the sandbox's user is mapped: the caller's own for an ordinary user, a fresh
//! unprivileged one for root, so that nothing inside is ever root on the host.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering};

/// How the uid and gid inside are mapped to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mapping {
    /// To the caller's own.
    Caller,
    /// To this id, which no user or service has.
    Fresh { id: u32 },
}

/// Where fresh identities start if every number may be used: above every range that distributions hand out.
const FIRST_FRESH: u32 = 0x7000_0000;
/// As many sandboxes as one process may have at once before numbers repeat.
const PER_PROCESS: u32 = 64;

static STARTED: AtomicU32 = AtomicU32::new(0);

/// The mapping for the next sandbox of this process.
pub(crate) fn choose() -> Mapping {
    if !rustix::process::geteuid().is_root() {
        return Mapping::Caller;
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let groups = std::fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    let number = STARTED.fetch_add(1, Ordering::Relaxed) % PER_PROCESS;
    let seed = std::process::id().wrapping_mul(PER_PROCESS).wrapping_add(number);
    match (fresh(&map, seed), fresh(&groups, seed)) {
        (Some(uid), Some(gid)) if uid == gid => Mapping::Fresh { id: uid },
        // Root of a container that has no other identities: they cannot be mapped to anything but itself.
        _ => Mapping::Caller,
    }
}

/// An identity out of `map` (lines of "inside outside count") that no user of this machine has.
fn fresh(map: &str, seed: u32) -> Option<u32> {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u32>().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(first)), Some(Some(_)), Some(Some(count))) => Some((first, count)),
            _ => None,
        }
    });
    let (first, count) = ranges.max_by_key(|(_, count)| *count)?;
    let end = first.checked_add(count)?;
    if first <= FIRST_FRESH && end > FIRST_FRESH + 0x0FFF_FFFF {
        return Some(FIRST_FRESH + seed % 0x0FFF_FFFF);
    }
    // A container's usual 65536: the upper half is where no package puts a user.
    let half = count / 2;
    if half < 1024 { None } else { Some(end - 1 - seed % half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_identities_come_from_what_is_mapped() {
        assert_eq!(fresh("         0          0 4294967295\n", 5), Some(0x7000_0005));
        assert_eq!(fresh("0 100000 65536\n", 5), Some(65_530));
        assert_eq!(fresh("0 1000 1\n1 100000 65536\n", 0), Some(65_536));
        assert_eq!(fresh("0 1000 1\n", 0), None);
        assert_eq!(fresh("", 0), None);
        assert!(fresh("0 100000 65536\n", u32::MAX).is_some_and(|id| id > 32_000));
    }
}
