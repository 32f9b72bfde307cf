//! The state directory of one sandbox: its layout, its making and its removal.

use crate::identity::Mapping;
use crate::step::{AtStep, Step, StepError};
use crate::tree;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where the sandbox's own identity may write: the upper layers of views.
pub(crate) fn layers(state_directory: &Path) -> PathBuf {
    state_directory.join("layers")
}

/// Makes the directory and what belongs into it. Undone by `remove`.
pub(crate) fn make(path: &Path, mapping: Mapping) -> Result<(), StepError> {
    fs::DirBuilder::new().mode(0o700).create(path).at(Step::MakeState, path.display())?;
    let made = make_layers(&layers(path), mapping);
    if made.is_err() {
        drop(fs::remove_dir_all(path));
    }
    made
}

fn make_layers(path: &Path, mapping: Mapping) -> Result<(), StepError> {
    fs::DirBuilder::new().mode(0o700).create(path).at(Step::MakeState, path.display())?;
    match mapping {
        Mapping::Caller => Ok(()),
        Mapping::Fresh { id } => {
            std::os::unix::fs::chown(path, Some(id), Some(id)).at(Step::MakeState, path.display())
        }
    }
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    tree::remove_all(path)
}
