//! Extra files: what a caller puts into the sandbox beside the harness's own files, and the directory that it gets back.
//! A session uses them for its memory and resources. This module does not know what they mean.

use sandbox::Mount;

use super::Stop;
use crate::backend::AgentSandbox;
use crate::guard::Guard;
use crate::runtime::state::{self, StateFile};

#[derive(Clone, Debug, Default)]
pub struct ExtraFiles {
    /// Mounted when the sandbox starts; nothing can be mounted later.
    pub mounts: Vec<Mount>,
    /// Written before the agent starts, by their paths inside; the agent may change them.
    pub files: Vec<StateFile>,
    /// A directory inside. The caller gets its files back, redacted, however the run ends.
    pub returned: Option<String>,
}

impl ExtraFiles {
    pub(super) fn write_into(&self, sandbox: &AgentSandbox) -> Result<(), Stop> {
        for StateFile { path, contents } in &self.files {
            state::write(sandbox, path, contents)
                .map_err(|error| Stop::internal(format!("cannot write {path} into the sandbox: {error}")))?;
        }
        Ok(())
    }

    /// The files of the returned directory. A directory that cannot be read gives none.
    pub(super) fn read_back(&self, sandbox: &AgentSandbox, guard: &Guard) -> Vec<StateFile> {
        let Some(directory) = &self.returned else { return Vec::new() };
        let redacted = |StateFile { path, contents }| match String::from_utf8(contents) {
            Ok(text) => StateFile { path, contents: guard.redact(&text).into_owned().into_bytes() },
            Err(error) => StateFile { path, contents: guard.redact_bytes(error.as_bytes()).into_owned() },
        };
        state::read(sandbox.root(), directory.trim_start_matches('/'))
            .unwrap_or_default()
            .into_iter()
            .map(redacted)
            .collect()
    }
}
