//! Chooses the program that a launch starts: the image's own if its version is in range, else the host's, which is mounted.
//! A program of an image runs only inside the sandbox.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::fs::{FileType, OFlags, StatVfsMountFlags};
use sandbox::{Command, Sandbox, Stdio};

use super::package::{Package, Version};
use super::programs::{self, Program, ProgramError};
use super::{paths, stream};
use crate::backend::AgentSandbox;

/// For `--version`.
const TIMEOUT: Duration = Duration::from_secs(20);

const KILL: i32 = 9;

/// A program that a launch can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Inside.
    pub path: String,
    pub version: Version,
    /// Where it came from, for the record.
    pub place: String,
}

/// `search` is the PATH inside, where the root is an image's. `None`: the runtime is our own program.
pub fn choose(
    package: Option<&Package>,
    sandbox: &Sandbox,
    search: Option<&str>,
    on_host: Result<Option<Program>, ProgramError>,
) -> Result<Option<Executable>, ProgramError> {
    let Some(package) = package else { return Ok(None) };
    let in_image = search.map_or(Ok(None), |search| of_image(sandbox, package, search));
    match (in_image, on_host) {
        (Ok(Some(found)), _) => Ok(Some(found)),
        (_, Ok(Some(program))) => Ok(Some(mounted(&program))),
        (Err(error), _) | (Ok(None), Err(error)) => Err(error),
        (Ok(None), Ok(None)) => Ok(None),
    }
}

fn mounted(program: &Program) -> Executable {
    Executable {
        path: format!("{}/{}", paths::RUNTIME_PROGRAM, program.executable),
        version: program.version,
        place: program.directory.join(&program.executable).display().to_string(),
    }
}

/// The first on the PATH, as a shell would find it.
fn of_image(sandbox: &Sandbox, package: &Package, search: &str) -> Result<Option<Executable>, ProgramError> {
    let directories = search.split(':').filter(|directory| directory.starts_with('/'));
    let paths =
        directories.map(|directory| format!("{}/{}", directory.trim_end_matches('/'), package.command));
    let found = paths.into_iter().find(|path| is_fixed_program(sandbox.root(), path));
    let Some((path, version)) = found.and_then(|path| Some((path.clone(), version_of(sandbox, path)?)))
    else {
        return Ok(None);
    };
    let place = format!("{path} in the image");
    if !programs::accepts(package, version) {
        return Err(ProgramError::out_of_range(place, version, package));
    }
    Ok(Some(Executable { path, version, place }))
}

/// An executable file on a read-only mount, so that the agent cannot have changed it.
fn is_fixed_program(root: BorrowedFd<'_>, path: &str) -> bool {
    let Ok(file) = sandbox::open_in_root(root, path, OFlags::PATH) else { return false };
    let is_program = rustix::fs::fstat(&file).is_ok_and(|about| {
        FileType::from_raw_mode(about.st_mode) == FileType::RegularFile && about.st_mode & 0o111 != 0
    });
    is_program
        && rustix::fs::fstatvfs(&file).is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The program in the image of a sandbox on a gateway, as a shell finds it there.
pub fn on_gateway(
    package: Option<&Package>,
    sandbox: &AgentSandbox,
) -> Result<Option<Executable>, ProgramError> {
    let Some(package) = package else { return Ok(None) };
    let missing = || ProgramError::NotInImage { command: package.command, from: package.tested };
    let search = format!("command -v {}", package.command);
    let path = answer(sandbox, vec!["/bin/sh".to_owned(), "-c".to_owned(), search]).ok_or_else(missing)?;
    let path = path.trim().to_owned();
    let version = answer(sandbox, vec![path.clone(), "--version".to_owned()]);
    let version = version.as_deref().and_then(Version::find).ok_or_else(missing)?;
    let place = format!("{path} in the image");
    if !programs::accepts(package, version) {
        return Err(ProgramError::out_of_range(place, version, package));
    }
    Ok(Some(Executable { path, version, place }))
}

/// What a command inside prints.
fn answer(sandbox: &AgentSandbox, words: Vec<String>) -> Option<String> {
    let mut command = Command::new(words);
    command.stdout = Stdio::Pipe;
    let mut process = sandbox.exec(command).ok()?;
    let output = stream::keep_end(process.stdout.take()?);
    let exit = process.wait(TIMEOUT);
    if exit.is_err() {
        drop(process.signal(KILL));
    }
    exit.ok().filter(|exit| exit.success())?;
    output.recv_timeout(Duration::from_secs(1)).ok()
}

fn version_of(sandbox: &Sandbox, path: String) -> Option<Version> {
    let mut command = Command::new([path, "--version".to_owned()]);
    command.stdout = Stdio::Pipe;
    let mut process = sandbox.exec(command).ok()?;
    let output = stream::keep_end(process.stdout.take()?);
    let exit = process.wait(TIMEOUT);
    drop(process.signal(KILL));
    exit.ok().filter(|exit| exit.success())?;
    Version::find(&output.recv_timeout(Duration::from_secs(1)).ok()?)
}
