//! Which variables of the host's environment a harness needs, and which of them are missing. Values never leave this
//! module except through `Template::expand`.

use std::collections::BTreeSet;

use yaml::{Diagnostic, Span};

use super::library::Library;
use crate::harness::Harness;
use crate::harness::template::Template;

/// The host's environment, as a function so that tests and workers can bring their own.
pub type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How much an unset variable matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The run is about to start.
    Required,
    /// The file is only being read.
    Warned,
}

/// Never given to a run: they would let it act as the CI job itself.
const WITHHELD: &[&str] = &["ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"];

/// A variable's value, unless no run may get it.
pub fn value(environment: VariableLookup<'_>, name: &str) -> Option<String> {
    if WITHHELD.contains(&name) { None } else { environment(name) }
}

/// The variable that names the nearest directory of configuration: harnesses and their scripts use it to find their own
/// files.
pub const CONFIGURATION_DIRECTORY: &str = "FULLSEND_DIR";

/// Its value: the repository's `.fullsend`, or the organisation's where the repository has none.
pub fn configuration_directory(library: &Library) -> Option<String> {
    let nearest = library.layers.iter().rev().find_map(|layer| layer.path())?;
    Some(nearest.to_string_lossy().into_owned())
}

/// One message for all of `required_env` that is missing, and one for each `${VAR}` that is unset.
pub fn check(
    harness: &Harness,
    library: &Library,
    environment: VariableLookup<'_>,
    how: Strictness,
) -> Vec<Diagnostic> {
    let mut problems: Vec<Diagnostic> = missing_required(harness, environment, how).into_iter().collect();
    for (field, at, template) in templates(harness) {
        let layer = library.layer_of(at).words();
        problems.extend(unset(
            &format!("{field} (set by the {layer} layer)"),
            at,
            template,
            environment,
            how,
        ));
    }
    problems
}

/// One message for each variable of a text that is not set.
pub fn unset(
    field: &str,
    at: Span,
    template: &Template,
    environment: VariableLookup<'_>,
    how: Strictness,
) -> Vec<Diagnostic> {
    let missing = template.variables().filter(|name| value(environment, name).is_none());
    let say = |name: &str| {
        let message = format!("{field} needs the variable {name}, which is not set");
        let help = format!("set {name} in the environment, or write `$$` for a dollar");
        of_strictness(how, "unset-variable", at, message).help(help)
    };
    missing.map(say).collect()
}

fn missing_required(
    harness: &Harness,
    environment: VariableLookup<'_>,
    how: Strictness,
) -> Option<Diagnostic> {
    let missing: Vec<_> =
        harness.required_env.iter().filter(|name| value(environment, name.as_str()).is_none()).collect();
    let names: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
    let first = missing.first()?;
    let message = format!("`required_env` names variables that are not set: {}", names.join(", "));
    Some(
        of_strictness(how, "required-env", first.at, message)
            .help("the workflow that calls fullsend provides them"),
    )
}

fn of_strictness(how: Strictness, code: &'static str, at: Span, message: String) -> Diagnostic {
    match how {
        Strictness::Required => Diagnostic::error(code, at, message),
        Strictness::Warned => Diagnostic::warning(code, at, message),
    }
}

/// The variables that a caller over the network may set: those that become variables of the agent and of scripts. A
/// caller may not set a variable that names a file, an image or a program of the host, or that goes to a server.
pub fn settable(harness: &Harness) -> BTreeSet<String> {
    let mut wanted: BTreeSet<String> =
        harness.required_env.iter().map(|name| name.as_str().to_owned()).collect();
    for (_, _, template) in templates(harness).iter().filter(|(field, ..)| is_variable(field)) {
        wanted.extend(template.variables().map(str::to_owned));
    }
    let kept = kept_by_host(harness);
    wanted.retain(|name| !kept.contains(name));
    wanted
}

/// The variables that name a file, an image or a program of the host, are part of a command, or go to a server.
pub fn kept_by_host(harness: &Harness) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    for (_, _, template) in templates(harness).iter().filter(|(field, ..)| !is_variable(field)) {
        kept.extend(template.variables().map(str::to_owned));
    }
    let sources = harness.host_files.0.iter().flat_map(|file| file.src.variables());
    kept.extend(sources.map(str::to_owned));
    kept
}

/// Whether a field becomes a variable of the agent or of scripts.
fn is_variable(field: &str) -> bool {
    ["env.runner.", "env.sandbox.", "runner_env."].iter().any(|prefix| field.starts_with(prefix))
}

/// Every text of a harness that may hold `${VAR}`, with its field.
pub fn templates(harness: &Harness) -> Vec<(String, Span, &Template)> {
    let mut found: Vec<(String, Span, &Template)> = Vec::new();
    for (field, template) in [
        ("image", harness.image.as_ref()),
        ("agent_input", harness.agent_input.as_ref()),
        ("validation_loop.preflight_check", harness.validation_loop.preflight_check.as_ref()),
    ] {
        found.extend(template.map(|template| (field.to_owned(), template.at, &template.value)));
    }
    for file in harness.host_files.0.iter().filter(|file| file.optional != Some(true)) {
        found.push((format!("host_files src of {}", file.dest.value), file.src.at, &file.src.value));
    }
    let maps = [
        ("env.runner", &harness.env.runner),
        ("env.sandbox", &harness.env.sandbox),
        ("runner_env", &harness.runner_env),
    ];
    for (field, variables) in maps {
        found.extend(
            variables
                .0
                .iter()
                .map(|(name, value)| (format!("{field}.{}", name.value), value.at, &value.value)),
        );
    }
    for server in &harness.api_servers {
        let field = |name: &str| format!("env.{name} of the api server {}", server.name.value);
        found.extend(server.env.0.iter().map(|(name, value)| (field(name), value.at, &value.value)));
    }
    for (name, server) in harness.mcp_servers.iter() {
        let field = |variable: &str| format!("mcp_servers.{}.env.{variable}", name.value);
        found.extend(server.env.0.iter().map(|(variable, value)| (field(variable), value.at, &value.value)));
        found
            .extend(server.args.iter().map(|arg| (format!("mcp_servers.{}.args", name.value), name.at, arg)));
        let field = |header: &str| format!("mcp_servers.{}.headers.{header}", name.value);
        found.extend(server.headers.iter().map(|(header, value)| (field(header), value.at, &value.value)));
    }
    found
}
