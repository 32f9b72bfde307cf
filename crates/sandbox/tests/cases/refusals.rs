//! Specs that cannot be honoured: the error names the step and the thing, and nothing is left behind.

use crate::runner::Case;
use crate::world::{World, read_only};
use sandbox::{Mount, MountKind, Sandbox, SandboxSpec, SocketKind, SocketSpec, StartError, StartStep};
use std::path::Path;

pub(crate) const CASES: &[Case] = &[
    Case { name: "a_wrong_spec_is_refused_before_anything_happens", run: wrong_specs },
    Case { name: "a_source_that_is_missing_or_a_symlink_is_refused", run: sources },
    Case { name: "a_failing_socket_is_named", run: sockets },
    Case { name: "a_program_that_is_no_init_is_an_error", run: not_an_init },
];

fn refused(spec: SandboxSpec, expected: StartStep, on: &str) {
    let state = spec.state_directory.clone();
    match Sandbox::start(spec) {
        Err(StartError::Step { step, on: found, .. }) => {
            assert_eq!(step, expected);
            assert!(found.contains(on), "{found}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!state.exists());
}

fn wrong_specs(world: &World) {
    for target in ["relative", "/a/../b", "/a//b", "/a/", "/a/./b", "/"] {
        let mut spec = world.spec();
        spec.mounts.push(read_only(Path::new("/usr"), Path::new(target)));
        refused(spec, StartStep::CheckSpec, target);
    }
    let mut twice = world.spec();
    twice.mounts.push(read_only(Path::new("/usr"), Path::new("/usr")));
    refused(twice, StartStep::CheckSpec, "/usr");
}

fn sources(world: &World) {
    let mut missing = world.spec();
    missing.mounts.push(read_only(&world.directory.join("missing"), Path::new("/x")));
    refused(missing, StartStep::OpenSources, "missing");
    let link = world.directory.join("link");
    std::os::unix::fs::symlink("/usr", &link).unwrap();
    let mut linked = world.spec();
    linked.mounts.push(read_only(&link, Path::new("/x")));
    refused(linked, StartStep::OpenSources, "link");
    let mut through_link = world.spec();
    through_link.mounts.push(read_only(&link.join("bin"), Path::new("/x")));
    refused(through_link, StartStep::OpenSources, "link/bin");
    let mut inside = world.spec();
    let file = MountKind::File { contents: Vec::new(), mode: 0o644 };
    inside.mounts.push(Mount { target: "/usr/not-there/file".into(), kind: file });
    refused(inside, StartStep::Mounts, "/usr/not-there/file");
}

fn sockets(world: &World) {
    let mut spec = world.spec();
    let socket = SocketSpec { kind: SocketKind::TcpListener, address: "127.0.0.1:7".parse().unwrap() };
    spec.network.sockets = vec![socket, socket];
    refused(spec, StartStep::Sockets, "127.0.0.1:7");
    let mut foreign = world.spec();
    foreign.network.sockets = vec![SocketSpec { address: "192.0.2.1:7".parse().unwrap(), ..socket }];
    refused(foreign, StartStep::Sockets, "192.0.2.1:7");
}

fn not_an_init(world: &World) {
    let mut spec = world.spec();
    spec.init.path = "/bin/true".into();
    let state = spec.state_directory.clone();
    let error = Sandbox::start(spec).unwrap_err();
    assert!(
        matches!(error, StartError::InitDied { .. } | StartError::Step { step: StartStep::Handshake, .. }),
        "{error}"
    );
    assert!(!state.exists());
}
