//! Which endpoints come into play together. An endpoint that names a path more exactly decides how a request is read;
//! so an upper endpoint does not matter to a lower one wherever another lower endpoint decides in its place.

use yaml::At;

use super::connection::Atom;
use crate::glob::{Effort, Pattern};
use crate::model::{Endpoint, NetworkRule};

/// An upper endpoint that reads requests, with the programs it is for.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) binaries: &'a [At<Pattern>],
}

/// The upper readers that may be in play where the lower endpoint decides.
pub(super) fn deciding<'a>(
    atom: &Atom<'_>,
    readers: &[Reader<'a>],
    lower: &[NetworkRule],
) -> Vec<Reader<'a>> {
    let overshadowed = |reader: &Reader<'_>| {
        endpoints(lower).any(|(mirror, rule)| {
            let upper = reader.endpoint;
            mirror.specificity() > atom.endpoint.specificity()
                && mirror.protocol == upper.protocol
                && mirror.is_inspected() == upper.is_inspected()
                && (mirror.enforce || !upper.enforce)
                && (!mirror.allow_encoded_slash || upper.allow_encoded_slash)
                && mirrors(mirror, rule, reader, atom)
                && scope_within(upper, mirror, atom.effort)
        })
    };
    readers
        .iter()
        .copied()
        .filter(|reader| scopes_overlap(reader.endpoint, atom.endpoint, atom.effort) && !overshadowed(reader))
        .collect()
}

/// Whether, of the upper readers, `chosen` decides on the paths of the atom, or one that is `as_good`.
pub(super) fn governs(
    chosen: &Endpoint,
    atom: &Atom<'_>,
    readers: &[Reader<'_>],
    as_good: impl Fn(&Endpoint) -> bool,
) -> bool {
    readers
        .iter()
        .map(|reader| reader.endpoint)
        .filter(|endpoint| scopes_overlap(endpoint, atom.endpoint, atom.effort))
        .all(|endpoint| as_good(endpoint) || endpoint.specificity() < chosen.specificity())
}

/// Whether every path that `lower` speaks for, `upper` speaks for.
pub(super) fn scope_within(lower: &Endpoint, upper: &Endpoint, effort: &Effort) -> bool {
    match (&lower.path, &upper.path) {
        (_, None) => true,
        (None, Some(upper)) => upper.is_everything(),
        (Some(lower), Some(upper)) => lower.within(upper, effort),
    }
}

pub(super) fn scopes_overlap(one: &Endpoint, two: &Endpoint, effort: &Effort) -> bool {
    match (&one.path, &two.path) {
        (Some(one), Some(two)) => one.overlaps(two, effort),
        _ => true,
    }
}

pub(super) fn endpoints(rules: &[NetworkRule]) -> impl Iterator<Item = (&Endpoint, &NetworkRule)> {
    rules.iter().flat_map(|rule| rule.endpoints.iter().map(move |endpoint| (endpoint, rule)))
}

/// Whether a lower endpoint admits wherever an upper one does, on the port of the atom.
pub(super) fn mirrors(mirror: &Endpoint, rule: &NetworkRule, reader: &Reader<'_>, atom: &Atom<'_>) -> bool {
    let listed = |binary: &Pattern| rule.binaries.iter().any(|mirrored| binary.within(mirrored, atom.effort));
    mirror.ports.binary_search(&atom.port).is_ok()
        && reader.endpoint.host.within(&mirror.host, atom.effort)
        && reader.binaries.iter().all(|binary| listed(binary))
}
