//! Scripts on the host: pre-, post- and validation scripts. Each gets an explicit environment, its own process group, bounded
//! output and a time limit; then TERM, grace and KILL go to the whole group.

pub(crate) mod memory;
pub(crate) mod shebang;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cancel::{Cancel, CancelReason};
use crate::event::exit::signalled;

/// The time limit of a script.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(5);

/// How often the deadline and the cancellation are checked.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How much output is stored: the start, which has the first error.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct Script<'a> {
    pub program: &'a Path,
    pub arguments: &'a [String],
    pub working_directory: &'a Path,
    /// The whole environment; nothing is inherited.
    pub environment: BTreeMap<String, String>,
    pub time: Duration,
    /// Ends the script too.
    pub cancel: &'a Cancel,
}

/// How a script exited.
#[derive(Debug)]
pub struct ScriptExit {
    pub status: ExitStatus,
    /// Standard output, then standard error.
    pub output: String,
    /// How many bytes of it are standard output.
    pub stdout_bytes: usize,
    pub duration: Duration,
}

impl ScriptExit {
    pub fn code(&self) -> i32 {
        exit_code(self.status)
    }
}

/// The exit code, or 128 plus the signal, as shells report it.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| signalled(status.signal().unwrap_or_default()).into())
}

#[derive(Debug)]
pub enum ScriptError {
    Start { program: PathBuf, source: std::io::Error },
    Timeout { program: PathBuf, time: Duration, output: String },
    Wait { program: PathBuf, source: std::io::Error },
    Cancelled { program: PathBuf, why: CancelReason },
    Memory { program: PathBuf, bytes: u64 },
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start { program, source } => write!(f, "cannot start {}: {source}", program.display()),
            Self::Timeout { program, time, .. } => {
                write!(f, "{} was stopped after {} seconds", program.display(), time.as_secs())
            }
            Self::Wait { program, source } => write!(f, "cannot wait for {}: {source}", program.display()),
            Self::Cancelled { program, .. } => write!(f, "{} was interrupted", program.display()),
            Self::Memory { program, bytes } => {
                let program = program.display();
                write!(f, "{program} was stopped: {}", memory::exceeded(*bytes))
            }
        }
    }
}

impl std::error::Error for ScriptError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { source, .. } | Self::Wait { source, .. } => Some(source),
            Self::Timeout { .. } | Self::Cancelled { .. } | Self::Memory { .. } => None,
        }
    }
}

/// Variables of the host that every script gets.
const BASE: &[&str] = &["PATH", "HOME", "TMPDIR", "LANG", "CI"];

/// Prefixes of the CI's variables that every script gets.
const FORGE: &[&str] = &["GITHUB_", "GITLAB_", "CI_", "RUNNER_"];

/// Whether every script gets the variable, if the host has it.
pub fn is_passed(name: &str) -> bool {
    BASE.contains(&name) || FORGE.iter().any(|prefix| name.starts_with(prefix))
}

/// The documented base of a script's environment.
pub fn base_environment(host: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    host.iter()
        .filter(|(name, _)| is_passed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

pub fn run(script: &Script<'_>) -> Result<ScriptExit, ScriptError> {
    let started = Instant::now();
    let program = || script.program.to_owned();
    let mut command = shebang::command(script.program);
    command
        .args(script.arguments)
        .current_dir(script.working_directory)
        .env_clear()
        .envs(&script.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let cannot_start = |source| ScriptError::Start { program: program(), source };
    let group = memory::admit(&mut command).map_err(cannot_start)?;
    let killed_before = group.killed();
    let mut child = command.spawn().map_err(cannot_start)?;
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let status = wait(&mut child, script);
    // Processes that the script left in its group must not hold our pipes open.
    signal(&child, rustix::process::Signal::KILL);
    let text =
        |reader: Option<JoinHandle<String>>| reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    let mut output = text(stdout);
    let stdout_bytes = output.len();
    output.push_str(&text(stderr));
    match status {
        Ok(Some(status)) if !status.success() && group.killed() > killed_before => {
            Err(ScriptError::Memory { program: program(), bytes: group.memory_bytes() })
        }
        Ok(Some(status)) => Ok(ScriptExit { status, output, stdout_bytes, duration: started.elapsed() }),
        Ok(None) => Err(match script.cancel.reason() {
            Some(why) => ScriptError::Cancelled { program: program(), why },
            None => ScriptError::Timeout { program: program(), time: script.time, output },
        }),
        Err(source) => Err(ScriptError::Wait { program: program(), source }),
    }
}

/// Reads to the end, so that a script does not block on a full pipe, and keeps the start.
fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        drop((&mut stream).take(MAX_OUTPUT_BYTES).read_to_end(&mut kept));
        drop(std::io::copy(&mut stream, &mut std::io::sink()));
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// The status, or `None` if the script was stopped at its time limit or by a cancellation.
fn wait(child: &mut Child, script: &Script<'_>) -> std::io::Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, Instant::now() + script.time, || script.cancel.is_cancelled())? {
        return Ok(Some(status));
    }
    signal(child, rustix::process::Signal::TERM);
    wait_until(child, Instant::now() + GRACE, || script.cancel.is_urgent())?;
    signal(child, rustix::process::Signal::KILL);
    child.wait()?;
    Ok(None)
}

fn wait_until(
    child: &mut Child,
    deadline: Instant,
    give_up: impl Fn() -> bool,
) -> std::io::Result<Option<ExitStatus>> {
    // The child is not reaped yet, so its pid is still its own.
    let number = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let number = number.ok_or(rustix::io::Errno::SRCH)?;
    let end = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty())?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || give_up() {
            return Ok(None);
        }
        match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&TICK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Signals the whole group. A group that is gone is not an error.
fn signal(child: &Child, signal: rustix::process::Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Seconds to sleep that no other test sleeps for.
    fn seconds() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("{}.{}", 700 + NEXT.fetch_add(1, Ordering::SeqCst), std::process::id())
    }

    fn sleeps(seconds: &str) -> bool {
        let wanted = format!("sleep\0{seconds}\0").into_bytes();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|one| std::fs::read(one.path().join("cmdline")).is_ok_and(|l| l == wanted))
    }

    fn run_shell(words: &str, time: Duration, cancel: &Cancel) -> Result<ScriptExit, ScriptError> {
        run(&Script {
            program: Path::new("/bin/sh"),
            arguments: &["-c".to_owned(), words.to_owned()],
            working_directory: Path::new("/"),
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            time,
            cancel,
        })
    }

    #[test]
    fn a_script_beyond_its_time_is_ended_with_everything_it_started() {
        for trap in ["", "trap '' TERM; "] {
            let seconds = seconds();
            let words = format!("{trap}echo begun; sleep {seconds} & sleep {seconds}; sleep {seconds}");
            let ended = run_shell(&words, Duration::from_millis(300), &Cancel::default());
            assert!(
                matches!(&ended, Err(ScriptError::Timeout { output, .. }) if output == "begun\n"),
                "{ended:?}"
            );
            assert!(!sleeps(&seconds), "{trap}");
        }
    }

    #[test]
    fn a_script_of_a_cancelled_run_is_ended_and_a_quick_one_is_not_waited_for() {
        let seconds = seconds();
        let cancel = Cancel::default();
        let asking = cancel.clone();
        let asks = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            asking.cancel(CancelReason::Interrupted);
        });
        let ended = run_shell(&format!("sleep {seconds}"), TIME_LIMIT, &cancel);
        assert!(
            matches!(ended, Err(ScriptError::Cancelled { why: CancelReason::Interrupted, .. })),
            "{ended:?}"
        );
        assert!(!sleeps(&seconds));
        asks.join().unwrap();
        let ended = run_shell("echo out; echo err >&2; exit 3", TIME_LIMIT, &Cancel::default()).unwrap();
        assert_eq!((ended.code(), ended.output.as_str(), ended.stdout_bytes), (3, "out\nerr\n", 4));
    }

    #[test]
    fn a_script_that_is_killed_says_so() {
        let ended = run_shell("kill -9 $$", TIME_LIMIT, &Cancel::default()).unwrap();
        assert_eq!(ended.code(), 137);
    }
}
