//! Distinguishes the runtime's requests to the model gateway from those of other programs inside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::identity::ProcIdentifier;
use model::gateway::CheckClient;
use tokio::sync::watch;

/// How long to wait for the runtime's pid: its first request may come before the runner knows the pid.
const PID_TIMEOUT: Duration = Duration::from_secs(5);

pub fn check_client(root: u32, runtime: watch::Receiver<Option<i32>>) -> CheckClient {
    let identifier = ProcIdentifier::new(root);
    Arc::new(move |peer, local| check(&identifier, &runtime, peer, local))
}

fn check(
    identifier: &ProcIdentifier,
    runtime: &watch::Receiver<Option<i32>>,
    peer: SocketAddr,
    local: SocketAddr,
) -> Result<(), String> {
    let owners = identifier.owners(peer, local).map_err(|error| format!("an unknown program ({error})"))?;
    let deadline = Instant::now() + PID_TIMEOUT;
    while runtime.borrow().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let expected = *runtime.borrow();
    let own = owners.iter().find(|owner| expected.is_some() && pid_inside(owner.pid) == expected);
    // A process that the runtime has just forked holds its sockets too, until it executes another program.
    let other = owners.iter().find(|owner| own.is_none_or(|own| own.path != owner.path));
    other.map_or(Ok(()), |other| Err(other.path.clone()))
}

/// The pid of a process as the innermost sandbox sees it.
fn pid_inside(pid: u32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    pids.split_whitespace().last()?.parse().ok()
}
