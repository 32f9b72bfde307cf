//! What a caller puts into the sandbox beside the harness's own things, and what it wants back: a session's memory and
//! resources. Nothing here knows what they mean.

use sandbox::{Mount, Sandbox};

use super::Stop;
use crate::guard::Guard;
use crate::runtime::state::{self, StateFile};

#[derive(Clone, Debug, Default)]
pub struct Belongings {
    /// There from the start; nothing can be mounted later.
    pub mounts: Vec<Mount>,
    /// Written before the agent starts, by their paths inside; the agent may change them.
    pub files: Vec<StateFile>,
    /// A directory inside whose files come home, redacted, however the run ended.
    pub keep: Option<String>,
}

impl Belongings {
    pub(super) fn unpack(&self, sandbox: &Sandbox) -> Result<(), Stop> {
        for StateFile { path, contents } in &self.files {
            state::write(sandbox, path, contents)
                .map_err(|error| Stop::internal(format!("{path} cannot be put into the sandbox: {error}")))?;
        }
        Ok(())
    }

    /// What the agent left; what cannot be read any more is not there.
    pub(super) fn pack(&self, sandbox: &Sandbox, guard: &Guard) -> Vec<StateFile> {
        let Some(directory) = &self.keep else { return Vec::new() };
        let clean = |StateFile { path, contents }| match String::from_utf8(contents) {
            Ok(text) => StateFile { path, contents: guard.redact(&text).into_owned().into_bytes() },
            Err(error) => StateFile { path, contents: error.into_bytes() },
        };
        state::read(sandbox.root(), directory.trim_start_matches('/'))
            .unwrap_or_default()
            .into_iter()
            .map(clean)
            .collect()
    }
}
