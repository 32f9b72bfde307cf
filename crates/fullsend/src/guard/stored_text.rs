//! The originals of withheld texts, for people: one file for each text in `withheld/` of the run directory, named by its
//! digest, with credentials masked. The agent cannot read them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::event::log::sha256;

/// The directory below the run directory.
const DIRECTORY: &str = "withheld";
/// A run keeps no more texts than this.
const MAX_TEXTS: usize = 200;
/// More of one text is cut off.
const MAX_BYTES: usize = 1 << 20;

pub(super) struct StoredTexts {
    run_directory: PathBuf,
}

impl StoredTexts {
    pub(super) fn new(run_directory: PathBuf) -> Self {
        Self { run_directory }
    }

    /// Where in the run directory the text is now. `None`: it could not be saved; the text is withheld all the same.
    pub(super) fn keep(&self, text: &str) -> Option<String> {
        let name = format!("{DIRECTORY}/{}.txt", &sha256(text.as_bytes())[..16]);
        let path = self.run_directory.join(&name);
        if path.exists() {
            return Some(name);
        }
        let directory = self.run_directory.join(DIRECTORY);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
        if fs::read_dir(&directory).ok()?.count() >= MAX_TEXTS {
            return None;
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        file.write_all(&text.as_bytes()[..text.floor_char_boundary(MAX_BYTES)]).ok()?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = StoredTexts::new(scratch.path().to_owned());
        let name = kept.keep("an order").unwrap();
        assert_eq!(kept.keep("an order").unwrap(), name);
        assert_eq!(fs::read_to_string(scratch.path().join(&name)).unwrap(), "an order");
        assert_eq!(fs::read_dir(scratch.path().join(DIRECTORY)).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_cannot_be_made_keeps_nothing() {
        assert_eq!(StoredTexts::new(PathBuf::from("/proc/none")).keep("an order"), None);
    }
}
