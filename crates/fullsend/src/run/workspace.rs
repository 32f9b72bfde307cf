//! Saves a copy of the agent's workspace for `fullsend enter`, before the sandbox closes. Files that were delivered from
//! the host are left out, because some of them are credentials.

use std::path::{Path, PathBuf};

use sandbox::TransferCaps;

use crate::bootstrap::Ready;
use crate::event::RunEvent;
use crate::event::log::Emitter;
use crate::git::recognised::defuse;
use crate::runtime::paths;

/// The directory of the copy, in the run's directory. The name is part of the run's format.
pub const SAVED_WORKSPACE: &str = "kept";

const CAPS: TransferCaps = TransferCaps { bytes: 2 << 30, files: 200_000 };

/// After which runs the workspace is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaveWorkspace {
    Always,
    OnFailure,
    #[default]
    Never,
}

impl SaveWorkspace {
    pub(super) fn applies(self, succeeded: bool) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => !succeeded,
            Self::Never => false,
        }
    }
}

/// A copy that fails does not fail the run; the record says so.
pub(super) fn save(ready: &Ready, directory: &Path, emit: &Emitter) {
    let into = directory.join(SAVED_WORKSPACE);
    let copied = ready.provisioned.sandbox.download(Path::new(paths::WORKSPACE), &into, CAPS);
    let files = &ready.provisioned.inputs.checked().resolved.harness.host_files.0;
    let delivered =
        files.iter().map(|file| file.dest.as_str().replacen("/tmp/workspace", paths::WORKSPACE, 1));
    for path in delivered.chain([format!("{}/.env", paths::WORKSPACE)]) {
        if let Ok(below) = Path::new(&path).strip_prefix(paths::WORKSPACE) {
            drop(std::fs::remove_file(into.join(below)));
        }
    }
    // The agent wrote the configuration of every repository in there, and git would run what it names.
    let defused = match copied.is_ok() {
        true => defuse(&into),
        false => Ok(0),
    };
    let copied = match (copied, defused) {
        (Ok(_), Err(error)) => Err(error.to_string()),
        (copied, _) => copied.map_err(|error| error.to_string()),
    };
    emit.emit(match copied {
        Ok(done) => {
            let left_out: Vec<PathBuf> = done.skipped.into_iter().map(|(path, _)| path).collect();
            RunEvent::WorkspaceSaved {
                files: done.files,
                left_out: left_out.len() as u64,
                problem: String::new(),
            }
        }
        Err(error) => {
            drop(std::fs::remove_dir_all(&into));
            RunEvent::WorkspaceSaved { files: 0, left_out: 0, problem: error }
        }
    });
}
