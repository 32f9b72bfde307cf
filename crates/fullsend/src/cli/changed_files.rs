//! The files that the accepted patch of a run changes.

use std::path::Path;

use crate::record::files;
use crate::render::patch::{self, PatchedFile};

/// None if the run has no accepted patch.
pub fn changed_files(directory: &Path) -> Vec<PatchedFile> {
    let bytes = files::accepted_patch(directory).and_then(|path| std::fs::read(path).ok());
    bytes.map(|bytes| patch::changed_files(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
}
