//! Networks by name: small policies that a harness adds to its own with `network: [npm, pip]`. A layer's
//! `networks/NAME.yaml` replaces the built-in one. The host's own package-manager configuration adds its registries.

use std::rc::Rc;

use policy::{HostPattern, NetworkRule, Policy};
use yaml::Diagnostic;

use crate::harness::reference::LocalPath;
use crate::resolve::Resolved;
use crate::resolve::layers::LayerPath;
use crate::resolve::library::Library;
use crate::resolve::registries::Registry;

/// Adds the rules of the named networks to the policy, before the policy is compared with what the organisation allows.
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
        match rules(library, resolved, name.value.as_str(), &found) {
            Ok(rules) => policy.networks.extend(rules),
            Err(wrong) => problems.extend(wrong.iter().cloned()),
        }
    }
}

/// The rules of one network, with the registries of this host.
fn rules(
    library: &mut Library,
    resolved: &Resolved,
    name: &str,
    found: &LayerPath,
) -> Result<Vec<NetworkRule>, Rc<Vec<Diagnostic>>> {
    let parsed = library.policy(found)?;
    let registries = resolved.registries(name);
    Ok(parsed.policy.networks.iter().map(|rule| with_registries(rule, &registries)).collect())
}

/// Every network that the harness does not name, with its rules. One that cannot be read is left out.
pub fn unused_networks(library: &mut Library, resolved: &Resolved) -> Vec<(String, Vec<NetworkRule>)> {
    let is_named = |name: &String| resolved.harness.network.iter().any(|known| known.value.as_str() == name);
    let names: Vec<String> =
        library.layers.names("networks").into_iter().filter(|name| !is_named(name)).collect();
    let read = names.into_iter().filter_map(|name| {
        let path = LocalPath::parse(&format!("networks/{name}.yaml")).ok()?;
        let found = library.layers.find(&path)?;
        let rules = rules(library, resolved, &name, &found).ok()?;
        Some((name, rules))
    });
    read.collect()
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
