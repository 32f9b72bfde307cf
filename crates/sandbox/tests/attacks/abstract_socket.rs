//! A service of the host on an abstract Unix socket, and a try to reach it from inside.

use super::PROGRAM;
use crate::world::run;
use sandbox::{Command, Sandbox};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::ExitCode;

/// Whether a process inside can connect. The sandbox must have our program in it.
pub(crate) fn reached(sandbox: &Sandbox) -> bool {
    let name = format!("sandbox-test-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let output = run(sandbox, Command::new([PROGRAM, "--abstract", &name]));
    drop(listener);
    output.exit.success()
}

/// The inside.
pub(crate) fn connect(name: &str) -> ExitCode {
    let connected =
        SocketAddr::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address));
    if connected.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
