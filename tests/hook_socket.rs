//! The guard's socket by itself: who waits for whom, and when it is closed.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use fullsend::internal::Guard;
use fullsend::internal::hook_server::HookServer;

use crate::hostile_output;
use crate::support::World;

/// The answer to a hook of this run that shows no token.
fn ask(path: &Path, guard: &Guard) -> String {
    let [runtime, _, token] = guard.hook_address().arguments();
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(format!("{runtime} {token}\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_silent_keep_nobody_waiting() {
    let world = World::with_harness();
    let guard = hostile_output::guard(&world);
    let listening = HookServer::start(&world.path("."), &guard).unwrap();
    let silent: Vec<_> = (0..5).map(|_| UnixStream::connect(listening.path()).unwrap()).collect();
    let answer = ask(listening.path(), &guard);
    assert!(answer.contains("the hook's input is not JSON"), "{answer}");
    // They have their second still.
    for mut stream in silent {
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn the_listening_ends_with_its_value() {
    let world = World::with_harness();
    let guard = hostile_output::guard(&world);
    let listening = HookServer::start(&world.path("."), &guard).unwrap();
    let first = listening.path().to_owned();
    let other = world.path("other.sock");
    std::fs::hard_link(&first, &other).unwrap();
    assert!(!ask(&other, &guard).is_empty());
    drop(listening);
    assert!(!first.exists());
    // The last thread that listened takes the socket with it.
    let patience = Instant::now() + Duration::from_secs(10);
    while UnixStream::connect(&other).is_ok() {
        assert!(Instant::now() < patience, "somebody listens still");
        std::thread::sleep(Duration::from_millis(10));
    }
}
