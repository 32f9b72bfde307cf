//! What a policy may say but nothing here can enforce yet. A run under such a policy must not start; it is never
//! weakened to what can be enforced.

use yaml::Diagnostic;

use crate::file::Protocol;
use crate::model::Policy;

/// One problem for each endpoint or middleware that cannot be enforced.
pub fn uninspected(policy: &Policy) -> Vec<Diagnostic> {
    let endpoints = policy.networks.iter().flat_map(|network| &network.endpoints);
    let protocols = endpoints.filter(|endpoint| !endpoint.is_inspected()).map(|endpoint| {
        let what = if endpoint.protocol == Protocol::Websocket {
            "GraphQL over websocket".to_owned()
        } else {
            format!("protocol {}", endpoint.protocol)
        };
        Diagnostic::error("not-inspected", endpoint.at, format!("{what} is not inspected yet"))
            .label(format!("{} would pass unread", endpoint.selector()))
    });
    let middlewares = policy.middlewares.iter().map(|middleware| {
        let message = format!("middleware `{}` is not run yet", middleware.middleware);
        Diagnostic::error("not-inspected", middleware.key.at, message)
    });
    protocols.chain(middlewares).collect()
}
