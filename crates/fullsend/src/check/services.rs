//! Which model service a provider file means, and which wire formats the service accepts.

use model::translate;
use model::upstream::{SERVICES, Service};
use model::wire::Wire;

use super::providers::ProviderFile;

/// Other names of services, as OpenShell's profiles have them.
const ALIASES: &[(&str, &str)] = &[
    ("google-vertex-ai", "vertex"),
    ("vertex-ai", "vertex"),
    ("azure", "azure-openai"),
    ("aws-bedrock", "bedrock"),
];

/// The service of a provider, from its profile's annotation, its profile's name, or Google's hosts in it.
pub fn service(provider: &ProviderFile) -> Result<&'static Service, String> {
    let vendor = provider.profile.annotations.get("vendor").map(String::as_str);
    let name = vendor.unwrap_or(provider.provider.kind.as_str());
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| *name);
    let name = if provider.has_google_hosts() && vendor.is_none() { "vertex" } else { name };
    SERVICES.iter().find(|service| service.name == name).ok_or_else(|| {
        let known: Vec<&str> = SERVICES.iter().map(|service| service.name).collect();
        format!("its vendor `{name}` is unknown; known vendors are {}", known.join(", "))
    })
}

/// The wire formats that a provider's service takes; all of them for the scripted model.
pub fn wires(provider: &ProviderFile) -> Vec<Wire> {
    if provider.provider.config.get("scenario").is_some() {
        return Wire::ALL.to_vec();
    }
    let wires = service(provider).map_or(&[][..], |service| service.wires);
    match named_wire(provider) {
        Some("chat") => wires.iter().copied().filter(|wire| *wire == Wire::Chat).collect(),
        Some("responses") => wires.iter().copied().filter(|wire| *wire == Wire::Responses).collect(),
        _ => wires.to_vec(),
    }
}

fn named_wire(provider: &ProviderFile) -> Option<&str> {
    provider.provider.config.get("wire").map(|wire| wire.raw())
}

/// How requests of a runtime reach a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedWires {
    /// Directly, in these wire formats, which both support.
    Common(Vec<Wire>),
    /// In these wire formats of the runtime, which the gateway translates.
    Translated(Vec<Wire>),
    /// Refused: the gateway would translate them if the provider set `wire`. Without it, a provider of another vendor
    /// is probably a mistake.
    Unnamed,
    None,
}

/// How requests in these wire formats reach the provider's service.
pub fn served_wires(provider: &ProviderFile, sent: &[Wire]) -> ServedWires {
    let taken = wires(provider);
    let common: Vec<Wire> = sent.iter().copied().filter(|wire| taken.contains(wire)).collect();
    if !common.is_empty() {
        return ServedWires::Common(common);
    }
    let translated = sent.iter().copied().filter(|wire| translate::target(*wire, &taken).is_some());
    let translated: Vec<Wire> = translated.collect();
    match (translated.is_empty(), named_wire(provider)) {
        (true, _) => ServedWires::None,
        (false, None) => ServedWires::Unnamed,
        (false, Some(_)) => ServedWires::Translated(translated),
    }
}
