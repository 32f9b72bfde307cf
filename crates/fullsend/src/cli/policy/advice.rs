//! Finds what would allow the refused requests of a run: named networks for the harness if one fits, otherwise rules
//! for the policy. It gives no advice for requests that a deny rule forbids, or to addresses that are not public.

use std::path::PathBuf;

use egress::event::{ConnectionDecision, ConnectionEvent, EgressEvent, RefusalCode};
use policy::{
    AccessBody, AccessRequest, CallingProgram, Compiled, Host, NetworkRule, Policy, RefusedAccess,
    RequestAction,
};
use yaml::Diagnostic;

use super::super::configuration::Configuration;
use crate::check::{Checked, networks};
use crate::event::{Envelope, RunEvent};
use crate::harness::reference::LocalPath;
use crate::resolve::layers::{LayerKind, LayerPath};
use crate::resolve::library::Library;
use crate::resolve::resolve;

/// What to write, and where.
#[derive(Debug, Default)]
pub struct Advice {
    /// The names that `network:` of the harness lacks.
    pub networks: Vec<String>,
    /// All names of that list, old and new.
    pub all_networks: Vec<String>,
    /// A document with `network_policies` alone; empty if names are enough.
    pub rules: String,
    /// The harness and the policy of the run, as messages call them.
    pub harness_file: String,
    pub policy_file: String,
    /// The refusals without advice, as sentences.
    pub left_out: Vec<String>,
}

impl Advice {
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.rules.is_empty()
    }

    /// The line for the harness.
    pub fn network_line(&self) -> String {
        format!("network: [{}]\n", self.all_networks.join(", "))
    }

    /// Each file, and what to write into it.
    pub fn parts(&self) -> Vec<(&str, String)> {
        let line = (!self.networks.is_empty()).then(|| (self.harness_file.as_str(), self.network_line()));
        let rules = (!self.rules.is_empty()).then(|| (self.policy_file.as_str(), self.rules.clone()));
        line.into_iter().chain(rules).collect()
    }
}

/// The harness of a run, checked again as it is now.
pub fn checked(
    opened: &mut Configuration,
    events: &[Envelope],
    problems: &mut Vec<Diagnostic>,
) -> Option<Checked> {
    let name = harness_of(events)?;
    let resolved = resolve(&mut opened.library, name, &opened.choices, problems)?;
    crate::check::check(&mut opened.library, resolved, problems)
}

/// The name of the harness that ran.
pub fn harness_of(events: &[Envelope]) -> Option<&str> {
    events.iter().find_map(|envelope| match &envelope.event {
        RunEvent::RunStarted { harness, .. } => Some(harness.as_str()),
        _ => None,
    })
}

/// What would have allowed the refused requests in these events.
pub fn advise(library: &mut Library, checked: &Checked, events: &[Envelope]) -> Advice {
    let (refused, left_out) = refused(events);
    let resolved = &checked.resolved;
    let harness = resolved.files.first();
    // Only a harness of the repository can get another network; for other harnesses, rules do the same.
    let takes_names = harness.is_some_and(|found| found.layer == LayerKind::Repository);
    let others = if takes_names { networks::unused_networks(library, resolved) } else { Vec::new() };
    let mut advice = Advice {
        harness_file: harness.map(|found| shown(library, found)).unwrap_or_default(),
        policy_file: shown(library, &checked.policy.found),
        left_out,
        ..Advice::default()
    };
    let mut rest = Vec::new();
    let mut policy = checked.policy.policy.clone();
    for access in refused {
        match others.iter().find(|(_, rules)| allows(rules, &policy, &access)) {
            Some((name, _)) if advice.networks.contains(name) => {}
            Some((name, _)) => advice.networks.push(name.clone()),
            None => rest.push(access),
        }
    }
    let named = others.into_iter().filter(|(name, _)| advice.networks.contains(name));
    policy.networks.extend(named.flat_map(|(_, rules)| rules));
    let old = resolved.harness.network.iter().map(|name| name.value.as_str().to_owned());
    advice.all_networks = old.chain(advice.networks.iter().cloned()).collect();
    advice.add_rules(&policy, &rest);
    advice
}

impl Advice {
    /// Rules for requests that no named network allows.
    pub fn add_rules(&mut self, policy: &Policy, refused: &[RefusedAccess]) {
        let suggestion = policy::suggest(policy, refused);
        for (index, why) in &suggestion.skipped {
            let RefusedAccess { host, port, .. } = &refused[*index];
            self.left_out.push(format!("{host}:{port}: {why}"));
        }
        self.left_out.sort();
        self.left_out.dedup();
        self.rules = suggestion.text;
    }
}

/// Whether the policy with these rules lets the access pass, and these rules are the reason.
fn allows(rules: &[NetworkRule], policy: &Policy, access: &RefusedAccess) -> bool {
    let mut alone = policy.clone();
    alone.networks = rules.to_vec();
    let mut together = policy.clone();
    together.networks.extend(rules.iter().cloned());
    passes(&alone, access) && passes(&together, access)
}

/// Whether a policy lets the access pass.
pub fn passes(policy: &Policy, access: &RefusedAccess) -> bool {
    let request = access.request.as_ref().map(|(method, path)| (RequestAction::Http(method), path.as_str()));
    let asked = AccessRequest {
        host: &access.host.to_string(),
        port: access.port,
        caller: CallingProgram { binary: &access.binary, ancestors: &[] },
        request,
        body: access.operation.as_ref().map_or(AccessBody::Empty, AccessBody::Read),
        addresses: None,
    };
    policy::decide(&Compiled::new(policy), &asked).passes()
}

/// Where a file of the repository would be: a built-in one is replaced by one of the same path.
fn shown(library: &Library, found: &LayerPath) -> String {
    let plain = found.path.trim_start_matches("customized/");
    match library.layers.get(LayerKind::Repository) {
        Some(layer) if found.layer == LayerKind::Repository => layer.shown(&found.path),
        Some(layer) if LocalPath::parse(plain).is_ok() => layer.shown(plain),
        _ => library.layers.layer(found).shown(&found.path),
    }
}

/// The requests that the policy refused, and as sentences those that were refused for another reason.
pub fn refused(events: &[Envelope]) -> (Vec<RefusedAccess>, Vec<String>) {
    let mut refused = Vec::new();
    let mut others = Vec::new();
    for envelope in events {
        let RunEvent::Egress { event: EgressEvent::Connection(connection) } = &envelope.event else {
            continue;
        };
        if connection.decision != ConnectionDecision::Denied {
            continue;
        }
        match access(connection) {
            Some(access) if connection.code == Some(RefusalCode::PolicyDenied) => {
                if !refused.contains(&access) {
                    refused.push(access);
                }
            }
            _ => {
                let reason = connection.reason.as_deref().unwrap_or("no reason was recorded");
                others.push(format!("{}:{}: {reason}", connection.host, connection.port));
            }
        }
    }
    (refused, others)
}

fn access(connection: &ConnectionEvent) -> Option<RefusedAccess> {
    Some(RefusedAccess {
        host: Host::parse(&connection.host).ok()?,
        port: connection.port,
        binary: PathBuf::from(connection.binary.clone()?),
        request: connection.method.clone().zip(connection.path.clone()),
        operation: connection.operation.as_ref().map(|operation| operation.operation()),
        addresses: Vec::new(),
    })
}
