//! How an endpoint may be used apart from its rules: credentials, raw TLS, raw TCP, encoded slashes. Each of these needs
//! an upper endpoint that grants it too.

use super::Widening;
use super::connection::{Atom, Limits};
use crate::file::Protocol;
use crate::model::{Credentials, Endpoint};

pub(super) fn check(atom: &Atom<'_>, limits: &Limits<'_>) -> Result<(), Widening> {
    let lower = atom.endpoint;
    let granted = |what: &str, by: &dyn Fn(&Endpoint) -> bool| {
        if limits.admitting.iter().any(|endpoint| by(endpoint)) {
            return Ok(());
        }
        let message = format!("{} has {what}, which the upper policy does not grant", lower.selector());
        Err(Widening::beyond(lower.at, limits.admitting[0].at, message))
    };
    if lower.tls_skip {
        granted("`tls: skip`", &|upper| upper.tls_skip)?;
    }
    if lower.protocol == Protocol::Tcp {
        granted("`protocol: tcp`", &|upper| upper.protocol == Protocol::Tcp)?;
    }
    granted("credentials", &|upper| credentials(&lower.credentials, &upper.credentials))?;
    let read_above = limits.involved.iter().any(|(endpoint, _)| endpoint.protocol.reads_requests());
    if lower.allow_encoded_slash && read_above {
        granted("`allow_encoded_slash`", &|upper| encoded_slash(lower, upper, limits))?;
    }
    Ok(())
}

fn credentials(lower: &Credentials, upper: &Credentials) -> bool {
    let Credentials { provider, rewrite_websocket, rewrite_body, allow_uninspected, signing } = lower;
    (provider.is_none() || *provider == upper.provider)
        && (!rewrite_websocket || upper.rewrite_websocket)
        && (!rewrite_body || upper.rewrite_body)
        && (!allow_uninspected || upper.allow_uninspected)
        && (signing.is_none() || *signing == upper.signing)
}

/// The upper endpoint must decide wherever the lower one speaks.
fn encoded_slash(lower: &Endpoint, upper: &Endpoint, limits: &Limits<'_>) -> bool {
    upper.allow_encoded_slash
        && scope_within(lower, upper)
        && governs(upper, lower, limits, |other| other.allow_encoded_slash)
}

/// Whether every path that `lower` speaks for, `upper` speaks for.
pub(super) fn scope_within(lower: &Endpoint, upper: &Endpoint) -> bool {
    match (&lower.path, &upper.path) {
        (_, None) => true,
        (None, Some(upper)) => upper.is_everything(),
        (Some(lower), Some(upper)) => lower.within(upper),
    }
}

pub(super) fn scopes_overlap(one: &Endpoint, two: &Endpoint) -> bool {
    match (&one.path, &two.path) {
        (Some(one), Some(two)) => one.overlaps(two),
        _ => true,
    }
}

/// Whether, on the paths of `lower`, the upper endpoint that decides is `chosen` or one that is `as_good`.
pub(super) fn governs(
    chosen: &Endpoint,
    lower: &Endpoint,
    limits: &Limits<'_>,
    as_good: impl Fn(&Endpoint) -> bool,
) -> bool {
    limits
        .involved
        .iter()
        .map(|(endpoint, _)| *endpoint)
        .filter(|endpoint| endpoint.protocol.reads_requests() && scopes_overlap(endpoint, lower))
        .all(|endpoint| as_good(endpoint) || endpoint.specificity() < chosen.specificity())
}
