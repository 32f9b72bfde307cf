//! Traces, reads and signals other processes: its neighbours inside and those of the host. [AutoProver#73]

use super::{Attack, Cell, forbidden_calls};
use crate::world::{World, shell};
use sandbox::IsolationMechanism;

pub(crate) const ATTACK: Attack = Attack { number: 23, name: "other processes", held, works_without_layer };

fn held(world: &World) -> Cell {
    for attempt in ["PtraceParent", "PtracePidOne", "ProcessVmReadv", "PidfdGetfd"] {
        assert_eq!(forbidden_calls::errno(world, &[], attempt), Some(libc::EPERM), "{attempt}");
    }
    let sandbox = world.start(world.spec());
    let host = std::process::id();
    let output = shell(&sandbox, &format!("kill -0 {host}; kill -9 {host}; kill -9 -1; cat /proc/1/mem"));
    assert!(!output.exit.success());
    // It may kill everything inside except PID 1, and nothing outside.
    assert!(shell(&sandbox, "true").exit.success());
    sandbox.close().unwrap();
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(forbidden_calls::errno(world, &[IsolationMechanism::Seccomp], "PtraceParent").is_none()))
}
