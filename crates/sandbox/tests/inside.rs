//! What this binary does when it is started inside a sandbox by a test.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, ExitCode};

/// Reads a file in this very process and prints it.
pub(crate) fn read(path: &str) -> ExitCode {
    match std::fs::read(path) {
        Ok(text) => {
            std::io::stdout().write_all(&text).unwrap();
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs a copy of `program` that exists in memory only.
pub(crate) fn run_from_memory(program: &str, argument: &str) -> ExitCode {
    let flags = rustix::fs::MemfdFlags::empty();
    let memory = rustix::fs::memfd_create("program", flags).unwrap();
    let mut file = std::fs::File::from(memory);
    file.write_all(&std::fs::read(program).unwrap()).unwrap();
    let status = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd())).arg(argument).status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
