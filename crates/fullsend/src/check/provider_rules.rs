//! The profiles of providers as rules of the policy, as OpenShell composes them: naming a provider opens its profile's
//! endpoints for its profile's programs. The organisation's limits apply to these rules as to all others. The model's
//! provider opens nothing: the gateway serves the model.

use policy::glob::{Pattern, Separator};
use policy::{NetworkRule, Policy};
use yaml::{Diagnostic, Spanned};

use super::providers::ProviderFile;
use crate::harness::Harness;
use crate::harness::names::ProfileNetwork;

/// OpenShell's own prefix for such rules.
const PREFIX: &str = "_provider_";

/// Adds a rule for each provider. A profile without programs opens nothing.
pub fn add(
    harness: &Harness,
    providers: &[ProviderFile],
    policy: &mut Policy,
    problems: &mut Vec<Diagnostic>,
) {
    let switch = harness.openshell.as_ref().and_then(|openshell| openshell.profile_network.as_ref());
    if switch.is_some_and(|switch| switch.value == ProfileNetwork::Closed) {
        return;
    }
    let mut added = false;
    for file in providers.iter().filter(|file| !file.inference_capable()) {
        let rule = rule(file, problems);
        if rule.binaries.is_empty() || rule.endpoints.is_empty() {
            continue;
        }
        problems.extend(rule.endpoints.iter().filter(|endpoint| !endpoint.is_inspected()).map(|endpoint| {
            let message = format!(
                "protocol {} is not inspected yet: requests to {} are refused where this endpoint decides",
                endpoint.protocol,
                endpoint.selector()
            );
            Diagnostic::warning("not-inspected", endpoint.at, message)
        }));
        policy.networks.push(rule);
        added = true;
    }
    if added {
        problems.extend(policy::ambiguities(policy));
    }
}

fn rule(file: &ProviderFile, problems: &mut Vec<Diagnostic>) -> NetworkRule {
    let name = format!("{PREFIX}{}", file.provider.name.value);
    let mut binaries = Vec::new();
    for binary in &file.profile.binaries {
        match Pattern::glob_if_starred(&binary.value, Separator::Slash) {
            Ok(pattern) => binaries.push(Spanned { value: pattern, at: binary.at }),
            Err(error) => {
                let message = format!("`binaries` of the profile {} {error}", file.profile.id.value);
                problems.push(Diagnostic::error("value", binary.at, message));
            }
        }
    }
    let key = Spanned { value: name.clone(), at: file.profile.id.at };
    NetworkRule { name, key, endpoints: file.endpoints.clone(), binaries }
}
