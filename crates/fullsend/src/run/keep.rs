//! What the agent left, kept for somebody to look at: a copy of its workspace, taken before the sandbox goes. Files that
//! were delivered from the host are not in it, because some of them are credentials.

use std::path::{Path, PathBuf};

use sandbox::TransferCaps;

use crate::bootstrap::Ready;
use crate::event::RunEvent;
use crate::event::log::Emitter;
use crate::runtime::inside;

/// Where in a run's directory it is.
pub const KEPT: &str = "kept";

const CAPS: TransferCaps = TransferCaps { bytes: 2 << 30, files: 200_000 };

/// After which runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    Always,
    OnFailure,
    #[default]
    Never,
}

impl Keep {
    pub(super) fn wants(self, succeeded: bool) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => !succeeded,
            Self::Never => false,
        }
    }
}

/// Copies it. A copy that fails changes nothing about the run; the record says so.
pub(super) fn keep(ready: &Ready, directory: &Path, emit: &Emitter) {
    let into = directory.join(KEPT);
    let copied = ready.provisioned.sandbox.download(Path::new(inside::WORKSPACE), &into, CAPS);
    let files = &ready.provisioned.cleared.checked.resolved.harness.host_files.0;
    let delivered =
        files.iter().map(|file| file.dest.as_str().replacen("/tmp/workspace", inside::WORKSPACE, 1));
    for path in delivered.chain([format!("{}/.env", inside::WORKSPACE)]) {
        if let Ok(below) = Path::new(&path).strip_prefix(inside::WORKSPACE) {
            drop(std::fs::remove_file(into.join(below)));
        }
    }
    emit.emit(match copied {
        Ok(done) => {
            let left_out: Vec<PathBuf> = done.skipped.into_iter().map(|(path, _)| path).collect();
            RunEvent::Kept { files: done.files, left_out: left_out.len() as u64, problem: String::new() }
        }
        Err(error) => {
            drop(std::fs::remove_dir_all(&into));
            RunEvent::Kept { files: 0, left_out: 0, problem: error.to_string() }
        }
    });
}
