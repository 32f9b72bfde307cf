//! Writes the switches by which the kernel of the host runs programs.

use super::{Attack, Cell};
use crate::world::{Who, World, shell};

pub(crate) const ATTACK: Attack =
    Attack { number: 30, name: "switches of the host", held, works_without_layer };

const SWITCHES: [&str; 6] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/fs/binfmt_misc/register",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/release_agent",
    "/proc/sysrq-trigger",
];

fn held(world: &World) -> Cell {
    let mut spec = world.spec();
    // As root of its own user namespace, the most rights that it can get.
    spec.identity = sandbox::SandboxIdentity { uid: 0, gid: 0 };
    let sandbox = world.start(spec);
    for switch in SWITCHES {
        let output = shell(&sandbox, &format!("exec 3<>{switch}"));
        assert!(!output.exit.success(), "{switch}");
    }
    sandbox.close().unwrap();
    Cell::Yes
}

/// Only opened, never written: this is the host.
fn works_without_layer(world: &World) -> Cell {
    if world.who == Who::User {
        return Cell::Reason("plain permissions keep an ordinary user from them");
    }
    let opened = std::fs::OpenOptions::new().write(true).open(SWITCHES[0]);
    if opened.is_ok() { Cell::Yes } else { Cell::Reason("this machine has no writable sysctls") }
}
