//! Into the sandbox: a file or a tree of the host becomes a new one inside, owned by the sandbox's identity.

use super::{MAX_DEPTH, SkipReason, Transfer, TransferCaps, TransferError};
use crate::beneath::open_beneath;
use crate::identity::Mapping;
use crate::sys;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// Copies `from` on the host to `to`, a path inside whose parent exists and which itself does not.
pub(crate) fn upload(
    root: BorrowedFd<'_>,
    mapping: Mapping,
    from: &Path,
    to: &Path,
    caps: TransferCaps,
) -> Result<Transfer, TransferError> {
    let (asks, asked) = mpsc::channel::<MakeRequest>();
    std::thread::scope(|scope| {
        // Files created inside must belong to the sandbox's user; only this thread takes on that identity.
        scope.spawn(move || make_on_request(root, mapping, &asked));
        let mut upload = Upload { caps, transfer: Transfer::default(), asks };
        upload.entry(from, to, 0)?;
        Ok(upload.transfer)
    })
}

struct MakeRequest {
    path: PathBuf,
    what: MakeKind,
    answer: mpsc::Sender<io::Result<Option<OwnedFd>>>,
}

#[derive(Clone, Copy)]
enum MakeKind {
    Directory,
    File { mode: u32 },
}

fn make_on_request(root: BorrowedFd<'_>, mapping: Mapping, asked: &mpsc::Receiver<MakeRequest>) {
    let taken = match mapping {
        Mapping::Caller => Ok(()),
        Mapping::Fresh { id } => sys::take_file_identity(id),
    };
    while let Ok(MakeRequest { path, what, answer }) = asked.recv() {
        let made = match &taken {
            Ok(()) => make(root, &path, what),
            Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
        };
        // The asker waits for exactly this.
        drop(answer.send(made));
    }
}

fn make(root: BorrowedFd<'_>, path: &Path, what: MakeKind) -> io::Result<Option<OwnedFd>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let parent = open_beneath(root, parent, OFlags::PATH | OFlags::DIRECTORY)?;
    match what {
        MakeKind::Directory => {
            rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
            Ok(None)
        }
        MakeKind::File { mode } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(Some(rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(mode & 0o777))?))
        }
    }
}

struct Upload {
    caps: TransferCaps,
    transfer: Transfer,
    asks: mpsc::Sender<MakeRequest>,
}

impl Upload {
    fn entry(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), TransferError> {
        let source = |source| TransferError::Source { path: from.to_path_buf(), source };
        if depth > MAX_DEPTH {
            return Err(TransferError::TooDeep { path: from.to_path_buf() });
        }
        self.transfer.count_file(self.caps)?;
        let metadata = fs::symlink_metadata(from).map_err(source)?;
        if metadata.is_dir() {
            self.ask(to, MakeKind::Directory)?;
            let mut names: Vec<OsString> = Vec::new();
            for entry in fs::read_dir(from).map_err(source)? {
                names.push(entry.map_err(source)?.file_name());
            }
            return names.iter().try_for_each(|name| self.entry(&from.join(name), &to.join(name), depth + 1));
        }
        if !metadata.is_file() {
            let reason =
                if metadata.is_symlink() { SkipReason::SymbolicLink } else { SkipReason::SpecialFile };
            self.transfer.skipped.push((from.to_path_buf(), reason));
            return Ok(());
        }
        let mut opened = File::open(from).map_err(source)?;
        let made = self.ask(to, MakeKind::File { mode: metadata.permissions().mode() })?;
        let Some(made) = made else { return Ok(()) };
        self.transfer.copy(self.caps, (from, &mut opened), (to, &mut File::from(made)))
    }

    fn ask(&self, path: &Path, what: MakeKind) -> Result<Option<OwnedFd>, TransferError> {
        let (answer, answered) = mpsc::channel();
        let ended = || io::Error::other("the writing thread ended");
        let asked =
            self.asks.send(MakeRequest { path: path.to_path_buf(), what, answer }).map_err(|_| ended());
        let made = asked.and_then(|()| answered.recv().map_err(|_| ended())).and_then(|made| made);
        made.map_err(|source| TransferError::Target { path: path.to_path_buf(), source })
    }
}
