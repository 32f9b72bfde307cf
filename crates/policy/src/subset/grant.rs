//! The requests that an admitted connection may carry. A tunnel is allowed only where the outer policy tunnels too. An
//! allow rule must lie within one outer rule, and every outer deny rule that overlaps it needs an equivalent in the
//! inner policy.

use super::atom::{Atom, OuterEndpoints, Reader};
use super::body;
use super::precedence::{endpoints, governs, mirrors, scope_within, scopes_overlap};
use super::widening::Widening;
use crate::glob::{Pattern, ProofBudget};
use crate::model::{Endpoint, HttpRule, Method, NetworkRule, RequestRule, RuleSubject};

pub(super) fn check(
    atom: &Atom<'_>,
    limits: &OuterEndpoints<'_>,
    deciding: &[Reader<'_>],
    inner: &[NetworkRule],
) -> Result<(), Widening> {
    let readers = &limits.readers;
    if !atom.endpoint.protocol.reads_requests() {
        return tunnel(atom, readers, inner);
    }
    if readers.is_empty() {
        return Ok(());
    }
    let candidates = candidates(atom, limits, deciding)?;
    if !atom.endpoint.is_inspected() {
        return uninspected(atom, &candidates);
    }
    if atom.endpoint.protocol.reads_bodies() {
        return body::check(atom, &candidates, readers);
    }
    // Where the organisation's policy only audits it lets everything through.
    let audits = |outer: &&Endpoint, among: &[Reader<'_>]| {
        !outer.enforce && governs(outer, atom, among, |other| !other.enforce)
    };
    if candidates.iter().any(|outer| audits(outer, readers)) {
        return Ok(());
    }
    // An endpoint that only audits lets everything through where it decides, and elsewhere what its rules allow.
    if !atom.endpoint.enforce && !candidates.iter().any(|outer| audits(outer, deciding)) {
        everything(atom, &candidates, deciding)?;
    }
    for rule in &atom.endpoint.allow {
        let RuleSubject::Http(http) = &rule.on else { continue };
        covered(atom, rule, http, &candidates)?;
        denials(atom, rule, http, readers, inner)?;
    }
    Ok(())
}

/// Wherever the organisation's policy reads requests, the inner one must read them as well.
fn tunnel(atom: &Atom<'_>, readers: &[Reader<'_>], inner: &[NetworkRule]) -> Result<(), Widening> {
    for reader in readers {
        let mirrored = endpoints(inner)
            .any(|(mirror, rule)| mirror.protocol.reads_requests() && mirrors(mirror, rule, reader, atom));
        if !mirrored {
            let message = format!(
                "{} passes without inspection, but the organisation's policy inspects it",
                atom.endpoint.selector()
            );
            return Err(Widening::beyond(atom.endpoint.at, reader.endpoint.at, message));
        }
    }
    Ok(())
}

/// The outer endpoints that admit, read in the same way, and speak for all paths of the atom.
fn candidates<'a>(
    atom: &Atom<'_>,
    limits: &OuterEndpoints<'a>,
    deciding: &[Reader<'_>],
) -> Result<Vec<&'a Endpoint>, Widening> {
    let inner = atom.endpoint;
    let found: Vec<&Endpoint> = limits
        .admitting
        .iter()
        .copied()
        .filter(|outer| outer.protocol == inner.protocol && scope_within(inner, outer, atom.budget))
        .collect();
    let alike =
        |outer: &Endpoint| outer.protocol == inner.protocol && outer.is_inspected() == inner.is_inspected();
    let read_otherwise = deciding.iter().map(|reader| reader.endpoint).find(|outer| !alike(outer));
    let decides = found.iter().any(|outer| alike(outer) && governs(outer, atom, deciding, alike));
    match (found.first(), read_otherwise) {
        (Some(_), _) if decides => Ok(found),
        (_, Some(outer)) => {
            let selector = inner.selector();
            let protocol = inner.protocol;
            let message = format!(
                "{selector} is read as {protocol}, but as {} in the organisation's policy",
                outer.protocol
            );
            Err(Widening::beyond(inner.at, outer.at, message))
        }
        (_, None) => {
            let message =
                format!("{} covers paths that the organisation's policy does not", inner.selector());
            Err(Widening::beyond(inner.at, limits.admitting[0].at, message))
        }
    }
}

/// Protocols that cannot be read yet are not compared.
fn uninspected(atom: &Atom<'_>, candidates: &[&Endpoint]) -> Result<(), Widening> {
    let inner = atom.endpoint;
    let same = |outer: &&Endpoint| {
        inner.limits == outer.limits
            && (inner.enforce || !outer.enforce)
            && inner.allow.iter().all(|rule| outer.allow.contains(rule))
            && outer.deny.iter().all(|rule| inner.deny.contains(rule))
    };
    if candidates.iter().any(same) {
        return Ok(());
    }
    let message = format!(
        "{} must have the same {} rules as the organisation's policy",
        inner.selector(),
        inner.protocol
    );
    Err(Widening::beyond(inner.at, candidates[0].at, message))
}

/// The outer policy must allow every request on the paths of the atom.
fn everything(atom: &Atom<'_>, candidates: &[&Endpoint], deciding: &[Reader<'_>]) -> Result<(), Widening> {
    let inner = atom.endpoint;
    let any = |rule: &RequestRule| match &rule.on {
        RuleSubject::Http(http) => {
            http.method == Method::Any
                && http.query.is_empty()
                && speaks_within(inner, &http.path, atom.budget)
        }
        _ => false,
    };
    let denies = deciding.iter().any(|reader| !reader.endpoint.deny.is_empty());
    if !denies && candidates.iter().any(|outer| outer.allow.iter().any(any)) {
        return Ok(());
    }
    let message =
        format!("{} only audits, where the organisation's policy enforces its rules", inner.selector());
    Err(Widening::beyond(inner.at, candidates[0].at, message))
}

/// Whether all paths of an endpoint lie within a pattern.
fn speaks_within(inner: &Endpoint, path: &Pattern, budget: &ProofBudget) -> bool {
    path.is_everything() || inner.path.as_ref().is_some_and(|scope| scope.within(path, budget))
}

/// One outer rule must allow all that this rule allows.
fn covered(
    atom: &Atom<'_>,
    rule: &RequestRule,
    http: &HttpRule,
    candidates: &[&Endpoint],
) -> Result<(), Widening> {
    let allows = |outer: &RequestRule| match &outer.on {
        RuleSubject::Http(limit) => {
            http.method.within(&limit.method)
                && (http.path.within(&limit.path, atom.budget)
                    || speaks_within(atom.endpoint, &limit.path, atom.budget))
                && query_within(http, limit, atom.budget)
        }
        _ => false,
    };
    if candidates.iter().any(|outer| outer.allow.iter().any(allows)) {
        return Ok(());
    }
    let message = format!(
        "no rule of the organisation's policy allows all of `{} {}` on {}",
        http.method,
        http.path,
        atom.endpoint.selector()
    );
    Err(Widening::beyond(rule.at.0, candidates[0].at, message))
}

/// The inner rule must have every condition of the outer rule, at least as narrow.
fn query_within(inner: &HttpRule, outer: &HttpRule, budget: &ProofBudget) -> bool {
    outer.query.iter().all(|(key, limit)| {
        inner.query.iter().any(|(name, pattern)| name == key && pattern.within(limit, budget))
    })
}

/// Every outer deny rule that could apply must have an equivalent in the inner policy.
fn denials(
    atom: &Atom<'_>,
    rule: &RequestRule,
    http: &HttpRule,
    readers: &[Reader<'_>],
    inner: &[NetworkRule],
) -> Result<(), Widening> {
    for reader in readers {
        if reader.endpoint.deny.is_empty() || !scopes_overlap(reader.endpoint, atom.endpoint, atom.budget) {
            continue;
        }
        for deny in &reader.endpoint.deny {
            let RuleSubject::Http(limit) = &deny.on else { continue };
            let apart = !http.method.overlaps(&limit.method) || !http.path.overlaps(&limit.path, atom.budget);
            if apart || mirrored(atom, limit, reader, inner) {
                continue;
            }
            let message = format!(
                "the organisation's policy denies `{} {}` on {}, this policy does not",
                limit.method,
                limit.path,
                reader.endpoint.selector()
            );
            return Err(Widening::beyond(rule.at.0, deny.at.0, message));
        }
    }
    Ok(())
}

/// Whether an inner deny rule applies wherever the outer one does, and forbids at least as much.
fn mirrored(atom: &Atom<'_>, limit: &HttpRule, reader: &Reader<'_>, inner: &[NetworkRule]) -> bool {
    let as_much = |rule: &RequestRule| match &rule.on {
        RuleSubject::Http(deny) => {
            limit.method.within(&deny.method)
                && limit.path.within(&deny.path, atom.budget)
                && query_within(limit, deny, atom.budget)
        }
        _ => false,
    };
    endpoints(inner).any(|(mirror, rule)| {
        mirror.protocol.reads_requests()
            && mirrors(mirror, rule, reader, atom)
            && scope_within(reader.endpoint, mirror, atom.budget)
            && mirror.deny.iter().any(as_much)
    })
}
