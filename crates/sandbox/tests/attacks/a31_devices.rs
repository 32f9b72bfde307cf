//! Opens the host's memory and disks, or makes nodes for them.

use super::{Attack, Cell};
use crate::world::{Who, World, shell};

pub(crate) const ATTACK: Attack = Attack { number: 31, name: "devices", held, works_without_layer };

fn held(world: &World) -> Cell {
    let sandbox = world.start(world.spec());
    let script = "for f in /dev/mem /dev/kmem /dev/port /dev/vda /dev/sda /dev/nvme0n1 /dev/kvm /dev/fuse /dev/net/tun \
                  /proc/kcore /dev/kmsg; do head -c 1 $f && echo read $f; done 2>/dev/null; \
                  mknod /tmp/disk b 254 0 2>/dev/null && echo made; mknod /tmp/null c 1 3 2>/dev/null && echo made; true";
    assert_eq!(shell(&sandbox, script).stdout, "");
    let listed = shell(&sandbox, "ls /dev | tr '\\n' ' '");
    assert_eq!(listed.stdout, "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ");
    sandbox.close().unwrap();
    Cell::Yes
}

fn works_without_layer(world: &World) -> Cell {
    if world.who == Who::User {
        return Cell::Reason("plain permissions keep an ordinary user from them");
    }
    let disks = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/kmsg"];
    let opened = disks.iter().any(|disk| std::fs::File::open(disk).is_ok());
    if opened { Cell::Yes } else { Cell::Reason("this machine shows root no disk") }
}
