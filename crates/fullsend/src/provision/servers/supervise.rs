//! The hidden command between the runner and an API server. It starts the server in its own process group, and ends the
//! server and its child processes when the server or the runner ends. It notices the end of the runner because its standard
//! input closes then.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use crate::event::exit::{Exit, NOT_STARTED, exited, signalled};
use crate::scripts::shebang;

pub const COMMAND: &str = "__server";

/// Between asking the server to end and ending it: everything must be gone within a second of the runner's end.
const GRACE: Duration = Duration::from_millis(400);

const TICK: Duration = Duration::from_millis(10);

/// How often to search for remaining children: they become ours one generation at a time.
const SWEEPS: usize = 50;

pub fn main(arguments: &[OsString]) -> ExitCode {
    let [program] = arguments else { return Exit::Usage.into() };
    // A process that leaves the server's group and loses its parent becomes our child, and is found.
    if rustix::process::set_child_subreaper(rustix::process::getpid().into()).is_err() {
        return Exit::SandboxUnavailable.into();
    }
    let runner = watch_runner();
    let child = shebang::command(Path::new(program)).stdin(Stdio::null()).process_group(0).spawn();
    let Ok(mut child) = child else { return ExitCode::from(NOT_STARTED) };
    let status = wait(&mut child, &runner);
    signal(&child, Signal::KILL);
    sweep();
    ExitCode::from(code(status))
}

/// Receives when the runner has ended or closes our standard input.
fn watch_runner() -> Receiver<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|length| length > 0) {}
        drop(sender);
    });
    receiver
}

/// Waits for the end of the server. When the runner ends first, the server gets TERM and a short grace period.
fn wait(child: &mut Child, runner: &Receiver<()>) -> Option<ExitStatus> {
    while let Err(RecvTimeoutError::Timeout) = runner.recv_timeout(TICK) {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
    }
    signal(child, Signal::TERM);
    let ticks = GRACE.as_millis() / TICK.as_millis();
    for _ in 0..ticks {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(TICK);
    }
    None
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _gone = rustix::process::kill_process_group(group, signal);
    }
}

/// Ends every process that has become a child of this one.
fn sweep() {
    for _ in 0..SWEEPS {
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let left = children();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _gone = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(TICK);
    }
}

fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name is in brackets and may hold anything; state and parent follow the last bracket.
        let mut words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        words.nth(1) == Some(own.as_str())
    };
    pids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

fn code(status: Option<ExitStatus>) -> u8 {
    let Some(status) = status else { return signalled(Signal::KILL.as_raw()) };
    status.code().map_or_else(|| signalled(status.signal().unwrap_or_default()), exited)
}
