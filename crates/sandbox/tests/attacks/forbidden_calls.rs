//! Forbidden system calls, each made by a process of its own inside a sandbox.

use super::{PROGRAM, leave_out};
use crate::world::{Output, World, run};
use sandbox::call_probes::{ForbiddenCall, attempt};
use sandbox::{Command, CommandExit, IsolationMechanism};
use std::process::ExitCode;

/// What the kernel answered; `None` if the call worked.
pub(crate) fn errno(world: &World, without: &[IsolationMechanism], name: &str) -> Option<i32> {
    let output = made(world, without, name);
    assert!(matches!(output.exit, CommandExit::Code(0 | 1)), "{name}: {output:?}");
    output.stdout.trim().parse().ok()
}

/// How the process ended that made the call.
pub(crate) fn exit(world: &World, without: &[IsolationMechanism], name: &str) -> CommandExit {
    made(world, without, name).exit
}

fn made(world: &World, without: &[IsolationMechanism], name: &str) -> Output {
    let mut spec = world.spec();
    spec.program = Some(PROGRAM.into());
    leave_out(&mut spec, without);
    let sandbox = world.start(spec);
    // Through a shell, so that the parent is a process that can be traced.
    let output =
        run(&sandbox, Command::new(["/bin/sh", "-c", "\"$0\" --attempt \"$1\"; exit $?", PROGRAM, name]));
    sandbox.close().unwrap();
    match output.exit {
        CommandExit::Code(code) if code > 128 => Output { exit: CommandExit::Signal(code - 128), ..output },
        _ => output,
    }
}

/// The inside: prints the error number and fails, or succeeds silently.
pub(crate) fn make(name: &str) -> ExitCode {
    let known = ForbiddenCall::ALL.into_iter().find(|known| format!("{known:?}") == name);
    let Some(known) = known else {
        println!("unknown attempt");
        return ExitCode::from(3);
    };
    match attempt(known) {
        Ok(_) => ExitCode::SUCCESS,
        Err(e) => {
            println!("{}", e.raw_os_error().unwrap_or(0));
            ExitCode::FAILURE
        }
    }
}
