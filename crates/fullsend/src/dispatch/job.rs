//! One job of a dispatch: one run, whatever engine started it. A job that is started again after its run ended only
//! returns the same exit code; a job whose run was cut off makes another attempt.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};

use super::folder::{DispatchFolder, FolderError, JobResult, RESULT_VERSION};
use crate::cancel::Cancel;
use crate::event::exit::{Exit, signalled};

/// How soon a request to end is passed on.
const TICK: Duration = Duration::from_millis(50);
/// The most attempts: an engine that restarts a job for ever is faulty.
const MAX_ATTEMPTS: u32 = 1000;

/// Why a job did nothing.
#[derive(Debug)]
pub enum JobError {
    Folder(FolderError),
    Attempt {
        path: PathBuf,
        source: io::Error,
    },
    /// Another process runs this job now.
    Running {
        index: usize,
    },
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => error.fmt(f),
            Self::Attempt { path, source } => write!(f, "the job cannot use {}: {source}", path.display()),
            Self::Running { index } => write!(f, "job {index} runs already"),
        }
    }
}

impl std::error::Error for JobError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Folder(error) => Some(error),
            Self::Attempt { source, .. } => Some(source),
            Self::Running { .. } => None,
        }
    }
}

/// Runs the job with this number, and returns its exit code.
pub fn run(folder: &DispatchFolder, index: usize, cancel: &Cancel) -> Result<u8, JobError> {
    let directory = folder.job(index).map_err(JobError::Folder)?;
    let failed = |source| JobError::Attempt { path: directory.clone(), source };
    let lock = File::create(directory.join("lock")).map_err(failed)?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(JobError::Running { index });
    }
    if let Some(result) = folder.result(index).map_err(JobError::Folder)? {
        return Ok(code(result.exit));
    }
    let request = folder.request(index).map_err(JobError::Folder)?;
    let (attempt, place) = new_attempt(&directory).map_err(failed)?;
    let runs = place.join("runs");
    let output = place.join("output");
    let child = File::create(&output).and_then(|out| {
        Command::new("/proc/self/exe")
            .args(request.arguments())
            .arg(format!("--output-dir={}", runs.display()))
            .stdin(Stdio::null())
            .stdout(out)
            .spawn()
    });
    let exit = wait(child.map_err(failed)?, cancel).map_err(failed)?;
    // A job that was asked to end has no result: the engine may start it again.
    if cancel.is_cancelled() {
        return Ok(code(exit));
    }
    let result = JobResult { v: RESULT_VERSION, index, attempt, exit, run: record_below(&runs), output };
    folder.set_result(&result).map_err(JobError::Folder)?;
    Ok(code(exit))
}

fn code(exit: i32) -> u8 {
    u8::try_from(exit).unwrap_or(Exit::Failed.code())
}

fn new_attempt(directory: &Path) -> io::Result<(u32, PathBuf)> {
    for attempt in 1..=MAX_ATTEMPTS {
        let place = directory.join(format!("attempt-{attempt}"));
        match fs::create_dir(&place) {
            Ok(()) => return Ok((attempt, place)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("it was started {MAX_ATTEMPTS} times")))
}

/// Waits until the run ends. The first request to end is passed on; the second kills the run.
fn wait(mut child: Child, cancel: &Cancel) -> io::Result<i32> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut passed_on = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            return Ok(status.code().unwrap_or_else(|| signalled(signal.unwrap_or_default()).into()));
        }
        let wanted = u32::from(cancel.is_cancelled()) + u32::from(cancel.is_urgent());
        if let Some(pid) = pid.filter(|_| wanted > passed_on) {
            passed_on = wanted;
            let signal = if cancel.is_urgent() { Signal::KILL } else { Signal::TERM };
            // It fails only when the run has just ended.
            let _ = rustix::process::kill_process(pid, signal);
        }
        std::thread::sleep(TICK);
    }
}

/// The one run in a directory of runs: `OWNER/…/ID` with a record in it.
fn record_below(runs: &Path) -> Option<PathBuf> {
    let mut open = vec![(runs.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        if directory.join("run.json").is_file() {
            return Some(directory);
        }
        if depth < 4 {
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            open.extend(entries.filter(|entry| entry.path().is_dir()).map(|entry| (entry.path(), depth + 1)));
        }
    }
    None
}
