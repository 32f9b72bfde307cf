//! Looks for a mode in which the filter or no_new_privs is left out. [OpenShell#578]

use super::{Attack, Cell, leave_out};
use crate::world::{World, shell};
use sandbox::{IsolationMechanism, SandboxSpec, SocketKind, SocketSpec};

pub(crate) const ATTACK: Attack =
    Attack { number: 24, name: "a mode without seccomp", held, works_without_layer };

fn flags(world: &World, change: impl FnOnce(&mut SandboxSpec)) -> String {
    let mut spec = world.spec();
    change(&mut spec);
    let sandbox = world.start(spec);
    let output = shell(&sandbox, "grep -h -e ^NoNewPrivs -e ^Seccomp: -e ^Cap /proc/self/status");
    sandbox.close().unwrap();
    output.stdout.split_whitespace().skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

fn held(world: &World) -> Cell {
    let none = "0000000000000000";
    let expected = format!("{none} {none} {none} {none} {none} 1 2");
    let address = "127.0.0.1:80".parse().unwrap();
    assert_eq!(flags(world, |_| {}), expected);
    let socket = SocketSpec { kind: SocketKind::TcpListener, address };
    assert_eq!(flags(world, |spec| spec.network.sockets = vec![socket]), expected);
    assert_eq!(flags(world, |spec| leave_out(spec, &[IsolationMechanism::NetworkNamespace])), expected);
    assert_eq!(flags(world, |spec| leave_out(spec, &[IsolationMechanism::Landlock])), expected);
    assert_eq!(flags(world, |spec| spec.identity = sandbox::SandboxIdentity { uid: 0, gid: 0 }), expected);
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    Cell::bit(Some(flags(world, |spec| leave_out(spec, &[IsolationMechanism::Seccomp])).ends_with(" 1 0")))
}
