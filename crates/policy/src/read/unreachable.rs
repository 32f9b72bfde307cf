//! Rules that can never change a decision, because something else has already made it.

use yaml::Diagnostic;

use crate::glob::ProofBudget;
use crate::model::{Endpoint, HttpRule, NetworkRule, RequestRule, RuleSubject};

/// Endpoints with more rules than this are not compared rule by rule.
const MAX_COMPARED: usize = 256;

pub(super) fn check(networks: &[NetworkRule], diagnostics: &mut Vec<Diagnostic>) {
    let budget = ProofBudget::default();
    for endpoint in networks.iter().flat_map(|network| &network.endpoints) {
        if endpoint.allow.len() + endpoint.deny.len() <= MAX_COMPARED {
            outside_scope(endpoint, &budget, diagnostics);
            always_denied(endpoint, &budget, diagnostics);
            denies_nothing(endpoint, &budget, diagnostics);
            repeated(&endpoint.allow, diagnostics);
            repeated(&endpoint.deny, diagnostics);
        }
    }
}

fn http(rule: &RequestRule) -> Option<&HttpRule> {
    match &rule.on {
        RuleSubject::Http(http) => Some(http),
        _ => None,
    }
}

fn outside_scope(endpoint: &Endpoint, budget: &ProofBudget, diagnostics: &mut Vec<Diagnostic>) {
    let Some(scope) = &endpoint.path else { return };
    for rule in endpoint.allow.iter().chain(&endpoint.deny) {
        if let Some(http) = http(rule).filter(|http| !http.path.overlaps(scope, budget)) {
            let message = format!(
                "`{}` lies outside the endpoint's path `{}`, so this rule never applies",
                http.path, scope.value
            );
            diagnostics.push(
                Diagnostic::warning("unreachable", rule.at.0, message)
                    .related(scope.at, "the endpoint's path"),
            );
        }
    }
}

fn always_denied(endpoint: &Endpoint, budget: &ProofBudget, diagnostics: &mut Vec<Diagnostic>) {
    for rule in &endpoint.allow {
        let Some(allow) = http(rule) else { continue };
        let denied = endpoint.deny.iter().find(|deny| {
            http(deny).is_some_and(|deny| {
                deny.query.is_empty()
                    && allow.method.within(&deny.method)
                    && allow.path.within(&deny.path, budget)
            })
        });
        if let Some(deny) = denied {
            let message = format!("`{} {}` is always refused by a deny rule", allow.method, allow.path);
            diagnostics.push(
                Diagnostic::warning("unreachable", rule.at.0, message).related(deny.at.0, "this deny rule"),
            );
        }
    }
}

fn denies_nothing(endpoint: &Endpoint, budget: &ProofBudget, diagnostics: &mut Vec<Diagnostic>) {
    for rule in &endpoint.deny {
        let Some(deny) = http(rule) else { continue };
        let bites = endpoint
            .allow
            .iter()
            .filter_map(http)
            .any(|allow| allow.method.overlaps(&deny.method) && allow.path.overlaps(&deny.path, budget));
        if !bites {
            let message = format!(
                "`{} {}` is not allowed in the first place, so this deny rule never applies here",
                deny.method, deny.path
            );
            diagnostics.push(Diagnostic::warning("unreachable", rule.at.0, message));
        }
    }
}

fn repeated(rules: &[RequestRule], diagnostics: &mut Vec<Diagnostic>) {
    for (index, rule) in rules.iter().enumerate() {
        if let Some(first) = rules[..index].iter().find(|first| first.on == rule.on) {
            diagnostics.push(
                Diagnostic::warning("duplicate", rule.at.0, "this rule says the same as an earlier one")
                    .related(first.at.0, "the earlier one"),
            );
        }
    }
}
