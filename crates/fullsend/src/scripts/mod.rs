//! Programs on the host: pre-, post- and validation scripts. One way to start them: a built environment, an own process
//! group, drained and bounded output, a bound on time, then TERM, grace, KILL to the whole group.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cancel::{Cancel, Why};

/// How long a script may run.
pub const MOST_TIME: Duration = Duration::from_secs(600);

/// Between asking it to end and ending it.
const GRACE: Duration = Duration::from_secs(5);

/// How much of its output is kept: the beginning, where the first error stands.
const MOST_OUTPUT: u64 = 1 << 20;

/// What to run.
#[derive(Debug)]
pub struct Script<'a> {
    pub program: &'a Path,
    pub arguments: &'a [String],
    pub working_directory: &'a Path,
    /// The whole environment; nothing is inherited.
    pub environment: BTreeMap<String, String>,
    pub time: Duration,
    /// Ends it too.
    pub cancel: &'a Cancel,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// What it said: all of standard output, then all of standard error.
    pub output: String,
    /// How much of that was standard output.
    pub stdout_bytes: usize,
    pub duration: Duration,
}

impl Ended {
    pub fn code(&self) -> i32 {
        exit_code(self.status)
    }
}

/// The exit code, or 128 and the signal as shells say it.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[derive(Debug)]
pub enum ScriptError {
    Start { program: PathBuf, source: std::io::Error },
    Timeout { program: PathBuf, time: Duration, output: String },
    Wait { program: PathBuf, source: std::io::Error },
    Cancelled { program: PathBuf, why: Why },
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start { program, source } => write!(f, "{} cannot be started: {source}", program.display()),
            Self::Timeout { program, time, .. } => {
                write!(f, "{} was stopped after {} seconds", program.display(), time.as_secs())
            }
            Self::Wait { program, source } => write!(f, "{} was lost: {source}", program.display()),
            Self::Cancelled { program, .. } => write!(f, "{} was interrupted", program.display()),
        }
    }
}

impl std::error::Error for ScriptError {}

/// What every script gets, taken from the host's environment.
const BASE: &[&str] = &["PATH", "HOME", "TMPDIR", "LANG", "CI"];

/// Variables of the CI that scripts rely on, by prefix.
const FORGE: &[&str] = &["GITHUB_", "GITLAB_", "CI_", "RUNNER_"];

/// The documented base of a script's environment.
pub fn base_environment(host: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let wanted = |name: &str| BASE.contains(&name) || FORGE.iter().any(|prefix| name.starts_with(prefix));
    host.iter().filter(|(name, _)| wanted(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

pub fn run(script: &Script<'_>) -> Result<Ended, ScriptError> {
    let started = Instant::now();
    let program = || script.program.to_owned();
    let mut child = Command::new(script.program)
        .args(script.arguments)
        .current_dir(script.working_directory)
        .env_clear()
        .envs(&script.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|source| ScriptError::Start { program: program(), source })?;
    let (stdout, stderr) = (child.stdout.take().map(drain), child.stderr.take().map(drain));
    let status = wait(&mut child, script);
    // Whatever the script left behind in its group must not keep our pipes, or the host, busy.
    signal(&child, rustix::process::Signal::KILL);
    let text =
        |reader: Option<JoinHandle<String>>| reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    let mut output = text(stdout);
    let stdout_bytes = output.len();
    output.push_str(&text(stderr));
    match status {
        Ok(Some(status)) => Ok(Ended { status, output, stdout_bytes, duration: started.elapsed() }),
        Ok(None) => Err(match script.cancel.asked() {
            Some(why) => ScriptError::Cancelled { program: program(), why },
            None => ScriptError::Timeout { program: program(), time: script.time, output },
        }),
        Err(source) => Err(ScriptError::Wait { program: program(), source }),
    }
}

/// Reads to the end, keeping the beginning, so that a script never waits for a full pipe.
fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        drop((&mut stream).take(MOST_OUTPUT).read_to_end(&mut kept));
        drop(std::io::copy(&mut stream, &mut std::io::sink()));
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// The status, or `None` when the time was up or the run cancelled, and the group had to be ended.
fn wait(child: &mut Child, script: &Script<'_>) -> std::io::Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, Instant::now() + script.time, || script.cancel.is_asked())? {
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
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || give_up() {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// To the whole group; a group that is gone is what we want.
fn signal(child: &Child, signal: rustix::process::Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}
