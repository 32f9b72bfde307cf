//! The other side of the kill test: a process that owns a sandbox and waits to be killed.

use crate::world::{World, shell};
use sandbox::{CopyOnWrite, Defences, FailAction, Mount, MountKind, Sandbox, SandboxSpec, StartStep};
use std::path::Path;
use std::time::Duration;

/// Made when the sandbox runs and holds processes of every bad kind.
pub(crate) const READY: &str = "ready";

/// A sandbox with a view, limits and sockets, so that every step has something to do.
pub(crate) fn full_spec(directory: &Path) -> SandboxSpec {
    let mut spec = World::spec_in(directory.join("states/victim"));
    let lower = directory.join("lower");
    std::fs::create_dir_all(&lower).unwrap();
    let view = CopyOnWrite { source: lower, edits: Vec::new(), memory_bytes: 1 << 20 };
    spec.mounts.push(Mount { target: "/view".into(), kind: MountKind::CopyOnWrite(view) });
    spec.limits.memory_bytes = Some(1 << 30);
    let address = "127.0.0.1:53".parse().unwrap();
    spec.network.sockets.push(sandbox::SocketSpec { kind: sandbox::SocketKind::Udp, address });
    spec
}

/// Starts a sandbox that stops at `step`, or one that runs, and waits.
pub(crate) fn live(directory: &Path, step: &str) -> ! {
    let mut spec = full_spec(directory);
    let step = StartStep::ALL.into_iter().find(|known| known.name() == step);
    if let Some(step) = step {
        spec.defences = Defences::failing(step, FailAction::Pause);
    }
    let sandbox = Sandbox::start(spec).unwrap();
    let hide = "setsid sh -c 'trap \"\" TERM HUP INT; echo x >/view/file; sleep 86400 & sleep 86400' </dev/null \
                >/dev/null 2>&1 & echo";
    assert!(shell(&sandbox, hide).exit.success());
    std::fs::write(directory.join(READY), "").unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
