//! What may be asked over an admitted connection. A tunnel may only stand where the upper policy would tunnel too; a
//! rule must lie within one upper rule, and every upper deny rule that could bite must bite below as well.

use super::Widening;
use super::connection::{Atom, Limits};
use super::play::{Reader, endpoints, governs, mirrors, scope_within, scopes_overlap};
use crate::glob::{Effort, Pattern};
use crate::model::{Endpoint, HttpRule, Method, NetworkRule, Rule, Subject};

pub(super) fn check(
    atom: &Atom<'_>,
    limits: &Limits<'_>,
    deciding: &[Reader<'_>],
    lower: &[NetworkRule],
) -> Result<(), Widening> {
    let readers = &limits.readers;
    if !atom.endpoint.protocol.reads_requests() {
        return tunnel(atom, readers, lower);
    }
    if readers.is_empty() {
        return Ok(());
    }
    let candidates = candidates(atom, limits, deciding)?;
    if !atom.endpoint.is_inspected() {
        return uninspected(atom, &candidates);
    }
    // Where the upper policy only audits it lets everything through.
    let audits = |upper: &&Endpoint, among: &[Reader<'_>]| {
        !upper.enforce && governs(upper, atom, among, |other| !other.enforce)
    };
    if candidates.iter().any(|upper| audits(upper, readers)) {
        return Ok(());
    }
    // An endpoint that only audits lets everything through where it decides, and elsewhere what its rules allow.
    if !atom.endpoint.enforce && !candidates.iter().any(|upper| audits(upper, deciding)) {
        everything(atom, &candidates, deciding)?;
    }
    for rule in &atom.endpoint.allow {
        let Subject::Http(http) = &rule.on else { continue };
        covered(atom, rule, http, &candidates)?;
        denials(atom, rule, http, readers, lower)?;
    }
    Ok(())
}

/// Wherever the upper policy reads requests, the lower one must read them as well.
fn tunnel(atom: &Atom<'_>, readers: &[Reader<'_>], lower: &[NetworkRule]) -> Result<(), Widening> {
    for reader in readers {
        let mirrored = endpoints(lower)
            .any(|(mirror, rule)| mirror.protocol.reads_requests() && mirrors(mirror, rule, reader, atom));
        if !mirrored {
            let message = format!("{} passes unread what the upper policy reads", atom.endpoint.selector());
            return Err(Widening::beyond(atom.endpoint.at, reader.endpoint.at, message));
        }
    }
    Ok(())
}

/// The upper endpoints that admit, read in the same way, and speak for all paths of the atom.
fn candidates<'a>(
    atom: &Atom<'_>,
    limits: &Limits<'a>,
    deciding: &[Reader<'_>],
) -> Result<Vec<&'a Endpoint>, Widening> {
    let lower = atom.endpoint;
    let found: Vec<&Endpoint> = limits
        .admitting
        .iter()
        .copied()
        .filter(|upper| upper.protocol == lower.protocol && scope_within(lower, upper, atom.effort))
        .collect();
    let alike =
        |upper: &Endpoint| upper.protocol == lower.protocol && upper.is_inspected() == lower.is_inspected();
    let read_otherwise = deciding.iter().map(|reader| reader.endpoint).find(|upper| !alike(upper));
    let decides = found.iter().any(|upper| alike(upper) && governs(upper, atom, deciding, alike));
    match (found.first(), read_otherwise) {
        (Some(_), _) if decides => Ok(found),
        (_, Some(upper)) => {
            let (selector, protocol) = (lower.selector(), lower.protocol);
            let message =
                format!("{selector} is read as {protocol}, but as {} in the upper policy", upper.protocol);
            Err(Widening::beyond(lower.at, upper.at, message))
        }
        (_, None) => {
            let message = format!("{} speaks for paths that the upper policy does not", lower.selector());
            Err(Widening::beyond(lower.at, limits.admitting[0].at, message))
        }
    }
}

/// What cannot be read yet is not compared, only recognised.
fn uninspected(atom: &Atom<'_>, candidates: &[&Endpoint]) -> Result<(), Widening> {
    let lower = atom.endpoint;
    let same = |upper: &&Endpoint| {
        lower.limits == upper.limits
            && (lower.enforce || !upper.enforce)
            && lower.allow.iter().all(|rule| upper.allow.contains(rule))
            && upper.deny.iter().all(|rule| lower.deny.contains(rule))
    };
    if candidates.iter().any(same) {
        return Ok(());
    }
    let message =
        format!("{} must have the same {} rules as the upper policy", lower.selector(), lower.protocol);
    Err(Widening::beyond(lower.at, candidates[0].at, message))
}

/// The upper policy must allow every request on the paths of the atom.
fn everything(atom: &Atom<'_>, candidates: &[&Endpoint], deciding: &[Reader<'_>]) -> Result<(), Widening> {
    let lower = atom.endpoint;
    let any = |rule: &Rule| match &rule.on {
        Subject::Http(http) => {
            http.method == Method::Any
                && http.query.is_empty()
                && speaks_within(lower, &http.path, atom.effort)
        }
        _ => false,
    };
    let denies = deciding.iter().any(|reader| !reader.endpoint.deny.is_empty());
    if !denies && candidates.iter().any(|upper| upper.allow.iter().any(any)) {
        return Ok(());
    }
    let message = format!("{} only audits, where the upper policy enforces its rules", lower.selector());
    Err(Widening::beyond(lower.at, candidates[0].at, message))
}

/// Whether all paths of an endpoint lie within a pattern.
fn speaks_within(lower: &Endpoint, path: &Pattern, effort: &Effort) -> bool {
    path.is_everything() || lower.path.as_ref().is_some_and(|scope| scope.within(path, effort))
}

/// One upper rule must allow all that this rule allows.
fn covered(atom: &Atom<'_>, rule: &Rule, http: &HttpRule, candidates: &[&Endpoint]) -> Result<(), Widening> {
    let allows = |upper: &Rule| match &upper.on {
        Subject::Http(limit) => {
            http.method.within(&limit.method)
                && (http.path.within(&limit.path, atom.effort)
                    || speaks_within(atom.endpoint, &limit.path, atom.effort))
                && query_within(http, limit, atom.effort)
        }
        _ => false,
    };
    if candidates.iter().any(|upper| upper.allow.iter().any(allows)) {
        return Ok(());
    }
    let message = format!(
        "no rule of the upper policy allows all of `{} {}` on {}",
        http.method,
        http.path,
        atom.endpoint.selector()
    );
    Err(Widening::beyond(rule.at.0, candidates[0].at, message))
}

/// Every condition of the upper rule must be there below, at least as narrow.
fn query_within(lower: &HttpRule, upper: &HttpRule, effort: &Effort) -> bool {
    upper.query.iter().all(|(key, limit)| {
        lower.query.iter().any(|(name, pattern)| name == key && pattern.within(limit, effort))
    })
}

/// Every upper deny rule that could bite must have its like below.
fn denials(
    atom: &Atom<'_>,
    rule: &Rule,
    http: &HttpRule,
    readers: &[Reader<'_>],
    lower: &[NetworkRule],
) -> Result<(), Widening> {
    for reader in readers {
        if reader.endpoint.deny.is_empty() || !scopes_overlap(reader.endpoint, atom.endpoint, atom.effort) {
            continue;
        }
        for deny in &reader.endpoint.deny {
            let Subject::Http(limit) = &deny.on else { continue };
            let apart = !http.method.overlaps(&limit.method) || !http.path.overlaps(&limit.path, atom.effort);
            if apart || mirrored(atom, limit, reader, lower) {
                continue;
            }
            let message = format!(
                "the upper policy denies `{} {}` on {}, this policy does not",
                limit.method,
                limit.path,
                reader.endpoint.selector()
            );
            return Err(Widening::beyond(rule.at.0, deny.at.0, message));
        }
    }
    Ok(())
}

/// Whether a lower deny rule is in play wherever the upper one is, and forbids as much.
fn mirrored(atom: &Atom<'_>, limit: &HttpRule, reader: &Reader<'_>, lower: &[NetworkRule]) -> bool {
    let as_much = |rule: &Rule| match &rule.on {
        Subject::Http(deny) => {
            limit.method.within(&deny.method)
                && limit.path.within(&deny.path, atom.effort)
                && query_within(limit, deny, atom.effort)
        }
        _ => false,
    };
    endpoints(lower).any(|(mirror, rule)| {
        mirror.protocol.reads_requests()
            && mirrors(mirror, rule, reader, atom)
            && scope_within(reader.endpoint, mirror, atom.effort)
            && mirror.deny.iter().any(as_much)
    })
}
