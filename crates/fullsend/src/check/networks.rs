//! Networks by name: small policies that a harness adds to its own with `network: [npm, pip]`. A layer's
//! `networks/NAME.yaml` replaces the built-in one. The host's own package-manager configuration adds its registries.

use policy::{HostPattern, NetworkRule, Policy};
use yaml::Diagnostic;

use crate::harness::reference::LocalPath;
use crate::resolve::Resolved;
use crate::resolve::library::Library;
use crate::resolve::registries::Registry;

/// Adds the rules of the named networks to the policy, before it is held against what the organisation allows.
pub fn add(library: &mut Library, resolved: &Resolved, policy: &mut Policy, problems: &mut Vec<Diagnostic>) {
    for name in &resolved.harness.network {
        let Ok(path) = LocalPath::parse(&format!("networks/{}.yaml", name.value.as_str())) else { continue };
        let found = match library.find(&path, name.at, "network") {
            Ok(found) => found,
            Err(problem) => {
                let known = library.layers.names("networks").join(", ");
                problems.push(problem.help(format!("there are: {known}")));
                continue;
            }
        };
        match library.policy(&found) {
            Ok(parsed) => {
                let registries = resolved.registries(name.value.as_str());
                let rules = parsed.policy.networks.iter().map(|rule| with_registries(rule, &registries));
                policy.networks.extend(rules);
            }
            Err(wrong) => problems.extend(wrong.iter().cloned()),
        }
    }
}

/// The rule with one more endpoint for each registry of the host, like its first one.
fn with_registries(rule: &NetworkRule, registries: &[&Registry]) -> NetworkRule {
    let mut rule = rule.clone();
    let Some(first) = rule.endpoints.first().cloned() else { return rule };
    for Registry { host, port, .. } in registries {
        let host = HostPattern::Name(host.clone());
        let is_known = rule.endpoints.iter().any(|known| known.host == host && known.ports.contains(port));
        if !is_known {
            let mut endpoint = first.clone();
            endpoint.host = host;
            endpoint.ports = vec![*port];
            rule.endpoints.push(endpoint);
        }
    }
    rule
}
