//! Every check of the configuration that starts nothing. `check`, `run` and `wake` share it, so all three report the
//! same problems of a harness and of this host in the same words. It does not scan texts: `check` and a run let the
//! guard do that afterwards. The only programs it starts are the agent programs, to ask for their version.

mod interpreter;
mod openshell;
mod script_variables;
mod unsupported;

use std::path::Path;

use yaml::{Diagnostic, Span};

use crate::check::providers::{self, ProviderFile};
use crate::check::{self, Checked};
use crate::credentials;
use crate::guard::setup;
use crate::harness::Harness;
use crate::harness::names::Backend;
use crate::harness::provider;
use crate::harness::template::Template;
use crate::provision::gateway::{self, ModelSetupError, Recording};
use crate::provision::image::{self as run_image, RunImageError};
use crate::provision::{host_files, network, prices};
use crate::registry::PullError;
use crate::resolve::library::Library;
use crate::resolve::variables::{self, Strictness, VariableLookup};
use crate::resolve::{Choices, Resolved, resolve};
use crate::runtime;
use crate::runtime::programs::ProgramSearch;

/// The surroundings of a run on this host.
pub struct PreflightContext<'a> {
    /// The host's environment.
    pub environment: VariableLookup<'a>,
    /// How much an unset variable matters.
    pub strictness: Strictness,
    pub repository: &'a Path,
    pub recording: Option<&'a Recording>,
}

/// Codes of problems of this host, not of the files.
const HOST_CODES: &[&str] = &[
    "required-env",
    "unset-variable",
    "runtime-program",
    "interpreter",
    "host-file",
    "image-not-cached",
    "remote-not-cached",
    "remote-unreachable",
    "remote-cache",
    "credential",
    "no-model",
    "learned-scanner",
];

/// Whether a problem is about this host, not about the files.
pub fn is_missing_on_host(problem: &Diagnostic) -> bool {
    HOST_CODES.contains(&problem.code)
}

/// Resolves and checks a harness, and everything that a run of it needs. `None`: `problems` has at least one error.
pub fn preflight(
    library: &mut Library,
    name: &str,
    choices: &Choices,
    context: &PreflightContext<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Checked> {
    let before = problems.len();
    let directory = variables::configuration_directory(library);
    let environment = |name: &str| match &directory {
        Some(directory) if name == variables::CONFIGURATION_DIRECTORY => Some(directory.clone()),
        _ => (context.environment)(name),
    };
    let context = &PreflightContext { environment: &environment, ..*context };
    let resolved = resolve(library, name, choices, problems)?;
    problems.extend(variables::check(&resolved.harness, library, context.environment, context.strictness));
    let checked = check::check(library, resolved, problems)?;
    problems.extend(runtime::refused_options(&checked));
    problems.extend(unsupported::fields(&checked));
    problems.extend(check::signing::problems(&checked));
    problems.extend(checked.resolved.harness.trigger.as_ref().and_then(check::trigger::problem));
    problems.extend(openshell::refused(&checked));
    // A model that is replayed needs no key.
    let replays = matches!(context.recording, Some(Recording::Replay(_)));
    let asked = checked.providers.iter().filter(|file| !(replays && file.inference_capable()));
    for file in asked {
        problems.extend(providers::unset(file, context.environment, context.strictness));
    }
    if !problems[before..].iter().any(Diagnostic::is_error) {
        problems.extend(refusals(&checked, library, context));
    }
    (!problems[before..].iter().any(Diagnostic::is_error)).then_some(checked)
}

/// What each part of a run would refuse, for a harness with valid files.
fn refusals(checked: &Checked, library: &Library, context: &PreflightContext<'_>) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let value = |name: &str| variables::value(context.environment, name);
    let mut found = Vec::new();
    found.extend(guard(harness, &value, context.strictness));
    found.extend(program(harness, &value));
    found.extend(model(checked, library, &value, context));
    found.extend(credential_values(checked, &value, context.recording));
    found.extend(image_of(&checked.resolved, library, &value));
    found.extend(interpreter::missing(checked, library, &value));
    found.extend(script_variables::missing_variables(checked, library, &value));
    found.extend(host_file_contents(checked, library, &value));
    found.extend(agent_input(harness, library, &value, context.repository));
    found.extend(network_plan(checked));
    found.extend(network::unreachable_servers(checked));
    found.extend(network::unread_servers(checked));
    found
}

/// Whether every `${VAR}` of a text has a value. Unset variables were reported before.
fn is_set(template: &Template, value: VariableLookup<'_>) -> bool {
    template.variables().all(|name| value(name).is_some())
}

fn guard(harness: &Harness, value: VariableLookup<'_>, strictness: Strictness) -> Option<Diagnostic> {
    let error = setup::check(harness, value).err()?;
    let learned = &harness.security.host_scanners.llm_guard;
    let (code, at) = match &error {
        setup::GuardError::AllowlistUnset { .. } if strictness == Strictness::Warned => return None,
        setup::GuardError::NoModel(_) => ("learned-scanner", learned.required.at),
        setup::GuardError::NoWeights(_) => {
            ("learned-scanner", learned.model.as_ref().map_or(learned.required.at, |model| model.at))
        }
        _ => ("tool-allowlist", harness.security.sandbox_hooks.tool_allowlist_pretool.enabled.at),
    };
    Some(Diagnostic::error(code, at, error.to_string()))
}

/// An image may bring the program along, and is not searched.
fn program(harness: &Harness, value: VariableLookup<'_>) -> Option<Diagnostic> {
    if harness.image.is_some() {
        return None;
    }
    let error = runtime::of(harness.runtime.value).find_package(harness, &ProgramSearch::new(value)).err()?;
    Some(Diagnostic::error("runtime-program", harness.runtime.at, error.to_string()))
}

fn model(
    checked: &Checked,
    library: &Library,
    value: VariableLookup<'_>,
    context: &PreflightContext<'_>,
) -> Option<Diagnostic> {
    let harness = &checked.resolved.harness;
    let provider = checked.providers.iter().find(|file| file.inference_capable());
    let configured = |file: &ProviderFile| file.provider.config.iter().all(|(_, text)| is_set(text, value));
    if provider.is_some_and(|file| !configured(file)) {
        return None;
    }
    let error = gateway::check(checked, library, value, context.recording).err()?;
    let of_provider = provider.map(|file| file.provider.name.at);
    let (code, at) = match &error {
        ModelSetupError::NoProvider => ("no-model", harness.agent.at),
        ModelSetupError::Unpriced { .. } => ("unpriced", budget_at(harness)),
        _ => ("model", of_provider.unwrap_or(harness.agent.at)),
    };
    let diagnostic = Diagnostic::error(code, at, error.to_string());
    Some(match &error {
        ModelSetupError::Unpriced { models, .. } => diagnostic.help(prices::lines_to_paste(models)),
        _ => diagnostic,
    })
}

fn budget_at(harness: &Harness) -> Span {
    let fields = harness
        .budget
        .as_ref()
        .map(|budget| [&budget.usd, &budget.session_usd, &budget.day_usd, &budget.organisation_day_usd]);
    let first = fields.and_then(|fields| fields.into_iter().flatten().next());
    first.map_or(harness.agent.at, |dollars| dollars.at)
}

/// Credentials whose values exist but cannot be used. A command that prints a value is not run.
fn credential_values(
    checked: &Checked,
    value: VariableLookup<'_>,
    recording: Option<&Recording>,
) -> Vec<Diagnostic> {
    let replays = matches!(recording, Some(Recording::Replay(_)));
    let mut found = Vec::new();
    for file in checked.providers.iter().filter(|file| !(replays && file.inference_capable())) {
        for (key, template) in provider::credentials(&file.provider).filter(|(_, text)| is_set(text, value)) {
            let error = credentials::check(file, &key.value, template, value).err();
            found.extend(error.map(|error| Diagnostic::error("credential", template.at, error.to_string())));
        }
    }
    found
}

/// An image that is not in the cache yet is not asked for.
fn image_of(resolved: &Resolved, library: &Library, value: VariableLookup<'_>) -> Option<Diagnostic> {
    let name = resolved.harness.image.as_ref().filter(|name| is_set(name, value))?;
    let error = run_image::check(resolved, library, value).err()?;
    let is_remote = resolved.harness.sandbox.backend.value == Backend::Openshell;
    let code = match &error {
        RunImageError::Pull(PullError::NotAllowed { .. }) => "image-not-allowed",
        // An OpenShell gateway pulls it itself.
        RunImageError::Pull(PullError::NotCached { .. }) if is_remote => return None,
        RunImageError::Pull(PullError::NotCached { .. }) => "image-not-cached",
        _ => "image",
    };
    Some(Diagnostic::error(code, name.at, error.to_string()))
}

fn host_file_contents(checked: &Checked, library: &Library, value: VariableLookup<'_>) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let has_pre_script = harness.pre_script.is_some();
    let mut found = Vec::new();
    for file in harness.host_files.0.iter().filter(|file| is_set(&file.src, value)) {
        match host_files::check(file, has_pre_script, library, value) {
            Err(error) => found.push(Diagnostic::error("host-file", file.src.at, error.to_string())),
            Ok(names) => {
                let runtime = runtime::of(harness.runtime.value);
                found.extend(runtime::options::cleared(checked, runtime, &names, file.src.at));
            }
        }
    }
    found
}

/// A pre-script may still make the directory.
fn agent_input(
    harness: &Harness,
    library: &Library,
    value: VariableLookup<'_>,
    repository: &Path,
) -> Option<Diagnostic> {
    let input = harness.agent_input.as_ref().filter(|input| is_set(input, value))?;
    if harness.pre_script.is_some() {
        return None;
    }
    let error = host_files::input_directory(input, library, repository, value).err()?;
    Some(Diagnostic::error("host-file", input.at, error.to_string()))
}

fn network_plan(checked: &Checked) -> Option<Diagnostic> {
    let why = network::check(checked).err()?;
    let at = checked.resolved.harness.policy.at;
    Some(Diagnostic::error("network", at, format!("the network of the sandbox cannot be planned: {why}")))
}
