//! The providers that a harness names: defined, of a known type, without credentials written out, and each credential
//! under a name of its own.

use egress::credentials::is_part_of_signing_key;
use policy::model::{Endpoint, NetworkRule};
use yaml::{Diagnostic, Span};

use super::references;
use crate::harness::Harness;
use crate::harness::provider::{self, AuthStyle, Profile, Provider, ProviderCategory};
use crate::harness::reference::LocalPath;
use crate::resolve::layers::{LayerKind, LayerPath};
use crate::resolve::library::Library;
use crate::resolve::variables::{self, Strictness, VariableLookup};

/// A provider and the profile it follows.
#[derive(Clone, Debug)]
pub struct ProviderFile {
    pub found: LayerPath,
    pub provider: Provider,
    pub profile: Profile,
    /// Where its credentials may go. None: where the policy binds the provider by name.
    pub endpoints: Vec<Endpoint>,
}

impl ProviderFile {
    /// Whether the model gateway may use it. OpenShell's own profile for Google's models marks this with its category.
    pub fn inference_capable(&self) -> bool {
        let by_category =
            self.profile.category == Some(ProviderCategory::Inference) && self.has_google_hosts();
        self.profile.inference_capable.unwrap_or(by_category)
    }

    /// Whether its credentials go to Google's services.
    pub fn has_google_hosts(&self) -> bool {
        let is_google =
            |endpoint: &Endpoint| endpoint.host.to_string().ends_with("aiplatform.googleapis.com");
        self.endpoints.iter().any(is_google)
    }
}

pub fn check(library: &mut Library, harness: &Harness, problems: &mut Vec<Diagnostic>) -> Vec<ProviderFile> {
    let mut files: Vec<ProviderFile> = Vec::new();
    for reference in &harness.providers {
        let Some(found) = references::provider(library, harness, reference, problems) else { continue };
        problems.extend(library.diagnostics(&found, super::secrets::literals).iter().cloned());
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
    shared_names(harness, &files, problems);
    files
}

fn with_profile(
    library: &mut Library,
    harness: &Harness,
    found: LayerPath,
    provider: Provider,
    problems: &mut Vec<Diagnostic>,
) -> Option<ProviderFile> {
    // Missing files are reported with the references.
    let declared = harness.openshell.iter().flat_map(|openshell| &openshell.profiles).filter_map(|profile| {
        let kind = references::ReferenceKind::File;
        references::remote_or_local(library, harness, profile, "openshell.profiles", kind, &mut Vec::new())
    });
    let by_name = LocalPath::parse(&format!("profiles/{}.yaml", provider.kind.value)).ok();
    let by_name = by_name.and_then(|path| library.find(&path, provider.kind.at, "profiles").ok());
    let profiles: Vec<LayerPath> = declared.chain(by_name).collect();
    for profile_found in profiles {
        let (profile, mut found_problems) = library.decode::<Profile>(&profile_found);
        problems.append(&mut found_problems);
        if let Some(profile) = profile.filter(|profile| profile.id == provider.kind) {
            let absent = provider::absent(&provider, &profile);
            if absent.is_empty() {
                problems.extend(check_placements(&provider, &profile));
            }
            problems.extend(absent);
            let endpoints = endpoints(&profile, problems);
            return Some(ProviderFile { found, provider, profile, endpoints });
        }
    }
    let message = format!("the provider's type `{}` has no profile", provider.kind.value);
    let known: Vec<&str> = built_in().collect();
    let help = format!("built in: {}; others need profiles/{}.yaml", known.join(", "), provider.kind.value);
    let problem = Diagnostic::error("no-profile", provider.kind.at, message).help(help);
    problems.push(match yaml::closest(&provider.kind.value.to_string(), known.iter().copied()) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem,
    });
    None
}

/// Reports where the credential goes by default, and entries that lack a field that their style needs.
fn check_placements(provider: &Provider, profile: &Profile) -> Vec<Diagnostic> {
    // The model gateway uses the key; the sandbox gets no placeholder for it.
    if profile.inference_capable == Some(true) {
        return Vec::new();
    }
    let mut found = Vec::new();
    // The parts of an AWS key are not put into a request: they sign it.
    let placed = provider::credentials(provider).filter(|(name, _)| !is_part_of_signing_key(&name.value));
    for (name, _) in placed {
        if provider::entries(profile, &name.value).all(|entry| entry.auth_style.is_none()) {
            let message = format!(
                "the profile `{}` does not say where {} goes; it is put into the header `Authorization` only",
                profile.id.value, name.value
            );
            found.push(Diagnostic::warning("credential-placement", name.at, message).help(format!(
                "in the profile's `credentials`, add `auth_style` to the entry with `env_vars: [{}]`",
                name.value
            )));
        }
    }
    for entry in &profile.credentials {
        let needed = match entry.auth_style {
            Some(AuthStyle::Header) if entry.header_name.is_none() => "header_name",
            Some(AuthStyle::Query) if entry.query_param.is_none() => "query_param",
            _ => continue,
        };
        let message = format!("the credential `{}` has an `auth_style` without `{needed}`", entry.name.value);
        found.push(Diagnostic::error("credential-placement", entry.name.at, message));
    }
    found
}

/// Types that need no profile file.
fn built_in() -> impl Iterator<Item = &'static str> {
    let names = crate::defaults::FILES.iter().map(|(name, _)| *name);
    names.filter_map(|name| name.strip_prefix("profiles/")?.strip_suffix(".yaml"))
}

/// The profile's endpoints, read as a policy that has only them. They say where a credential may go; the run's policy
/// says whether a program may connect there at all.
fn endpoints(profile: &Profile, problems: &mut Vec<Diagnostic>) -> Vec<Endpoint> {
    if profile.endpoints.is_empty() {
        return Vec::new();
    }
    let nodes = profile.endpoints.iter().map(|raw| raw.0.clone()).collect();
    match NetworkRule::of_endpoints(profile.id.as_str(), profile.id.at, nodes) {
        Ok(rule) => rule.endpoints,
        Err(found) => {
            problems.extend(found.into_iter().filter(Diagnostic::is_error));
            Vec::new()
        }
    }
}

/// A variable of the sandbox has one value: that of the provider.
fn shared_names(harness: &Harness, files: &[ProviderFile], problems: &mut Vec<Diagnostic>) {
    let mut taken: Vec<(&str, Span)> = Vec::new();
    for file in files {
        for (name, _) in provider::credentials(&file.provider) {
            if let Some((set, _)) = harness.env.sandbox.0.iter().find(|(set, _)| set.value == name.value) {
                let message = format!("`env.sandbox.{}` is ignored: a provider sets it", name.value);
                problems.push(
                    Diagnostic::warning("credential-collision", set.at, message)
                        .related(name.at, "the credential")
                        .help("leave it out: programs inside get the provider's placeholder"),
                );
            }
            match taken.iter().find(|(other, _)| *other == name.value) {
                None => taken.push((&name.value, name.at)),
                Some((_, at)) => problems.push(
                    Diagnostic::error(
                        "credential-collision",
                        name.at,
                        format!("{} is a variable of the sandbox already", name.value),
                    )
                    .related(*at, "the other one")
                    .help("give one of them another name: a program inside would see only one of them"),
                ),
            }
        }
    }
}

/// A provider names the servers that get a key: a nearer file that replaces the organisation's could send the key
/// elsewhere.
pub fn replaced(library: &mut Library, files: &[ProviderFile]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for file in files.iter().filter(|file| file.found.layer == LayerKind::Repository) {
        let plain = file.found.path.trim_start_matches("customized/");
        let theirs = library.layers.get(LayerKind::Organisation).and_then(|layer| layer.find(plain));
        let Some(Ok(source)) = theirs.map(|theirs| library.source(&theirs)) else { continue };
        let message = format!(
            "the organisation's provider `{}` is replaced here, so its key may go to other servers",
            file.provider.name.value
        );
        warnings.push(
            Diagnostic::warning("provider-replaced", file.provider.name.at, message)
                .related(Span::start_of(source), "the organisation's"),
        );
    }
    warnings
}

/// The variables that a provider needs and the environment does not have.
pub fn unset(file: &ProviderFile, environment: VariableLookup<'_>, how: Strictness) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let field = |map: &str, key: &str| format!("{map}.{key} of the provider {}", file.provider.name.value);
    for (name, map) in [("credentials", &file.provider.credentials), ("config", &file.provider.config)] {
        for (key, template) in map.iter() {
            problems.extend(variables::unset(&field(name, key), template.at, template, environment, how));
        }
    }
    problems
}

/// The model gateway has one key.
fn more_than_one_model(files: &[ProviderFile], problems: &mut Vec<Diagnostic>) {
    let mut capable = files.iter().filter(|file| file.inference_capable());
    if let (Some(first), Some(second)) = (capable.next(), capable.next()) {
        let message = "two providers could serve the model, and a run uses one";
        problems.push(
            Diagnostic::error("two-models", second.provider.kind.at, message)
                .related(first.provider.kind.at, "the other one")
                .help("keep one of them in `providers`"),
        );
    }
}
