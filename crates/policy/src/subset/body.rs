//! Rules about what is in a body. Each allow rule must lie within one rule of the organisation's policy, and the endpoint
//! itself must have every deny rule that the organisation's policy has there.

use super::atom::{Atom, Reader};
use super::precedence::scopes_overlap;
use super::widening::Widening;
use crate::glob::{Pattern, ProofBudget};
use crate::model::{Endpoint, GraphqlRule, ProtocolSettings, RpcRule, RuleSubject, ValuePattern};

pub(super) fn check(
    atom: &Atom<'_>,
    candidates: &[&Endpoint],
    readers: &[Reader<'_>],
) -> Result<(), Widening> {
    let inner = atom.endpoint;
    let protocol = inner.protocol;
    let selector = inner.selector();
    let beyond = |message: String| Err(Widening::beyond(inner.at, candidates[0].at, message));
    if !candidates.iter().any(|outer| limits_within(&inner.limits, &outer.limits)) {
        return beyond(format!("{selector} reads {protocol} less strictly than the organisation's policy"));
    }
    if !inner.enforce && !candidates.iter().any(|outer| !outer.enforce) {
        return beyond(format!("{selector} only audits, where the organisation's policy enforces its rules"));
    }
    for rule in &inner.allow {
        let covers =
            |outer: &&Endpoint| outer.allow.iter().any(|limit| within(&rule.on, &limit.on, atom.budget));
        if !candidates.iter().any(covers) {
            let message = format!(
                "no {protocol} rule of the organisation's policy allows all of this rule on {selector}"
            );
            return Err(Widening::beyond(rule.at.0, candidates[0].at, message));
        }
    }
    let others = readers.iter().filter(|reader| scopes_overlap(reader.endpoint, inner, atom.budget));
    for deny in others.flat_map(|reader| &reader.endpoint.deny) {
        if !inner.deny.contains(deny) {
            let message =
                format!("the organisation's policy has a deny rule on {selector}, this policy does not");
            return Err(Widening::beyond(inner.at, deny.at.0, message));
        }
    }
    Ok(())
}

fn limits_within(inner: &ProtocolSettings, outer: &ProtocolSettings) -> bool {
    let ProtocolSettings { max_body_bytes, strict_tool_names, persisted_queries } = inner;
    *max_body_bytes <= outer.max_body_bytes
        && (*strict_tool_names || !outer.strict_tool_names)
        && (persisted_queries.is_none() || *persisted_queries == outer.persisted_queries)
}

fn within(inner: &RuleSubject, outer: &RuleSubject, budget: &ProofBudget) -> bool {
    match (inner, outer) {
        (RuleSubject::Rpc(inner), RuleSubject::Rpc(outer)) => rpc_within(inner, outer, budget),
        (RuleSubject::Graphql(inner), RuleSubject::Graphql(outer)) => graphql_within(inner, outer, budget),
        _ => false,
    }
}

fn graphql_within(inner: &GraphqlRule, outer: &GraphqlRule, budget: &ProofBudget) -> bool {
    let named =
        |outer: &Pattern| inner.operation_name.as_ref().is_some_and(|name| name.within(outer, budget));
    let listed = |field: &Pattern| outer.fields.iter().any(|limit| field.within(limit, budget));
    (outer.operation_type == "*" || inner.operation_type == outer.operation_type)
        && outer.operation_name.as_ref().is_none_or(named)
        && (outer.fields.is_empty() || (!inner.fields.is_empty() && inner.fields.iter().all(listed)))
}

/// The inner rule must have every condition of the outer rule, at least as narrow.
fn rpc_within(inner: &RpcRule, outer: &RpcRule, budget: &ProofBudget) -> bool {
    let narrower = |inner: Option<&ValuePattern>, outer: &ValuePattern| {
        inner.is_some_and(|inner| inner.within(outer, budget))
    };
    inner.method.within(&outer.method, budget)
        && outer.tool.as_ref().is_none_or(|outer| narrower(inner.tool.as_ref(), outer))
        && outer.params.iter().all(|(path, limit)| {
            let same = inner.params.iter().find(|(name, _)| name == path).map(|(_, pattern)| pattern);
            narrower(same, limit)
        })
}
