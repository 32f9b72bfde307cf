//! The directory of one run: created with a new id, private to its owner.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::Stop;
use crate::event::outcome::OutcomeKind;
use crate::provision::SANDBOXES;
use crate::record::dsse::RecordSigner;
use crate::record::{self, statement};

pub struct RunDirectory {
    pub id: String,
    pub path: PathBuf,
}

impl RunDirectory {
    /// `id` is the id that the caller knows already, if there is one.
    pub fn create(runs: &Path, owner: Option<&str>, id: Option<String>) -> Result<Self, Stop> {
        let id = id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        let path = runs.join(owner_directory(owner.unwrap_or("local"))).join(&id);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        // A relative path or a link means the directory that it leads to.
        let path = made.and_then(|()| path.canonicalize());
        let path = path.map_err(|error| {
            let runs = runs.display();
            Stop::missing(format!(
                "cannot create a directory for the run in {runs}: {error}; name another one with --output-dir"
            ))
        })?;
        Ok(Self { id, path })
    }

    /// Removes what only a running run needs.
    pub fn clean(&self) {
        drop(std::fs::remove_dir_all(self.path.join("staging")));
        drop(std::fs::remove_dir(self.path.join(SANDBOXES)));
    }

    /// Writes `run.json` and the files that tools search, from the events on disk, and signs what is there. A record that
    /// does not end as the run did is an error.
    pub fn write_record(&self, outcome: OutcomeKind, signer: Option<&RecordSigner>) -> Result<(), Stop> {
        let events = crate::event::log::read(&self.path.join("events.jsonl"));
        let events = events.map_err(|error| Stop::internal(error.to_string()))?;
        let record = record::fold(&events);
        record::write(&self.path, &record)
            .and_then(|()| record::project(&self.path, &events))
            .map_err(|error| Stop::unwritable(&format!("cannot write run.json: {error}"), &error))?;
        if record.outcome == Some(outcome) {
            let signed = signer.map(|signer| statement::write(&self.path, &events, &record, signer));
            return signed
                .unwrap_or(Ok(()))
                .map_err(|error| Stop::missing(format!("the record is not signed: {error}")));
        }
        let recorded = record.outcome.map_or("no outcome", OutcomeKind::as_str);
        Err(Stop::internal(format!("the run ended as {}, but its log says {recorded}", outcome.as_str())))
    }
}

/// `owner/name` as two directory names. No other path can come out.
pub fn owner_directory(owner: &str) -> String {
    let part = |part: &str| {
        part.chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
            .collect::<String>()
    };
    let parts: Vec<String> =
        owner.split('/').map(part).filter(|part| !part.trim_matches('.').is_empty()).collect();
    if parts.is_empty() { "local".to_owned() } else { parts.join("/") }
}
