//! Endpoints that may both match one request must agree on how it is read and where it may go; rules may differ, they
//! add up.

use std::collections::HashMap;

use yaml::Diagnostic;

use crate::file::Protocol;
use crate::glob::ProofBudget;
use crate::model::{Endpoint, HostPattern, NetworkRule, RuleSubject};

/// The most reported pairs: a file can have millions, and a person reads a few.
const MAX_REPORTED: usize = 32;

/// Reports a problem for every pair that disagrees.
pub(super) fn check(networks: &[NetworkRule], diagnostics: &mut Vec<Diagnostic>) {
    let budget = ProofBudget::default();
    let mut patterns: HashMap<(&str, &str), bool> = HashMap::new();
    let mut reported = 0;
    let endpoints: Vec<&Endpoint> = networks.iter().flat_map(|network| &network.endpoints).collect();
    for (index, one) in endpoints.iter().enumerate() {
        for two in &endpoints[..index] {
            if !share_a_port(one, two) {
                continue;
            }
            // Comparing two patterns is a proof: make each only once.
            let overlap = match (&one.host, &two.host) {
                (HostPattern::Glob(left), HostPattern::Glob(right)) => *patterns
                    .entry((left.as_str(), right.as_str()))
                    .or_insert_with(|| left.overlaps(right, &budget)),
                (left, right) => left.overlaps(right, &budget),
            };
            if !overlap {
                continue;
            }
            if budget.is_spent() {
                let message = "the hosts and paths of the endpoints take too long to compare";
                diagnostics.push(
                    Diagnostic::error("too-complex", one.at, message).help("use fewer or simpler wildcards"),
                );
                return;
            }
            let disagreement = differences(one, two, &budget);
            if disagreement.is_empty() {
                continue;
            }
            reported += 1;
            if reported > MAX_REPORTED {
                return;
            }
            let message = format!(
                "{} and {} may match the same request but disagree on {}",
                one.selector(),
                two.selector(),
                disagreement.join(", ")
            );
            diagnostics.push(
                Diagnostic::error("ambiguous", one.at, message)
                    .related(two.at, "the other endpoint")
                    .help("make them agree, or tell them apart by host, port or path"),
            );
        }
    }
}

fn share_a_port(one: &Endpoint, two: &Endpoint) -> bool {
    one.ports.iter().any(|port| two.ports.binary_search(port).is_ok())
}

fn differences(one: &Endpoint, two: &Endpoint, budget: &ProofBudget) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut compare = |what, same: bool| {
        if !same {
            found.push(what);
        }
    };
    compare("protocol tcp", (one.protocol == Protocol::Tcp) == (two.protocol == Protocol::Tcp));
    compare("tls", one.tls_skip == two.tls_skip);
    compare("allowed_ips", one.allowed_ips == two.allowed_ips);
    if !(shapes_requests(one) && shapes_requests(two) && can_both_decide(one, two, budget)) {
        return found;
    }
    compare("protocol", one.protocol == two.protocol);
    compare("enforcement", one.enforce == two.enforce);
    compare("allow_encoded_slash", one.allow_encoded_slash == two.allow_encoded_slash);
    compare("credentials", one.credentials == two.credentials);
    compare("limits of the protocol", one.limits == two.limits);
    compare("whether text frames are GraphQL", frames_are_graphql(one) == frames_are_graphql(two));
    found
}

/// A plain tunnel admits a destination but does not decide how requests are read.
fn shapes_requests(endpoint: &Endpoint) -> bool {
    endpoint.protocol.reads_requests()
        || !endpoint.allowed_ips.is_empty()
        || endpoint.tls_skip
        || endpoint.credentials.provider.is_some()
}

/// If two endpoints match the same path, the more specific one decides; equally specific ones must agree.
fn can_both_decide(one: &Endpoint, two: &Endpoint, budget: &ProofBudget) -> bool {
    // Numbers first: comparing patterns is a proof.
    if one.specificity() != two.specificity() {
        return false;
    }
    match (&one.path, &two.path) {
        (Some(one), Some(two)) => one.overlaps(two, budget),
        _ => true,
    }
}

fn frames_are_graphql(endpoint: &Endpoint) -> bool {
    endpoint.protocol == Protocol::Websocket
        && endpoint.allow.iter().chain(&endpoint.deny).any(|rule| matches!(rule.on, RuleSubject::Graphql(_)))
}
