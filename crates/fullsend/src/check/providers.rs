//! The providers that a harness names: defined, of a known type, and without credentials written out.

use yaml::{Diagnostic, Span};

use super::references;
use crate::harness::Harness;
use crate::harness::provider::{self, Profile, Provider};
use crate::harness::reference::LocalPath;
use crate::resolve::layers::{Found, LayerKind};
use crate::resolve::library::Library;
use crate::resolve::variables::{self, Environment, Strictness};

/// A provider and the profile it follows.
#[derive(Clone, Debug)]
pub struct ProviderFile {
    pub found: Found,
    pub provider: Provider,
    /// The profile's file; a built-in profile has none.
    pub profile: Option<Profile>,
    pub inference_capable: bool,
}

/// Types that need no profile file, and whether the model's door may use them.
const BUILT_IN: &[(&str, bool)] =
    &[("anthropic", true), ("openai", true), ("github", false), ("gitlab", false)];

pub fn check(library: &mut Library, harness: &Harness, problems: &mut Vec<Diagnostic>) -> Vec<ProviderFile> {
    let mut files: Vec<ProviderFile> = Vec::new();
    for reference in &harness.providers {
        let Some(found) = references::provider(library, harness, reference, problems) else { continue };
        problems.extend(library.remarks(&found, super::secrets::literals).iter().cloned());
        let (provider, mut found_problems) = library.decode::<Provider>(&found);
        problems.append(&mut found_problems);
        let Some(provider) = provider else { continue };
        problems.extend(provider::problems(&provider));
        if let Some(other) = files.iter().find(|file| file.provider.name == provider.name) {
            let message = format!("two providers are called `{}`", provider.name.value);
            problems.push(
                Diagnostic::error("provider-collision", provider.name.at, message)
                    .related(other.provider.name.at, "the other one"),
            );
            continue;
        }
        files.extend(with_profile(library, harness, found, provider, problems));
    }
    more_than_one_model(&files, problems);
    files
}

fn with_profile(
    library: &mut Library,
    harness: &Harness,
    found: Found,
    provider: Provider,
    problems: &mut Vec<Diagnostic>,
) -> Option<ProviderFile> {
    let declared = harness
        .openshell
        .iter()
        .flat_map(|openshell| &openshell.profiles)
        .filter_map(|profile| profile.local().cloned());
    let by_name = LocalPath::parse(&format!("profiles/{}.yaml", provider.kind.value)).ok();
    for path in declared.chain(by_name) {
        let Some(profile_found) = library.layers.find(&path) else { continue };
        let (profile, mut found_problems) = library.decode::<Profile>(&profile_found);
        problems.append(&mut found_problems);
        if let Some(profile) = profile.filter(|profile| profile.id == provider.kind) {
            let inference_capable = profile.inference_capable == Some(true);
            return Some(ProviderFile { found, provider, profile: Some(profile), inference_capable });
        }
    }
    if let Some((_, inference_capable)) = BUILT_IN.iter().find(|(name, _)| *name == provider.kind.as_str()) {
        return Some(ProviderFile { found, provider, profile: None, inference_capable: *inference_capable });
    }
    let message = format!("the provider's type `{}` has no profile", provider.kind.value);
    let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let help = format!("built in: {}; others need profiles/{}.yaml", known.join(", "), provider.kind.value);
    let problem = Diagnostic::error("no-profile", provider.kind.at, message).help(help);
    problems.push(match yaml::closest(&provider.kind.value.to_string(), known.iter().copied()) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem,
    });
    None
}

/// A provider says where a key may go: a nearer file in the place of the organisation's could send it elsewhere.
pub fn replaced(library: &mut Library, files: &[ProviderFile]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for file in files.iter().filter(|file| file.found.layer == LayerKind::Repository) {
        let plain = file.found.path.trim_start_matches("customized/");
        let theirs = library.layers.get(LayerKind::Organisation).and_then(|layer| layer.find(plain));
        let Some(Ok(source)) = theirs.map(|theirs| library.source(&theirs)) else { continue };
        let message = format!(
            "the organisation's provider `{}` is replaced here, and with it where its key may go",
            file.provider.name.value
        );
        warnings.push(
            Diagnostic::warning("provider-replaced", file.provider.name.at, message)
                .related(Span::start_of(source), "the organisation's"),
        );
    }
    warnings
}

/// The variables that the providers need and the environment does not have.
pub fn unset(files: &[ProviderFile], environment: Environment<'_>, how: Strictness) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for file in files {
        let about =
            |part: &str, key: &str| format!("{part}.{key} of the provider {}", file.provider.name.value);
        let parts = [("credentials", &file.provider.credentials), ("config", &file.provider.config)];
        for (part, map) in parts {
            for (key, template) in map.iter() {
                problems.extend(variables::unset(&about(part, key), template.at, template, environment, how));
            }
        }
    }
    problems
}

/// The model's door has one key.
fn more_than_one_model(files: &[ProviderFile], problems: &mut Vec<Diagnostic>) {
    let mut capable = files.iter().filter(|file| file.inference_capable);
    if let (Some(first), Some(second)) = (capable.next(), capable.next()) {
        let message = "two providers could serve the model, and a run uses one";
        problems.push(
            Diagnostic::error("two-models", second.provider.kind.at, message)
                .related(first.provider.kind.at, "the other one")
                .help("keep one of them in `providers`"),
        );
    }
}
