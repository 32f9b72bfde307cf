//! The processes under a pid, as the host sees them.

use rustix::process::Pid;
use std::fs;

/// `pid` and its descendants, as far as they can still be seen; at most about `max_processes`.
pub(crate) fn processes_under(pid: Pid, max_processes: usize) -> Vec<i32> {
    let mut found = vec![pid.as_raw_nonzero().get()];
    let mut next = 0;
    while let (Some(parent), true) = (found.get(next).copied(), found.len() < max_processes) {
        next += 1;
        // Each thread has its own children.
        for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
    }
    found
}
