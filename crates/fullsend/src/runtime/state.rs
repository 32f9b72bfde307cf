//! The files of a runtime inside the sandbox. They are read from outside, without following links, to store a
//! conversation. They are written and removed from inside, to continue it or to start anew.

use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use sandbox::{Command, Stdio};
use sandbox::{Descend, TreeEntry, Unreadable, WalkError, WalkLimits, open_beneath, walk_tree};

use super::paths::PROGRAM;
use crate::backend::AgentSandbox;
use crate::event::exit::Exit;

/// For one command.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Limits of one conversation.
const MAX_FILES: usize = 500;
const MAX_BYTES: u64 = 128 << 20;
const MAX_DEPTH: usize = 12;
const MAX_ENTRIES: usize = 100_000;

/// A file of the runtime: its path below the directory that was read, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    pub path: String,
    pub contents: Vec<u8>,
}

/// Everything below `directory`; a directory that is not there holds nothing. What
/// is not a regular file is left out, and so is what is beyond the bounds.
pub fn read(root: BorrowedFd<'_>, directory: &str) -> io::Result<Vec<StateFile>> {
    let opened = match open_beneath(root, directory, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        opened => opened?,
    };
    let limits = WalkLimits { entries: MAX_ENTRIES, depth: MAX_DEPTH + 1, unreadable: Unreadable::Fail };
    let mut files: Vec<StateFile> = Vec::new();
    let mut bytes = 0;
    let walked = walk_tree(&opened, limits, &mut |entry: &TreeEntry<'_>| {
        let Some(path) = entry.path.to_str() else { return Ok(Descend::No) };
        let file = if entry.kind == FileType::RegularFile { entry.open().ok() } else { None };
        if let Some(file) = file.filter(|_| files.len() < MAX_FILES)
            && let Some(contents) = contents(file, MAX_BYTES - bytes)?
        {
            bytes += contents.len() as u64;
            files.push(StateFile { path: path.to_owned(), contents });
        }
        Ok(if entry.depth() < MAX_DEPTH { Descend::Yes } else { Descend::No })
    });
    match walked {
        Ok(()) | Err(WalkError::TooManyEntries { .. }) => {}
        Err(error) => return Err(error.into_io()),
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// One file; `None` if it is not there or not a file.
pub fn read_file(root: BorrowedFd<'_>, path: &str) -> io::Result<Option<Vec<u8>>> {
    match open_beneath(root, path, OFlags::RDONLY) {
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
        Ok(file) => contents(file, MAX_BYTES),
    }
}

/// `None` for what is not a regular file, or larger than `most`.
fn contents(file: OwnedFd, most: u64) -> io::Result<Option<Vec<u8>>> {
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Writes a file, in place of what was there. It is written from inside, as the sandbox's user: root outside may not be
/// mapped inside.
pub fn write(sandbox: &AgentSandbox, path: &str, contents: &[u8]) -> io::Result<()> {
    inside(sandbox, "put", path, contents)
}

/// Kills every process inside but the sandbox's first, so that the files can still be read.
pub fn end_all(sandbox: &AgentSandbox) -> io::Result<()> {
    match sandbox.end_commands() {
        Some(ended) => ended.map_err(io::Error::other),
        None => inside(sandbox, "end", "all", &[]),
    }
}

/// Empties a directory; what is mounted there stays. A missing directory is fine.
pub fn empty(sandbox: &AgentSandbox, directory: &str) -> io::Result<()> {
    inside(sandbox, "empty", directory, &[])
}

fn inside(sandbox: &AgentSandbox, what: &str, path: &str, contents: &[u8]) -> io::Result<()> {
    let mut command = Command::new([PROGRAM, "__state", what, path]);
    command.stdin = Stdio::Pipe;
    command.stderr = Stdio::Pipe;
    let mut process = sandbox.exec(command).map_err(io::Error::other)?;
    if let Some(mut stdin) = process.stdin.take() {
        stdin.write_all(contents)?;
    }
    let exit = process.wait(TIMEOUT).map_err(io::Error::other)?;
    let mut errors = String::new();
    if let Some(stderr) = process.stderr.take() {
        stderr.take(1 << 10).read_to_string(&mut errors)?;
    }
    if exit.success() { Ok(()) } else { Err(io::Error::other(errors)) }
}

/// The hidden `__state` command: `put PATH`, `empty PATH` or `end all`.
pub fn main(words: &[std::ffi::OsString]) -> std::process::ExitCode {
    let [what, path] = words else { return Exit::Usage.into() };
    let path = Path::new(path);
    let done = match what.to_str() {
        Some("put") => put(path, &mut io::stdin().lock()),
        Some("empty") => remove_contents(path),
        Some("end") => end_others(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match done {
        Ok(()) => Exit::Done.into(),
        Err(error) => {
            drop(write!(io::stderr(), "{}: {error}", path.display()));
            Exit::Failed.into()
        }
    }
}

/// Kills every process that it may signal, except itself and the first. The first process must be a sandbox's: outside,
/// this would kill everything.
fn end_others() -> io::Result<()> {
    let first = std::fs::read("/proc/1/cmdline")?;
    if !first.split(|byte| *byte == 0).any(|word| word == b"__init") {
        return Err(io::Error::other("this is not a sandbox"));
    }
    match rustix::process::kill_process_group(rustix::process::Pid::INIT, rustix::process::Signal::KILL) {
        Err(Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn put(path: &Path, contents: &mut impl Read) -> io::Result<()> {
    clear(path)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = std::fs::File::options().write(true).create_new(true).open(path)?;
    io::copy(contents, &mut file).map(drop)
}

fn remove_contents(directory: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        match clear(&entry?.path()) {
            Err(error) if is_mounted(&error) => {}
            cleared => cleared?,
        }
    }
    Ok(())
}

fn is_mounted(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::ReadOnlyFilesystem)
}

fn clear(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Errors that mean that the file does not exist, whatever the agent put in its place.
fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::os::fd::AsFd;
    use std::path::Path;

    fn rooted(directory: &Path) -> OwnedFd {
        rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    #[test]
    fn what_was_kept_can_be_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let root = rooted(directory.path());
        let at = |path: &str| directory.path().join(path);
        put(&at("config/a/b/c.jsonl"), &mut &b"one"[..]).unwrap();
        put(&at("config/d"), &mut &b"two"[..]).unwrap();
        let kept = read(root.as_fd(), "/config").unwrap();
        assert_eq!(kept.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a/b/c.jsonl", "d"]);
        clear(&at("config")).unwrap();
        assert!(read(root.as_fd(), "config").unwrap().is_empty());
        for file in &kept {
            put(&at("config").join(&file.path), &mut &file.contents[..]).unwrap();
        }
        assert_eq!(read(root.as_fd(), "config").unwrap(), kept);
        // Remove a directory that is in the file's place, too.
        std::fs::create_dir(at("config/e")).unwrap();
        put(&at("config/e"), &mut &b"three"[..]).unwrap();
        assert_eq!(read_file(root.as_fd(), "config/e").unwrap().unwrap(), b"three");
    }

    #[test]
    fn links_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let root = rooted(directory.path());
        std::fs::write(outside.path().join("secret"), b"secret").unwrap();
        let link = |to: &Path, at: &str| std::os::unix::fs::symlink(to, directory.path().join(at)).unwrap();
        link(outside.path(), "config");
        assert!(read(root.as_fd(), "config").unwrap().is_empty());
        std::fs::create_dir(directory.path().join("real")).unwrap();
        link(&outside.path().join("secret"), "real/link");
        link(outside.path(), "real/directory");
        assert!(read(root.as_fd(), "real").unwrap().is_empty());
        assert!(read_file(root.as_fd(), "real/link").unwrap().is_none());
        put(&directory.path().join("real/link"), &mut &b"mine"[..]).unwrap();
        assert_eq!(read_file(root.as_fd(), "real/link").unwrap().unwrap(), b"mine");
        clear(&directory.path().join("real")).unwrap();
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
    }
}
