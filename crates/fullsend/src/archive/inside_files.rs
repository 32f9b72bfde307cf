//! `__files`: puts and gets files, as a command inside the sandbox. It is confined like every other command inside, so
//! it has no more rights than they have. It speaks through its standard streams: one line of JSON, then the bytes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::{FileType, Mode, OFlags};
use sandbox::TransferCaps;
use serde::{Deserialize, Serialize};

use crate::archive;
use crate::event::exit::Exit;

/// The hidden command, and its verbs.
pub const COMMAND: &str = "__files";
pub const PUT: &str = "put";
pub const PUT_TREE: &str = "put-tree";
pub const GET: &str = "get";
/// The same, for a file only.
pub const GET_FILE: &str = "get-file";

/// The first line that it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FilesReply {
    /// Everything was written.
    Written {
        files: u64,
        bytes: u64,
        left_out: u64,
    },
    /// The bytes of a file follow.
    File {
        mode: u32,
        bytes: u64,
    },
    /// A tar archive follows.
    Directory,
    Error {
        error: FilesProblem,
        message: String,
    },
}

/// Why files could not be copied, in a form for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesProblem {
    NotFound,
    PermissionDenied,
    IsADirectory,
    NotADirectory,
    TooLarge,
    Other,
}

impl FilesProblem {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::PermissionDenied,
            io::ErrorKind::IsADirectory => Self::IsADirectory,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Other,
        }
    }
}

/// `put PATH MODE`, `put-tree PATH BYTES FILES`, `get PATH BYTES FILES`, `get-file PATH BYTES FILES`. An empty mode
/// does not change the file's mode.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().skip(2).filter_map(|word| word.to_str()).collect();
    let (Some(verb), Some(path)) = (arguments.first().and_then(|verb| verb.to_str()), arguments.get(1))
    else {
        return Exit::Usage.into();
    };
    let path = Path::new(path);
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let caps = TransferCaps { bytes: number(0), files: number(1) };
    let done = match verb {
        PUT => put(path, words.first().and_then(|mode| u32::from_str_radix(mode, 8).ok())),
        PUT_TREE => put_tree(path, caps),
        GET => get(path, caps),
        GET_FILE if path.is_dir() => Err(is_a_directory()),
        GET_FILE => get(path, caps),
        _ => return Exit::Usage.into(),
    };
    let Err(error) = done else { return Exit::Done.into() };
    let message = format!("{}: {error}", path.display());
    // A write fails only if the client has gone.
    drop(reply(&FilesReply::Error { error: FilesProblem::of(&error), message }));
    Exit::Failed.into()
}

fn reply(reply: &FilesReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    io::stdout().flush()
}

fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::create_dir_all(parent),
        _ => Ok(()),
    }
}

fn is_a_directory() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")
}

/// An existing file keeps its mode, unless one is named.
fn put(path: &Path, mode: Option<u32>) -> io::Result<()> {
    if path.is_dir() {
        return Err(is_a_directory());
    }
    make_parent(path)?;
    let mut options = File::options();
    // A pipe must not hold us.
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.write(true).create(true).truncate(true).mode(0o644).custom_flags(flags.bits().cast_signed());
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let bytes = io::copy(&mut io::stdin().lock(), &mut file)?;
    if let Some(mode) = mode {
        file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
    }
    reply(&FilesReply::Written { files: 1, bytes, left_out: 0 })
}

fn put_tree(path: &Path, caps: TransferCaps) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let counts = archive::unpack(io::stdin().lock(), &open_directory(path)?, caps)?;
    reply(&FilesReply::Written { files: counts.files, bytes: counts.bytes, left_out: counts.left_out })
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn get(path: &Path, caps: TransferCaps) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&opened)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => {
            reply(&FilesReply::Directory)?;
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            archive::pack(&opened, &mut out, caps)?;
            out.flush()
        }
        FileType::RegularFile => {
            let bytes = u64::try_from(status.st_size).unwrap_or(0);
            if bytes > caps.bytes {
                let message = format!("it has {bytes} bytes, more than {}", caps.bytes);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
            }
            reply(&FilesReply::File { mode: status.st_mode & 0o777, bytes })?;
            io::copy(&mut File::from(opened).take(caps.bytes), &mut io::stdout().lock())?;
            io::stdout().flush()
        }
        _ => Err(io::Error::other("it is neither a file nor a directory")),
    }
}
