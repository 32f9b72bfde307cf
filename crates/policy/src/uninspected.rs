//! Settings that a policy may contain but fullsend cannot enforce yet. A run with such a policy does not start.

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
        if endpoint.protocol == Protocol::Sql {
            return Diagnostic::error("not-inspected", endpoint.at, "protocol sql cannot be enforced")
                .label("SQL statements are not parsed, so no rule can be enforced")
                .help(
                    "remove `protocol` and its rules to allow the whole connection, or remove the endpoint",
                );
        }
        Diagnostic::error("not-inspected", endpoint.at, format!("{what} is not inspected yet"))
            .label(format!("{} would pass without inspection", endpoint.selector()))
    });
    let middlewares = policy.middlewares.iter().map(|middleware| {
        let message = format!("middleware `{}` is not run yet", middleware.middleware);
        Diagnostic::error("not-inspected", middleware.key.at, message)
    });
    protocols.chain(middlewares).collect()
}

#[cfg(test)]
mod tests {
    use yaml::Sources;

    use super::uninspected;
    use crate::Policy;

    #[test]
    fn what_cannot_be_enforced_is_named() {
        let text = "version: 1
network_policies:
  n:
    binaries: [{path: /bin/c}]
    endpoints:
      - {host: rest.test, port: 1, protocol: rest, access: full}
      - {host: ws.test, port: 1, protocol: websocket, access: full}
      - {host: tcp.test, port: 1, protocol: tcp}
      - {host: plain.test, port: 1}
      - {host: graphql.test, port: 1, protocol: graphql, access: full}
      - {host: rpc.test, port: 1, protocol: json-rpc, rules: [{allow: {method: '*'}}]}
      - {host: mcp.test, port: 1, protocol: mcp, mcp: {allow_all_known_mcp_methods: true}}
      - {host: sql.test, port: 1, protocol: sql, access: full}
      - {host: wsgraphql.test, port: 1, protocol: websocket, rules: [{allow: {operation_type: query}}]}
network_middlewares: {m: {middleware: openshell/regex, endpoints: {include: ['**']}}}
";
        let mut sources = Sources::default();
        let id = sources.add("p", text);
        let problems = uninspected(&Policy::parse(&sources, id).unwrap().policy);
        let found: Vec<String> =
            problems.iter().map(|d| format!("{} {}", sources.locate(d.at).line, d.message)).collect();
        assert_eq!(
            found,
            [
                "13 protocol sql cannot be enforced",
                "14 GraphQL over websocket is not inspected yet",
                "15 middleware `openshell/regex` is not run yet",
            ]
        );
    }
}
