//! Files into and out of a lasting sandbox, from the host's side. What comes out is not trusted: it is bounded, and an archive
//! is unpacked into a new directory by `archive::unpack`.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sandbox::TransferCaps;

use super::client::{SandboxClient, SandboxClientError};
use super::protocol::{ExecPurpose, ExecSpec};
use super::pump::{self, CommandInput, OutputStream};
use crate::archive::inside_files::{self, FilesProblem, FilesReply};
use crate::archive::{self, ArchiveCounts};
use crate::runtime::paths::PROGRAM;

/// The first line of the answer is no longer than this.
const MAX_REPLY_BYTES: usize = 64 << 10;
const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// The bytes that an archive needs for each entry beside its contents.
const ARCHIVE_BYTES_PER_FILE: u64 = 16 << 10;

/// Why files were not moved.
#[derive(Debug)]
pub enum FilesError {
    Client(SandboxClientError),
    /// Inside the sandbox.
    Inside {
        problem: FilesProblem,
        message: String,
    },
    Host {
        path: PathBuf,
        source: io::Error,
    },
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Inside { message, .. } => write!(f, "in the sandbox: {message}"),
            Self::Host { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for FilesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Host { source, .. } => Some(source),
            Self::Inside { .. } => None,
        }
    }
}

/// What `get` should return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedFiles {
    /// A directory is an error.
    FileOnly,
    FileOrDirectory,
}

/// What `get` found.
pub enum GotFiles {
    File {
        mode: u32,
        contents: File,
    },
    /// A tar archive.
    Directory {
        archive: File,
    },
}

/// Writes `input` to a file inside. Directories on the way are made.
pub fn put(
    client: &SandboxClient,
    path: &str,
    input: CommandInput,
    mode: Option<u32>,
) -> Result<ArchiveCounts, FilesError> {
    let mode = mode.map(|mode| format!("{mode:o}")).unwrap_or_default();
    let spec = spec(&[inside_files::PUT, path, &mode], ExecPurpose::Put { path: path.to_owned() });
    written(client, spec, input)
}

/// Copies a directory of the host into a directory inside.
pub fn put_tree(
    client: &SandboxClient,
    from: &Path,
    path: &str,
    caps: TransferCaps,
) -> Result<ArchiveCounts, FilesError> {
    let host = |source| FilesError::Host { path: from.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(from, flags, Mode::empty()).map_err(|error| host(error.into()))?;
    let mut spool = tempfile::tempfile().map_err(host)?;
    archive::pack(&directory, io::BufWriter::new(&mut spool), caps).map_err(host)?;
    spool.rewind().map_err(host)?;
    put_archive(client, CommandInput::Descriptor(spool.into()), path, caps)
}

/// Unpacks a tar archive into a directory inside.
pub fn put_archive(
    client: &SandboxClient,
    archive: CommandInput,
    path: &str,
    caps: TransferCaps,
) -> Result<ArchiveCounts, FilesError> {
    let bytes = caps.bytes.to_string();
    let files = caps.files.to_string();
    let words = [inside_files::PUT_TREE, path, &bytes, &files];
    written(client, spec(&words, ExecPurpose::Put { path: path.to_owned() }), archive)
}

fn written(client: &SandboxClient, spec: ExecSpec, input: CommandInput) -> Result<ArchiveCounts, FilesError> {
    let mut answer = Answer::new(io::sink(), 0);
    match answer.ask(client, spec, input)? {
        FilesReply::Written { files, bytes, left_out } => Ok(ArchiveCounts { files, bytes, left_out }),
        other => Err(unexpected(other)),
    }
}

/// Reads a file or a directory of the sandbox into an unnamed temporary file.
pub fn get(
    client: &SandboxClient,
    path: &str,
    wanted: WantedFiles,
    caps: TransferCaps,
) -> Result<GotFiles, FilesError> {
    let host = |source| FilesError::Host { path: std::env::temp_dir(), source };
    let bytes = caps.bytes.to_string();
    let files = caps.files.to_string();
    let verb = match wanted {
        WantedFiles::FileOnly => inside_files::GET_FILE,
        WantedFiles::FileOrDirectory => inside_files::GET,
    };
    let words = [verb, path, &bytes, &files];
    let spool = tempfile::tempfile().map_err(host)?;
    let most = caps.bytes.saturating_add(caps.files.saturating_mul(ARCHIVE_BYTES_PER_FILE));
    let mut answer = Answer::new(spool, most);
    let spec = spec(&words, ExecPurpose::Get { path: path.to_owned() });
    let reply = answer.ask(client, spec, CommandInput::Nothing)?;
    let mut spool = answer.to;
    spool.rewind().map_err(host)?;
    match reply {
        FilesReply::File { mode, .. } => Ok(GotFiles::File { mode, contents: spool }),
        FilesReply::Directory => Ok(GotFiles::Directory { archive: spool }),
        other => Err(unexpected(other)),
    }
}

impl GotFiles {
    /// Writes it to a path of the host. A file replaces an existing one; a directory must be new.
    pub fn save(self, to: &Path, caps: TransferCaps) -> Result<ArchiveCounts, FilesError> {
        let host = |source| FilesError::Host { path: to.to_owned(), source };
        match self {
            Self::File { mode, contents } => save_file(contents, mode, to).map_err(host),
            Self::Directory { archive } => {
                fs::create_dir(to).map_err(host)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = rustix::fs::open(to, flags, Mode::empty()).map_err(|error| host(error.into()))?;
                archive::unpack(io::BufReader::new(archive), &made, caps).map_err(host)
            }
        }
    }
}

/// In one step, so that a link at `to` is replaced and not followed.
fn save_file(mut contents: File, mode: u32, to: &Path) -> io::Result<ArchiveCounts> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(parent)?;
    let bytes = io::copy(&mut contents, &mut new)?;
    new.as_file().set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
    new.persist(to).map_err(|error| error.error)?;
    Ok(ArchiveCounts { files: 1, bytes, left_out: 0 })
}

fn spec(words: &[&str], purpose: ExecPurpose) -> ExecSpec {
    let arguments = [PROGRAM, inside_files::COMMAND].iter().chain(words).map(|word| (*word).into());
    ExecSpec {
        arguments: arguments.collect(),
        environment: Vec::new(),
        working_directory: None,
        terminal: false,
        timeout_ms: None,
        purpose,
    }
}

fn unexpected(reply: FilesReply) -> FilesError {
    match reply {
        FilesReply::Error { error, message } => FilesError::Inside { problem: error, message },
        FilesReply::Written { .. } | FilesReply::File { .. } | FilesReply::Directory => FilesError::Inside {
            problem: FilesProblem::Other,
            message: "the sandbox answered something else".to_owned(),
        },
    }
}

/// The answer: a line of JSON, and then bytes that go to `to`.
struct Answer<W> {
    line: Vec<u8>,
    reply: Option<FilesReply>,
    to: W,
    left: u64,
    errors: Vec<u8>,
}

impl<W: Write> Answer<W> {
    fn new(to: W, most: u64) -> Self {
        Self { line: Vec::new(), reply: None, to, left: most, errors: Vec::new() }
    }

    fn ask(
        &mut self,
        client: &SandboxClient,
        spec: ExecSpec,
        input: CommandInput,
    ) -> Result<FilesReply, FilesError> {
        let command = client.exec(spec).map_err(FilesError::Client)?;
        let ended = pump::run(command, input, &mut |stream, bytes| self.take(stream, bytes));
        let ended = ended.map_err(FilesError::Client)?;
        let message = String::from_utf8_lossy(&self.errors).into_owned();
        match self.reply.take() {
            Some(error @ FilesReply::Error { .. }) => Err(unexpected(error)),
            Some(reply) if ended.exit.success() => Ok(reply),
            _ => Err(FilesError::Inside {
                problem: FilesProblem::Other,
                message: format!("moving files failed ({:?}) {message}", ended.exit).trim().to_owned(),
            }),
        }
    }

    fn take(&mut self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        if stream == OutputStream::Stderr {
            let room = MAX_MESSAGE_BYTES.saturating_sub(self.errors.len()).min(bytes.len());
            self.errors.extend_from_slice(&bytes[..room]);
            return Ok(());
        }
        if self.reply.is_some() {
            return self.pass(bytes);
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.line.extend_from_slice(bytes);
            return if self.line.len() > MAX_REPLY_BYTES { Err(too_much()) } else { Ok(()) };
        };
        self.line.extend_from_slice(&bytes[..end]);
        self.reply = Some(serde_json::from_slice(&self.line)?);
        self.pass(&bytes[end + 1..])
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(too_much)?;
        self.to.write_all(bytes)
    }
}

fn too_much() -> io::Error {
    io::Error::other("the sandbox sent more than it may")
}
