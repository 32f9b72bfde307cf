//! `configuration.json`: what a run was configured with, written before anything starts. Every effective value with its
//! origin, the policy and the output's schema, so that a run can be explained after its files were changed.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::CheckedFiles;
use crate::resolve::explained::{self, ExplainedValue};
use crate::resolve::library::Library;

/// The version of this file's format.
pub const VERSION: u32 = 1;

const FILE: &str = "configuration.json";

/// A larger file is not one of ours.
const MAX_BYTES: u64 = 16 << 20;

/// What a run was configured with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedConfiguration {
    pub v: u32,
    /// The values of the harness.
    pub values: Vec<ExplainedValue>,
    /// What the sandbox may read, write, start and reach, as it was enforced.
    pub effective_policy: Vec<ExplainedValue>,
    /// The policy as it was written.
    pub policy: ConfigurationFile,
    /// The schema of the output, where the harness names one.
    pub schema: Option<ConfigurationFile>,
}

/// A file of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationFile {
    pub name: String,
    pub text: String,
}

impl SavedConfiguration {
    /// Text that looks like a credential is masked with `redact`.
    pub fn new(library: &mut Library, checked: &CheckedFiles, redact: impl Fn(&str) -> String) -> Self {
        let policy = &checked.policy;
        let policy_text = library.source(&policy.found).map(|id| library.text(id));
        let name = |found| library.layers.layer(found).shown(&found.path);
        let mut effective_policy = explained::policy_endpoints(library, &policy.policy);
        effective_policy.extend(explained::policy_values(library, &policy.policy));
        Self {
            v: VERSION,
            values: explained::values(library, &checked.resolved, None),
            effective_policy,
            policy: ConfigurationFile {
                name: name(&policy.found),
                text: policy_text.map(|text| redact(&text)).unwrap_or_default(),
            },
            schema: checked.schema.as_ref().map(|schema| ConfigurationFile {
                name: name(&schema.found),
                text: redact(&library.text(schema.source)),
            }),
        }
    }

    pub fn write(&self, run: &Path) -> std::io::Result<()> {
        std::fs::write(run.join(FILE), format!("{}\n", serde_json::to_string(self).unwrap_or_default()))
    }

    /// The configuration of a stored run. `None`: an earlier version did not keep it, or it cannot be read.
    pub fn load(run: &Path) -> Option<Self> {
        let path = run.join(FILE);
        let about = std::fs::symlink_metadata(&path).ok()?;
        if !about.is_file() || about.len() > MAX_BYTES {
            return None;
        }
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }
}
