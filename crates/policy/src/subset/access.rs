//! How an endpoint may be used apart from its rules: credentials, raw TLS, raw TCP, encoded slashes. Each of these needs
//! an outer endpoint that grants it too.

use super::atom::{Atom, OuterEndpoints, Reader};
use super::precedence::{governs, scope_within};
use super::widening::Widening;
use crate::file::Protocol;
use crate::model::{CredentialUse, Endpoint};

pub(super) fn check(
    atom: &Atom<'_>,
    limits: &OuterEndpoints<'_>,
    deciding: &[Reader<'_>],
) -> Result<(), Widening> {
    let inner = atom.endpoint;
    let granted = |what: &str, by: &dyn Fn(&Endpoint) -> bool| {
        if limits.admitting.iter().any(|endpoint| by(endpoint)) {
            return Ok(());
        }
        let message =
            format!("{} has {what}, which the organisation's policy does not grant", inner.selector());
        Err(Widening::beyond(inner.at, limits.admitting[0].at, message))
    };
    if inner.tls_skip {
        granted("`tls: skip`", &|outer| outer.tls_skip)?;
    }
    if inner.protocol == Protocol::Tcp {
        granted("`protocol: tcp`", &|outer| outer.protocol == Protocol::Tcp)?;
    }
    granted("credentials", &|outer| credentials(&inner.credentials, &outer.credentials))?;
    if inner.allow_encoded_slash && !limits.readers.is_empty() {
        // The outer endpoint must decide wherever the inner one does.
        granted("`allow_encoded_slash`", &|outer| {
            outer.allow_encoded_slash
                && scope_within(inner, outer, atom.budget)
                && governs(outer, atom, deciding, |other| other.allow_encoded_slash)
        })?;
    }
    Ok(())
}

fn credentials(inner: &CredentialUse, outer: &CredentialUse) -> bool {
    let CredentialUse { provider, rewrite_websocket, rewrite_body, allow_uninspected, signing } = inner;
    (provider.is_none() || *provider == outer.provider)
        && (!rewrite_websocket || outer.rewrite_websocket)
        && (!rewrite_body || outer.rewrite_body)
        && (!allow_uninspected || outer.allow_uninspected)
        && (signing.is_none() || *signing == outer.signing)
}
