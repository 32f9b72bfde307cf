//! Endpoints whose requests are signed: a key must be bound to each, and its region must be known.

use egress::credentials::has_signing_key;
use egress::sigv4::region_of_host;
use policy::model::{Endpoint, Signature};
use yaml::Diagnostic;

use super::Checked;
use super::providers::ProviderFile;
use crate::harness::names::Backend;
use crate::harness::provider;

pub fn problems(checked: &Checked) -> Vec<Diagnostic> {
    let endpoints = checked.policy.policy.networks.iter().flat_map(|network| &network.endpoints);
    let signed = endpoints
        .filter_map(|endpoint| endpoint.credentials.signing.as_ref().map(|signing| (endpoint, signing)));
    // OpenShell's own proxy signs there, with what its gateway knows.
    let is_local = checked.resolved.harness.sandbox.backend.value != Backend::Openshell;
    signed.filter(|_| is_local).flat_map(|(endpoint, signing)| missing(checked, endpoint, signing)).collect()
}

fn missing(checked: &Checked, endpoint: &Endpoint, signing: &Signature) -> Vec<Diagnostic> {
    let host = endpoint.host.to_string();
    let mut found = Vec::new();
    if signing.region.is_none() && region_of_host(&host).is_none() {
        let message = format!("`{host}` does not contain an AWS region, which is needed to sign requests");
        found.push(
            Diagnostic::error("signing-region", endpoint.at, message)
                .help("add `signing_region: eu-west-1`, or the region of your service"),
        );
    }
    let files = checked.providers.iter().filter(|file| !file.inference_capable());
    let bound: Vec<&ProviderFile> = files.filter(|file| is_bound(file, endpoint)).collect();
    let names = |file: &&ProviderFile| {
        has_signing_key(provider::credentials(&file.provider).map(|(name, _)| name.value.as_str()))
    };
    if !bound.iter().any(names) {
        let why = match bound.first() {
            Some(file) => format!("the provider `{}` has no AWS key", file.provider.name.value),
            None => "no provider is bound to it".to_owned(),
        };
        let message = format!("requests to `{host}` are signed (`credential_signing`), and {why}");
        found.push(Diagnostic::error("signing-key", endpoint.at, message).help(
            "name AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_CREDENTIALS, in the provider's `credentials`, and \
             bind it: `credential_binding: {provider: NAME}`",
        ));
    }
    found
}

/// By its profile's endpoints, or by name in the policy.
fn is_bound(file: &ProviderFile, endpoint: &Endpoint) -> bool {
    if file.endpoints.is_empty() {
        return endpoint.credentials.provider.as_deref() == Some(file.provider.name.as_str());
    }
    let same_host = |other: &Endpoint| other.host == endpoint.host || is_within(endpoint, other);
    file.endpoints
        .iter()
        .any(|other| same_host(other) && other.ports.iter().any(|port| endpoint.ports.contains(port)))
}

/// Whether the profile's pattern matches the endpoint's host.
fn is_within(endpoint: &Endpoint, profile: &Endpoint) -> bool {
    policy::Host::parse(&endpoint.host.to_string()).is_ok_and(|host| profile.host.matches(&host))
}
