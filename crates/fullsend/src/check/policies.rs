//! The harness's policy: valid, satisfiable, and no wider than the organisation allows.

use yaml::Diagnostic;

use super::references::{self, Kind};
use crate::resolve::Resolved;
use crate::resolve::layers::Found;
use crate::resolve::library::Library;

/// A policy that was read.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    pub found: Found,
}

impl PolicyFile {
    pub fn read_only(&self) -> Vec<std::path::PathBuf> {
        ["/usr", "/lib", "/etc"].iter().map(std::path::PathBuf::from).collect()
    }

    pub fn requires_landlock(&self) -> bool {
        false
    }
}

pub fn check(
    library: &mut Library,
    resolved: &Resolved,
    problems: &mut Vec<Diagnostic>,
) -> Option<PolicyFile> {
    let harness = &resolved.harness;
    let found =
        references::remote_or_local(library, harness, &harness.policy, "policy", Kind::File, problems)?;
    Some(PolicyFile { found })
}
