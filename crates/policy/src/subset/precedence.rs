//! Which endpoints can apply together. The endpoint with the more specific path decides how a request is read. So an
//! outer endpoint does not matter to an inner one on paths that another inner endpoint decides.

use super::atom::{Atom, Reader};
use crate::glob::{Pattern, ProofBudget};
use crate::model::{Endpoint, NetworkRule};

/// The outer endpoints that read requests and may apply where the inner endpoint decides.
pub(super) fn deciding<'a>(
    atom: &Atom<'_>,
    readers: &[Reader<'a>],
    inner: &[NetworkRule],
) -> Vec<Reader<'a>> {
    let overshadowed = |reader: &Reader<'_>| {
        endpoints(inner).any(|(mirror, rule)| {
            let outer = reader.endpoint;
            mirror.specificity() > atom.endpoint.specificity()
                && mirror.protocol == outer.protocol
                && mirror.is_inspected() == outer.is_inspected()
                && (mirror.enforce || !outer.enforce)
                && (!mirror.allow_encoded_slash || outer.allow_encoded_slash)
                && mirrors(mirror, rule, reader, atom)
                && scope_within(outer, mirror, atom.budget)
        })
    };
    readers
        .iter()
        .copied()
        .filter(|reader| scopes_overlap(reader.endpoint, atom.endpoint, atom.budget) && !overshadowed(reader))
        .collect()
}

/// Whether, of the outer readers, `chosen` decides on the paths of the atom, or one that is `as_good`.
pub(super) fn governs(
    chosen: &Endpoint,
    atom: &Atom<'_>,
    readers: &[Reader<'_>],
    as_good: impl Fn(&Endpoint) -> bool,
) -> bool {
    readers
        .iter()
        .map(|reader| reader.endpoint)
        .filter(|endpoint| scopes_overlap(endpoint, atom.endpoint, atom.budget))
        .all(|endpoint| as_good(endpoint) || endpoint.specificity() < chosen.specificity())
}

/// Whether `outer` covers every path that `inner` covers.
pub(super) fn scope_within(inner: &Endpoint, outer: &Endpoint, budget: &ProofBudget) -> bool {
    match (&inner.path, &outer.path) {
        (_, None) => true,
        (None, Some(outer)) => outer.is_everything(),
        (Some(inner), Some(outer)) => inner.within(outer, budget),
    }
}

pub(super) fn scopes_overlap(one: &Endpoint, two: &Endpoint, budget: &ProofBudget) -> bool {
    match (&one.path, &two.path) {
        (Some(one), Some(two)) => one.overlaps(two, budget),
        _ => true,
    }
}

pub(super) fn endpoints(rules: &[NetworkRule]) -> impl Iterator<Item = (&Endpoint, &NetworkRule)> {
    rules.iter().flat_map(|rule| rule.endpoints.iter().map(move |endpoint| (endpoint, rule)))
}

/// Whether an inner endpoint admits wherever an outer one does, on the port of the atom.
pub(super) fn mirrors(mirror: &Endpoint, rule: &NetworkRule, reader: &Reader<'_>, atom: &Atom<'_>) -> bool {
    let listed = |binary: &Pattern| rule.binaries.iter().any(|mirrored| binary.within(mirrored, atom.budget));
    mirror.ports.binary_search(&atom.port).is_ok()
        && reader.endpoint.host.within(&mirror.host, atom.budget)
        && reader.binaries.iter().all(|binary| listed(binary))
}
