//! The sandbox that is measured: what a run has, every layer on.

use sandbox::{CopyOnWrite, LocalRange, Mount, MountKind, SandboxSpec, SocketKind, SocketSpec};
use std::path::{Path, PathBuf};

pub(crate) const RESOLVER: &str = "127.0.0.1:53";

/// The host's programs, a made `/etc` and a fresh home: what the peers are given too. Every layer is on.
pub(crate) fn plain(place: &Path, name: &str) -> SandboxSpec {
    let mut spec = SandboxSpec::new(place.join(name));
    let mount = |target: &str, kind| Mount { target: target.into(), kind };
    spec.mounts.push(mount("/usr", MountKind::ReadOnly { source: "/usr".into() }));
    for name in ["bin", "lib", "lib64", "sbin"] {
        let target = PathBuf::from("/").join(name);
        match std::fs::read_link(&target) {
            Ok(to) => spec.mounts.push(Mount { target, kind: MountKind::Symlink { to } }),
            Err(_) if target.exists() => {
                spec.mounts
                    .push(Mount { target: target.clone(), kind: MountKind::ReadOnly { source: target } });
            }
            Err(_) => {}
        }
    }
    for name in ["passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"] {
        let kind = MountKind::File { contents: b"x\n".to_vec(), mode: 0o444 };
        spec.mounts.push(mount(&format!("/etc/{name}"), kind));
    }
    spec.mounts
        .push(mount("/sandbox", MountKind::Temporary { size_bytes: 1 << 30, inodes: 1 << 16, mode: 0o755 }));
    spec.environment.push(("PATH".into(), "/usr/bin:/bin".into()));
    spec
}

/// The same with a view of a directory and the sockets of egress, as a run has them.
pub(crate) fn full(place: &Path, name: &str) -> SandboxSpec {
    let mut spec = plain(place, name);
    let source = place.join("directory");
    std::fs::create_dir_all(&source).unwrap();
    let view =
        CopyOnWrite { source: source.canonicalize().unwrap(), edits: Vec::new(), memory_bytes: 1 << 30 };
    spec.mounts.push(Mount { target: "/sandbox/workspace".into(), kind: MountKind::CopyOnWrite(view) });
    spec.network.local_ranges.push(LocalRange { address: "198.18.0.0".parse().unwrap(), prefix_bits: 15 });
    let sockets = [
        (SocketKind::Udp, RESOLVER),
        (SocketKind::TcpListener, RESOLVER),
        (SocketKind::TcpListener, "127.0.0.1:3128"),
        (SocketKind::TcpListener, "198.18.0.2:80"),
    ];
    spec.network.sockets = sockets
        .iter()
        .map(|(kind, address)| SocketSpec { kind: *kind, address: address.parse().unwrap() })
        .collect();
    spec
}
