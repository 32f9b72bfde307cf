//! A command with everything that it starts. A small process (the adopter) runs between PID 1 and the command and
//! adopts the command's orphans, so that the whole tree can be found and killed, however it forked. If the adopter is
//! killed, PID 1 kills the processes that it had adopted.

use crate::command_exit::CommandExit;
use crate::sys;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

/// How often a tree is checked again while it dies, and how long PID 1 waits in between.
const KILL_ROUNDS: u32 = 200;
const KILL_PAUSE: Duration = Duration::from_millis(1);

/// A tree that PID 1 knows.
pub(super) struct CommandTree {
    pub(super) id: u64,
    pub(super) adopter: i32,
    /// The command itself; `None` when its end was reported.
    pub(super) command: Option<i32>,
    /// Where the adopter reports the command's end.
    reports: OwnedFd,
}

/// The reports of an adopter, in this order: one of the first two, then the end.
#[derive(Clone, Copy)]
enum AdopterReport {
    Started(i32),
    NotStarted(i32),
    Exited(i32),
    Killed(i32),
}

const REPORT_BYTES: usize = 8;

impl AdopterReport {
    fn encode(self) -> [u8; REPORT_BYTES] {
        let (kind, value) = match self {
            Self::Started(pid) => (0_i32, pid),
            Self::NotStarted(errno) => (1, errno),
            Self::Exited(code) => (2, code),
            Self::Killed(signal) => (3, signal),
        };
        let mut bytes = [0; REPORT_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let [a, b, c, d, rest @ ..] = bytes;
        let value = i32::from_le_bytes(rest);
        match i32::from_le_bytes([a, b, c, d]) {
            0 => Some(Self::Started(value)),
            1 => Some(Self::NotStarted(value)),
            2 => Some(Self::Exited(value)),
            3 => Some(Self::Killed(value)),
            _ => None,
        }
    }

    fn of(status: WaitStatus) -> Self {
        match status.terminating_signal() {
            Some(signal) => Self::Killed(signal),
            None => Self::Exited(status.exit_status().unwrap_or(-1)),
        }
    }
}

impl CommandTree {
    /// Forks the adopter, which starts the command. `None`: the command ran, and killed its adopter before that could say so.
    pub(super) fn start(id: u64, command: Command, terminal: bool) -> io::Result<Option<Self>> {
        let (reports, writer) = io::pipe()?;
        let Some(adopter) = sys::fork()? else {
            drop(reports);
            adopt(command, terminal, &OwnedFd::from(writer));
        };
        let reports = OwnedFd::from(reports);
        drop(writer);
        // Its copies of the command's streams belong to the adopter alone.
        drop(command);
        match read_report(&reports)? {
            Some(AdopterReport::Started(pid)) => {
                rustix::io::ioctl_fionbio(&reports, true)?;
                Ok(Some(Self { id, adopter, command: Some(pid), reports }))
            }
            Some(AdopterReport::NotStarted(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(AdopterReport::Exited(_) | AdopterReport::Killed(_)) => {
                Err(io::Error::from_raw_os_error(libc::EPROTO))
            }
            None => Ok(None),
        }
    }

    pub(super) fn reports(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// How the command ended, once.
    pub(super) fn ended(&mut self) -> Option<CommandExit> {
        self.command?;
        let exit = match read_report(&self.reports) {
            Ok(Some(AdopterReport::Exited(code))) => CommandExit::Code(code),
            Ok(Some(AdopterReport::Killed(signal))) => CommandExit::Signal(signal),
            _ => return None,
        };
        self.command = None;
        Some(exit)
    }

    /// Kills everything below the adopter, which then ends by itself.
    pub(super) fn kill(&self) {
        kill_below(&BTreeSet::from([self.adopter]), &BTreeSet::new());
    }
}

/// `None` at the end, or when there is nothing yet.
fn read_report(from: &OwnedFd) -> io::Result<Option<AdopterReport>> {
    let mut bytes = [0; REPORT_BYTES];
    loop {
        match rustix::io::read(from, &mut bytes) {
            Ok(REPORT_BYTES) => return Ok(AdopterReport::decode(bytes)),
            Ok(_) | Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The adopter: starts the command, reports how it ended, and stays until everything that it adopted has ended.
fn adopt(mut command: Command, terminal: bool, writer: &OwnedFd) -> ! {
    // Without a reader the report is lost, but then the sandbox is ending anyway.
    let report = |report: AdopterReport| {
        let _ = rustix::io::write(writer, &report.encode());
    };
    let spawned = rustix::process::set_child_subreaper(Some(Pid::INIT))
        .map_err(io::Error::from)
        .and_then(|()| sys::spawn_in_session(&mut command, terminal));
    let main = match spawned {
        Ok(child) => i32::try_from(child.id()).unwrap_or(-1),
        Err(error) => {
            report(AdopterReport::NotStarted(error.raw_os_error().unwrap_or(libc::EIO)));
            sys::exit_now(0)
        }
    };
    report(AdopterReport::Started(main));
    // Nothing of PID 1's stays open here: the reports go through descriptor 0 from now on. The values that held the
    // others are not dropped, because this process never returns.
    if rustix::stdio::dup2_stdin(writer).is_err() || sys::close_from(3).is_err() {
        sys::exit_now(1);
    }
    std::mem::forget(command);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == main => {
                let bytes = AdopterReport::of(status).encode();
                let _ = rustix::io::write(rustix::stdio::stdin(), &bytes);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => sys::exit_now(0),
        }
    }
}

/// Kills the descendants of `roots`, except the roots and the descendants of `spared`. They are stopped first: a
/// stopped process starts nothing new.
pub(super) fn kill_below(roots: &BTreeSet<i32>, spared: &BTreeSet<i32>) {
    for _ in 0..KILL_ROUNDS {
        let mut stopped = BTreeSet::new();
        loop {
            let new: Vec<i32> =
                below(roots, spared).into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                signal(pid, Signal::STOP);
                stopped.insert(pid);
            }
        }
        if stopped.is_empty() {
            return;
        }
        for pid in stopped {
            signal(pid, Signal::KILL);
        }
        std::thread::sleep(KILL_PAUSE);
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It fails only when the process has just ended.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The living descendants of `roots`, as `/proc` shows them now.
fn below(roots: &BTreeSet<i32>, spared: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let text = std::fs::read(entry.path().join("stat")).unwrap_or_default();
        if let Some((parent, is_alive)) = parent_of(&text) {
            children.entry(parent).or_default().push((pid, is_alive));
        }
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<i32> = roots.iter().copied().collect();
    while let Some(parent) = open.pop() {
        for (pid, is_alive) in children.get(&parent).into_iter().flatten() {
            if spared.contains(pid) {
                continue;
            }
            open.push(*pid);
            if *is_alive {
                found.insert(*pid);
            }
        }
    }
    found
}

/// The parent in a line of `/proc/PID/stat`, and whether the process still runs. Its name may hold anything, even `)`.
fn parent_of(stat: &[u8]) -> Option<(i32, bool)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut words = rest.split_whitespace();
    let state = words.next()?;
    Some((words.next()?.parse().ok()?, !matches!(state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_the_process_calls_itself() {
        for (line, expected) in [
            ("7 (sh) S 3 7 7 0", Some((3, true))),
            ("7 (a) S 1 ) Z 3 7", Some((3, false))),
            ("7 ()) R 1 0", Some((1, true))),
            ("7 (sh", None),
            ("", None),
        ] {
            assert_eq!(parent_of(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn reports_are_read_as_they_were_written() {
        let (reader, writer) = io::pipe().unwrap();
        let reader = OwnedFd::from(reader);
        rustix::io::write(&writer, &AdopterReport::Killed(9).encode()).unwrap();
        let read = read_report(&reader).unwrap();
        assert!(matches!(read, Some(AdopterReport::Killed(9))));
        drop(writer);
        assert!(read_report(&reader).unwrap().is_none());
    }
}
