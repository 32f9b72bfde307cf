//! What a sandbox on an OpenShell gateway cannot do yet. A harness that needs it is refused before anything starts.

use policy::model::RuleSubject;
use yaml::{Diagnostic, Span};

use crate::check::Checked;
use crate::harness::image::ImageRef;
use crate::harness::names::Backend;
use crate::provision::tunnel_servers;
use crate::runtime;

pub fn refused(checked: &Checked) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let backend = &harness.sandbox.backend;
    let mut found = Vec::new();
    if backend.value != Backend::Openshell {
        return found;
    }
    let mut refuse = |at: Span, message: String, help: &str| {
        found.push(Diagnostic::error("openshell", at, message).help(help.to_owned()));
    };
    match &harness.image {
        None => refuse(
            backend.at,
            "`sandbox.backend: openshell` needs an `image`".to_owned(),
            "name an image that the gateway can pull; it needs `/bin/sh`, `ip`, `nsenter` and a user other than root",
        ),
        Some(image) if !matches!(ImageRef::parse(image.raw(), |_| false), Ok(ImageRef::Registry(_))) => {
            refuse(
                image.at,
                format!("the OpenShell gateway cannot read the image `{}` of this machine", image.raw()),
                "name it by its registry, such as registry.example/team/agent:1",
            );
        }
        Some(_) => {}
    }
    if !runtime::of(harness.runtime.value).movable_hooks {
        let name = &harness.runtime.value;
        let message = format!(
            "the runtime `{name}` is not supported with `sandbox.backend: openshell`: it takes our settings only from `/etc`, \
             which is read-only there"
        );
        refuse(
            harness.runtime.at,
            message,
            "use the runtime `claude` or `native`, or `sandbox.backend: local`",
        );
    }
    if harness.allow_runtime_fetch.value {
        let message = "`allow_runtime_fetch` is not supported with `sandbox.backend: openshell`".to_owned();
        refuse(harness.allow_runtime_fetch.at, message, "name the skills in `skills`");
    }
    for (name, server) in harness.mcp_servers.iter().filter(|(_, server)| server.url.is_some()) {
        let message = format!(
            "the MCP server `{}` has a `url`, which is not supported with `sandbox.backend: openshell`",
            name.value
        );
        refuse(server.url.as_ref().map_or(name.at, |url| url.at), message, "start it with `command`");
    }
    let policy = &checked.policy.policy;
    for middleware in &policy.middlewares {
        let message = "`network_middlewares` are not supported with `sandbox.backend: openshell`".to_owned();
        refuse(middleware.key.at, message, "use `sandbox.backend: local`");
    }
    for endpoint in policy.networks.iter().flat_map(|network| &network.endpoints) {
        if endpoint.limits.persisted_queries.is_some() {
            let message = "persisted queries are not supported with `sandbox.backend: openshell`".to_owned();
            refuse(endpoint.at, message, "leave `graphql_persisted_queries` out");
        }
        let mut rules = endpoint.allow.iter().chain(&endpoint.deny);
        if rules.any(|rule| matches!(&rule.on, RuleSubject::Rpc(rpc) if !rpc.params.is_empty())) {
            let message = "`params` of a rule are not supported with `sandbox.backend: openshell`".to_owned();
            refuse(endpoint.at, message, "OpenShell matches methods and tools: use `tool`");
        }
    }
    found.extend(tunnel_servers::refused(checked));
    found
}
