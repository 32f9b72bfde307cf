//! The harness's policy: valid, enforceable here, and no wider than the organisation allows.

use std::rc::Rc;

use policy::baseline::{EffectivePaths, PathAccess};
use policy::{Policy, subset};
use yaml::{Diagnostic, Span};

use super::host_sockets::{self, HostSockets};
use super::networks;
use super::provider_rules;
use super::providers::ProviderFile;
use super::references::{self, ReferenceKind};
use crate::harness::names::Backend;
use crate::resolve::Resolved;
use crate::resolve::layers::{LayerKind, LayerPath};
use crate::resolve::library::Library;
use crate::resolve::pins::{self, Weakening};

/// A policy that was read, as it may be used.
#[derive(Clone, Debug)]
pub struct CheckedPolicy {
    pub found: LayerPath,
    pub policy: Policy,
    /// The policy's paths and those that every sandbox needs.
    pub effective: EffectivePaths,
}

impl CheckedPolicy {
    pub fn paths(&self, access: PathAccess) -> impl Iterator<Item = &str> {
        self.effective.paths.iter().filter(move |path| path.access == access).map(|path| path.path.as_str())
    }
}

/// Reads the policy and compares it with what the organisation allows. An exception that was used is stored in
/// `resolved`.
pub fn check(
    library: &mut Library,
    resolved: &mut Resolved,
    providers: &[ProviderFile],
    problems: &mut Vec<Diagnostic>,
) -> Option<CheckedPolicy> {
    let harness = &resolved.harness;
    let found = references::remote_or_local(
        library,
        harness,
        &harness.policy,
        "policy",
        ReferenceKind::File,
        problems,
    )?;
    let parsed = read(library, &found, problems)?;
    problems.extend(parsed.warnings.iter().cloned());
    if harness.sandbox.backend.value == Backend::Local {
        problems.extend(unenforceable(&parsed.policy));
    }
    let mut policy = parsed.policy.clone();
    networks::add(library, resolved, &mut policy, problems);
    provider_rules::add(&resolved.harness, providers, &mut policy, problems);
    let mut weakenings = Vec::new();
    for (ceiling, at) in ceilings(library, resolved, &found, problems) {
        match subset(&policy, &ceiling) {
            Ok(confined) => policy = confined,
            Err(widening) => weakenings.push(Weakening {
                field: "policy".to_owned(),
                at: widening.at,
                left_out: false,
                pinned_at: widening.limit.unwrap_or(at),
                what: format!("is wider than the organisation allows: {}", widening.message),
            }),
        }
    }
    let used =
        pins::judge(weakenings, resolved.organisation.as_deref(), &resolved.override_scope(), problems);
    resolved.exceptions.extend(used);
    let effective = policy::baseline(&policy);
    Some(CheckedPolicy { found, policy, effective })
}

/// The parts of the policy that the local sandbox cannot enforce.
pub fn unenforceable(policy: &Policy) -> Vec<Diagnostic> {
    let mut problems: Vec<Diagnostic> = policy::uninspected(policy);
    for path in policy.filesystem.read_only.iter().filter(|path| path.value == "/") {
        let message = "`filesystem_policy.read_only` contains `/`, which would show the whole host";
        problems.push(
            Diagnostic::error("whole-host", path.at, message).help("list the directories that programs need"),
        );
    }
    for path in policy.filesystem.read_only.iter().filter(|path| path.value != "/") {
        let Ok(source) = std::fs::canonicalize(&path.value) else { continue };
        let has_sockets =
            host_sockets::at(&source) != HostSockets::None || !host_sockets::bound_below(&source).is_empty();
        if has_sockets {
            let message =
                format!("`{}` holds a Unix socket of the host, which is hidden in the sandbox", path.value);
            let help = "list the files that programs need instead of the whole directory";
            problems.push(Diagnostic::warning("host-socket", path.at, message).help(help));
        }
    }
    problems
}

fn read(
    library: &mut Library,
    found: &LayerPath,
    problems: &mut Vec<Diagnostic>,
) -> Option<Rc<policy::Parsed>> {
    match library.policy(found) {
        Ok(parsed) => Some(parsed),
        Err(found_problems) => {
            problems.extend(found_problems.iter().cloned());
            None
        }
    }
}

/// Every policy of the organisation that this one must stay within, and where it is named.
fn ceilings(
    library: &mut Library,
    resolved: &Resolved,
    found: &LayerPath,
    problems: &mut Vec<Diagnostic>,
) -> Vec<(Policy, Span)> {
    let at = resolved.harness.policy.at;
    let mut places: Vec<(LayerPath, Span)> = Vec::new();
    if found.layer == LayerKind::Repository {
        let plain = found.path.trim_start_matches("customized/");
        let same = library.layers.get(LayerKind::Organisation).and_then(|layer| layer.find(plain));
        places.extend(same.map(|same| (same, at)));
    }
    for (path, at) in resolved.organisation_policies.iter().chain(&resolved.policy_ceiling) {
        let of_organisation =
            library.layers.get(LayerKind::Organisation).and_then(|layer| layer.find(path.as_str()));
        match of_organisation {
            Some(place) => places.push((place, *at)),
            None => problems.extend(library.find(path, *at, "policy_ceiling").err().map(|problem| *problem)),
        }
    }
    places.retain(|(place, _)| place != found);
    places.dedup_by(|one, other| one.0 == other.0);
    places
        .into_iter()
        .filter_map(|(place, at)| Some((read(library, &place, problems)?.policy.clone(), at)))
        .collect()
}
