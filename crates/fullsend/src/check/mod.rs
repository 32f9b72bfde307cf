//! Checks the files of a harness: references, frontmatter, schemas, policies, credentials. It pulls and starts nothing,
//! and fetches only what the harness pins by URL. It returns what a run needs from the files as types, so that no later
//! stage parses them again. `preflight` adds the checks of this host.

pub(crate) mod agent;
pub(crate) mod codeowners;
mod duplicate_keys;
pub(crate) mod expected_document;
pub(crate) mod fields;
pub(crate) mod host_sockets;
mod mcp_servers;
pub(crate) mod networks;
pub(crate) mod output;
pub(crate) mod policies;
mod provider_rules;
pub(crate) mod providers;
pub(crate) mod references;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod services;
pub(crate) mod signing;
mod skill_dependencies;
pub(crate) mod trigger;

use std::ops::Deref;

use yaml::Diagnostic;

use crate::resolve::Resolved;
use crate::resolve::layers::LayerPath;
use crate::resolve::library::Library;
use agent::{AgentFile, SkillFile};
use expected_document::ExpectedDocument;
use output::SchemaFile;
use policies::CheckedPolicy;
use providers::ProviderFile;

/// A resolved harness whose files were read and are valid. Only [`check`] makes one:
///
/// ```compile_fail,E0423
/// fn forge() -> fullsend::Checked {
///     fullsend::Checked(todo!())
/// }
/// ```
///
/// and what it found cannot be changed afterwards:
///
/// ```compile_fail,E0594
/// fn change(mut checked: fullsend::Checked) {
///     checked.skills = Vec::new();
/// }
/// ```
#[derive(Debug)]
pub struct Checked(CheckedFiles);

/// What a run needs of a harness and its files.
#[derive(Debug)]
pub struct CheckedFiles {
    pub resolved: Resolved,
    pub agent: AgentFile,
    pub skills: Vec<SkillFile>,
    pub plugins: Vec<references::Plugin>,
    pub policy: CheckedPolicy,
    pub schema: Option<SchemaFile>,
    /// The document that the caller of the run wants beside the harness's output.
    pub expected: Option<ExpectedDocument>,
    pub providers: Vec<ProviderFile>,
    pub scripts: Scripts,
}

impl Deref for Checked {
    type Target = CheckedFiles;

    fn deref(&self) -> &CheckedFiles {
        &self.0
    }
}

impl Checked {
    /// Asks the agent for a document of the caller's.
    #[must_use]
    pub fn expecting(self, document: ExpectedDocument) -> Self {
        Self(CheckedFiles { expected: Some(document), ..self.0 })
    }
}

/// The programs that a run starts on the host.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    pub pre: Option<LayerPath>,
    pub post: Option<LayerPath>,
    pub validation: Option<LayerPath>,
}

/// Checks one resolved harness. Returns it unless a run would fail because of an error.
pub fn check(
    library: &mut Library,
    mut resolved: Resolved,
    problems: &mut Vec<Diagnostic>,
) -> Option<Checked> {
    let before = problems.len();
    fields::check(library, &resolved, problems);
    mcp_servers::check(&resolved.harness, problems);
    rules::check(&resolved.harness.security, problems);
    secrets::check(library, &resolved, problems);
    references::check(library, &resolved, problems);
    let scripts = references::scripts(library, &resolved.harness, problems);
    let agent = agent::check(library, &resolved.harness, problems);
    let mut skills = agent::check_skills(library, &resolved.harness, problems);
    skill_dependencies::add(library, &resolved.harness, &mut skills, problems);
    let plugins = references::plugins(library, &resolved.harness, problems);
    let schema = output::check(library, &resolved, problems);
    let providers = providers::check(library, &resolved.harness, problems);
    let policy = policies::check(library, &mut resolved, &providers, problems);
    problems.extend(providers::replaced(library, &providers));
    if let (Some(agent), Some(schema)) = (&agent, &schema) {
        problems.extend(output::unmentioned_fields(library, agent, &skills, schema));
    }
    problems.extend(output::half_replaced(library, &resolved));
    if problems[before..].iter().any(Diagnostic::is_error) {
        return None;
    }
    Some(Checked(CheckedFiles {
        agent: agent?,
        policy: policy?,
        resolved,
        skills,
        plugins,
        schema,
        expected: None,
        providers,
        scripts,
    }))
}
