//! How an endpoint may be used apart from its rules: credentials, raw TLS, raw TCP, encoded slashes. Each of these needs
//! an upper endpoint that grants it too.

use super::Widening;
use super::connection::{Atom, Limits};
use super::play::{Reader, governs, scope_within};
use crate::file::Protocol;
use crate::model::{Credentials, Endpoint};

pub(super) fn check(atom: &Atom<'_>, limits: &Limits<'_>, deciding: &[Reader<'_>]) -> Result<(), Widening> {
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
    if lower.allow_encoded_slash && !limits.readers.is_empty() {
        // The upper endpoint must decide wherever the lower one does.
        granted("`allow_encoded_slash`", &|upper| {
            upper.allow_encoded_slash
                && scope_within(lower, upper, atom.effort)
                && governs(upper, atom, deciding, |other| other.allow_encoded_slash)
        })?;
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
