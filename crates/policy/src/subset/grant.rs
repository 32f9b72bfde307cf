//! What may be asked over an admitted connection. A tunnel may only stand where the upper policy would tunnel too; a
//! rule must lie within one upper rule, and every upper deny rule that could bite must bite below as well.

use yaml::At;

use super::Widening;
use super::access::{governs, scope_within, scopes_overlap};
use super::connection::{Atom, Limits};
use crate::glob::Pattern;
use crate::model::{Endpoint, HttpRule, Method, NetworkRule, Rule, Subject};

pub(super) fn check(atom: &Atom<'_>, limits: &Limits<'_>, lower: &[NetworkRule]) -> Result<(), Widening> {
    let readers: Vec<(&Endpoint, &[At<Pattern>])> =
        limits.involved.iter().copied().filter(|(endpoint, _)| endpoint.protocol.reads_requests()).collect();
    if !atom.endpoint.protocol.reads_requests() {
        return tunnel(atom, &readers, lower);
    }
    if readers.is_empty() {
        return Ok(());
    }
    let candidates = candidates(atom, limits, &readers)?;
    if !atom.endpoint.is_inspected() {
        return uninspected(atom, &candidates);
    }
    // Where the upper policy only audits it lets everything through.
    let audits =
        |upper: &&Endpoint| !upper.enforce && governs(upper, atom.endpoint, limits, |other| !other.enforce);
    if candidates.iter().any(audits) {
        return Ok(());
    }
    if !atom.endpoint.enforce {
        return audited(atom, &candidates, &readers);
    }
    for rule in &atom.endpoint.allow {
        let Subject::Http(http) = &rule.on else { continue };
        covered(atom, rule, http, &candidates)?;
        denials(atom, rule, http, &readers, lower)?;
    }
    Ok(())
}

/// Wherever the upper policy reads requests, the lower one must read them as well.
fn tunnel(
    atom: &Atom<'_>,
    readers: &[(&Endpoint, &[At<Pattern>])],
    lower: &[NetworkRule],
) -> Result<(), Widening> {
    for (reader, binaries) in readers {
        let mirrored = endpoints(lower).any(|(mirror, rule)| {
            mirror.protocol.reads_requests() && admits_all(mirror, rule, reader, binaries, atom.port)
        });
        if !mirrored {
            let message = format!("{} passes unread what the upper policy reads", atom.endpoint.selector());
            return Err(Widening::beyond(atom.endpoint.at, reader.at, message));
        }
    }
    Ok(())
}

/// The upper endpoints that admit, read in the same way, and speak for all paths of the atom.
fn candidates<'a>(
    atom: &Atom<'_>,
    limits: &Limits<'a>,
    readers: &[(&'a Endpoint, &[At<Pattern>])],
) -> Result<Vec<&'a Endpoint>, Widening> {
    let lower = atom.endpoint;
    let otherwise = readers.iter().find(|(reader, _)| {
        scopes_overlap(reader, lower)
            && (reader.protocol != lower.protocol || reader.is_inspected() != lower.is_inspected())
    });
    if let Some((reader, _)) = otherwise {
        let message = format!(
            "{} is read as {}, but as {} in the upper policy",
            lower.selector(),
            lower.protocol,
            reader.protocol
        );
        return Err(Widening::beyond(lower.at, reader.at, message));
    }
    let found: Vec<&Endpoint> = limits
        .admitting
        .iter()
        .copied()
        .filter(|upper| upper.protocol == lower.protocol && scope_within(lower, upper))
        .collect();
    if found.is_empty() {
        let message = format!("{} speaks for paths that the upper policy does not", lower.selector());
        return Err(Widening::beyond(lower.at, limits.admitting[0].at, message));
    }
    Ok(found)
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

/// An endpoint that only audits lets everything through on its paths.
fn audited(
    atom: &Atom<'_>,
    candidates: &[&Endpoint],
    readers: &[(&Endpoint, &[At<Pattern>])],
) -> Result<(), Widening> {
    let lower = atom.endpoint;
    let everything = |rule: &Rule| match &rule.on {
        Subject::Http(http) => {
            http.method == Method::Any && http.query.is_empty() && scope_within_path(lower, &http.path)
        }
        _ => false,
    };
    let denies = readers.iter().any(|(reader, _)| scopes_overlap(reader, lower) && !reader.deny.is_empty());
    let allows_all = !denies && candidates.iter().any(|upper| upper.allow.iter().any(everything));
    if allows_all {
        return Ok(());
    }
    let message = format!("{} only audits, where the upper policy enforces its rules", lower.selector());
    Err(Widening::beyond(lower.at, candidates[0].at, message))
}

fn scope_within_path(lower: &Endpoint, path: &Pattern) -> bool {
    path.is_everything() || lower.path.as_ref().is_some_and(|scope| scope.within(path))
}

/// One upper rule must allow all that this rule allows.
fn covered(atom: &Atom<'_>, rule: &Rule, http: &HttpRule, candidates: &[&Endpoint]) -> Result<(), Widening> {
    let allows = |upper: &Rule| match &upper.on {
        Subject::Http(limit) => {
            http.method.within(&limit.method)
                && (http.path.within(&limit.path) || scope_within_path(atom.endpoint, &limit.path))
                && query_within(http, limit)
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
fn query_within(lower: &HttpRule, upper: &HttpRule) -> bool {
    upper
        .query
        .iter()
        .all(|(key, limit)| lower.query.iter().any(|(name, pattern)| name == key && pattern.within(limit)))
}

/// Every upper deny rule that could bite must have its like below.
fn denials(
    atom: &Atom<'_>,
    rule: &Rule,
    http: &HttpRule,
    readers: &[(&Endpoint, &[At<Pattern>])],
    lower: &[NetworkRule],
) -> Result<(), Widening> {
    for (reader, binaries) in readers.iter().filter(|(reader, _)| scopes_overlap(reader, atom.endpoint)) {
        for deny in &reader.deny {
            let Subject::Http(limit) = &deny.on else { continue };
            if !http.method.overlaps(&limit.method) || !http.path.overlaps(&limit.path) {
                continue;
            }
            let mirrored = endpoints(lower).any(|(mirror, rule)| {
                admits_all(mirror, rule, reader, binaries, atom.port)
                    && scope_within(reader, mirror)
                    && mirror.deny.iter().any(|deny| denies_all(deny, limit))
            });
            if !mirrored {
                let message = format!(
                    "the upper policy denies `{} {}` on {}, this policy does not",
                    limit.method,
                    limit.path,
                    reader.selector()
                );
                return Err(Widening::beyond(rule.at.0, deny.at.0, message));
            }
        }
    }
    Ok(())
}

/// Whether a lower deny rule forbids everything that the upper one forbids.
fn denies_all(lower: &Rule, upper: &HttpRule) -> bool {
    let Subject::Http(lower) = &lower.on else { return false };
    upper.method.within(&lower.method) && upper.path.within(&lower.path) && query_within(upper, lower)
}

fn endpoints(rules: &[NetworkRule]) -> impl Iterator<Item = (&Endpoint, &NetworkRule)> {
    rules.iter().flat_map(|rule| rule.endpoints.iter().map(move |endpoint| (endpoint, rule)))
}

/// Whether `mirror` is in play wherever `endpoint` is, on this port.
fn admits_all(
    mirror: &Endpoint,
    rule: &NetworkRule,
    endpoint: &Endpoint,
    binaries: &[At<Pattern>],
    port: u16,
) -> bool {
    mirror.ports.contains(&port)
        && endpoint.host.within(&mirror.host)
        && binaries.iter().all(|binary| rule.binaries.iter().any(|mirrored| binary.within(mirrored)))
}
