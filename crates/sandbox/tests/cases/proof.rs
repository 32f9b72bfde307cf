//! The proof at the start: it passes where it must, is quick, and fails where a layer is missing.

use crate::runner::Case;
use crate::world::World;
use sandbox::{Mount, MountKind, ProbeName, ProofError, ProofSpec};
use std::net::TcpListener;
use std::time::{Duration, Instant};

pub(crate) const CASES: &[Case] = &[
    Case { name: "the_proof_holds_and_is_quick", run: holds },
    Case { name: "the_proof_sees_a_secret_that_is_mounted", run: sees_a_secret },
    Case { name: "the_proof_sees_an_address_that_answers", run: sees_an_address },
    Case { name: "the_proof_sees_what_does_not_work", run: sees_what_does_not_work },
];

fn holds(world: &World) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = world.start(world.spec());
    let spec = ProofSpec {
        unreachable: vec![listener.local_addr().unwrap(), "192.0.2.1:443".parse().unwrap()],
        unresolvable: Some(("127.0.0.1:53".parse().unwrap(), "example.invalid".to_owned())),
        readable: Some("/usr/bin/env".into()),
        writable: Some("/tmp".into()),
    };
    let begun = Instant::now();
    let proof = sandbox.prove(&spec).unwrap_or_else(|e| panic!("{e}"));
    let took = begun.elapsed();
    assert_eq!(proof.results.len(), 13);
    // The aim is 3 ms on a quiet machine; this bound only catches a proof that waits for something.
    assert!(took < Duration::from_millis(100), "{took:?}");
    sandbox.close().unwrap();
}

fn broken(outcome: Result<sandbox::Proof, ProofError>) -> Vec<ProbeName> {
    match outcome {
        Err(ProofError::NotHeld { proof }) => {
            proof.results.iter().filter(|r| !r.held).map(|r| r.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn sees_a_secret(world: &World) {
    let mut spec = world.spec();
    let target = world.directory.clone();
    spec.mounts.push(Mount { target: target.clone(), kind: MountKind::ReadWrite { source: target } });
    let Some(sandbox) = world.start_or_skip(spec) else { return };
    let broken = broken(sandbox.prove(&ProofSpec::default()));
    assert_eq!(broken, [ProbeName::ReadHostSecret, ProbeName::WriteOutside]);
    sandbox.close().unwrap();
}

fn sees_an_address(world: &World) {
    let mut spec = world.spec();
    let address = "127.0.0.1:8080".parse().unwrap();
    spec.network.sockets.push(sandbox::SocketSpec { kind: sandbox::SocketKind::TcpListener, address });
    let sandbox = world.start(spec);
    let proof = ProofSpec { unreachable: vec![address], ..ProofSpec::default() };
    assert_eq!(broken(sandbox.prove(&proof)), [ProbeName::ConnectDirectly]);
    sandbox.close().unwrap();
}

fn sees_what_does_not_work(world: &World) {
    let sandbox = world.start(world.spec());
    let proof = ProofSpec {
        readable: Some("/etc/passwd".into()),
        writable: Some("/usr".into()),
        ..ProofSpec::default()
    };
    assert_eq!(broken(sandbox.prove(&proof)), [ProbeName::ReadListedFile, ProbeName::WriteListedDirectory]);
    sandbox.close().unwrap();
}
