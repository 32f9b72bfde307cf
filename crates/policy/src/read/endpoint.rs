//! One endpoint: where it is, how its traffic is read, and that its keys fit together.

use std::collections::BTreeMap;

use yaml::{Diagnostic, Span, Spanned};

use super::Reader;
use crate::file::{
    EndpointFile, Enforcement, PersistedQueries, PersistedQueryFile, PolicyPort, Protocol, Tls,
};
use crate::glob::Pattern;
use crate::message::GraphqlOperation;
use crate::model::{Endpoint, HostPattern, ProtocolSettings};

pub(crate) const DEFAULT_BODY_BYTES: u64 = 65_536;
/// A body is held in memory while it is decided.
const MAX_BODY_BYTES: u64 = 16 << 20;

impl Reader {
    /// `None` after a problem was reported.
    pub(super) fn endpoint(&mut self, path: &str, file: &Spanned<EndpointFile>) -> Option<Endpoint> {
        let protocol = file.protocol.as_ref().map_or(Protocol::Tunnel, |at| at.value);
        let host = self.endpoint_host(path, protocol, file);
        let ports = self.ports(path, file);
        let scope = match file.path.as_ref().filter(|text| !text.is_empty()) {
            Some(text) => Some(self.scope(path, protocol, text)?),
            None => None,
        };
        if protocol == Protocol::Tcp {
            self.keys_of_tcp(path, file);
        }
        let tls_skip = self.tls(path, protocol, file);
        let enforce = self.enforcement(path, protocol, file);
        let allowed_ips = self.allowed_ips(path, &file.allowed_ips);
        let (allow, deny) = self.allowance(path, protocol, file)?;
        let limits = self.protocol_settings(path, protocol, file);
        let credentials = self.credentials(path, protocol, tls_skip, file);
        Some(Endpoint {
            at: file.at,
            host: host?,
            ports: ports?,
            path: scope,
            protocol,
            tls_skip,
            enforce,
            allow,
            deny,
            allowed_ips,
            allow_encoded_slash: is_on(file.allow_encoded_slash.as_ref()),
            credentials: credentials?,
            limits,
            public_only: false,
            only_tools: None,
        })
    }

    fn endpoint_host(
        &mut self,
        path: &str,
        protocol: Protocol,
        file: &Spanned<EndpointFile>,
    ) -> Option<HostPattern> {
        let Some(text) = file.host.as_ref().filter(|host| !host.is_empty()) else {
            let problem = if protocol == Protocol::Tcp {
                "is needed with protocol tcp"
            } else if file.allowed_ips.is_empty() {
                "is missing; only an endpoint with `allowed_ips` may leave it out"
            } else {
                return Some(HostPattern::Any);
            };
            let at = file.host.as_ref().map_or(file.at, |host| host.at);
            self.error("host", at, format!("`{path}.host` {problem}"));
            return None;
        };
        let host = self.host(&format!("{path}.host"), text)?;
        if let (Protocol::Tcp, HostPattern::Address(_)) = (protocol, &host) {
            self.error("host", text.at, format!("`{path}.host` must be a name with protocol tcp"));
        }
        Some(host)
    }

    fn ports(&mut self, path: &str, file: &Spanned<EndpointFile>) -> Option<Vec<u16>> {
        let number = |port: &Spanned<PolicyPort>| u16::try_from(port.get()).ok().filter(|port| *port != 0);
        let several = file.ports.as_ref().filter(|ports| !ports.is_empty());
        let single = file.port.as_ref().filter(|port| port.get() != 0);
        let Some(ports) = several else {
            let Some(port) = single.and_then(number) else {
                let at = file.port.as_ref().map_or(file.at, |port| port.at);
                self.error("port", at, format!("`{path}` needs a `port` from 1 to 65535, or `ports`"));
                return None;
            };
            return Some(vec![port]);
        };
        let mut read = Vec::new();
        for port in &ports.value {
            match number(port) {
                None => {
                    self.error("port", port.at, format!("`{path}.ports` must hold numbers from 1 to 65535"));
                    return None;
                }
                Some(port_number) if read.contains(&port_number) => {
                    self.warn("duplicate", port.at, format!("port {port_number} is listed twice"));
                }
                Some(port_number) => read.push(port_number),
            }
        }
        if let Some(port) = single.filter(|port| !number(port).is_some_and(|port| read.contains(&port))) {
            self.warn("no-effect", port.at, format!("`{path}.port` has no effect beside `ports`"));
        }
        read.sort_unstable();
        Some(read)
    }

    fn scope(&mut self, path: &str, protocol: Protocol, text: &Spanned<String>) -> Option<Spanned<Pattern>> {
        let path = format!("{path}.path");
        if !protocol.reads_requests() {
            if protocol != Protocol::Tcp {
                let problem = Diagnostic::error(
                    "misplaced",
                    text.at,
                    format!("`{path}` needs a protocol that reads requests, such as rest"),
                );
                self.report(problem.label("without one, every path would pass"));
            }
            return Some(Spanned { value: Pattern::everything(crate::glob::Separator::Slash), at: text.at });
        }
        self.request_path(&path, text)?;
        match Pattern::scope(text) {
            Ok(value) => Some(Spanned { value, at: text.at }),
            Err(error) => {
                self.error("pattern", text.at, format!("`{path}` {error}"));
                None
            }
        }
    }

    fn tls(&mut self, path: &str, protocol: Protocol, file: &Spanned<EndpointFile>) -> bool {
        let Some(tls) = &file.tls else { return false };
        match tls.value {
            Tls::Auto => {}
            Tls::Terminate | Tls::Passthrough => {
                let message = format!("`{path}.tls: {}` has no effect", tls.value);
                let problem = Diagnostic::warning("no-effect", tls.at, message);
                self.report(problem.help("remove it: TLS is terminated when a rule needs it"));
            }
            Tls::Skip if protocol.reads_requests() => {
                let message = format!("`{path}.tls: skip` leaves nothing to read for protocol {protocol}");
                let problem = Diagnostic::error("contradiction", tls.at, message);
                self.report(problem.help("remove `tls`, or remove `protocol` and its rules"));
            }
            Tls::Skip => return true,
        }
        false
    }

    fn enforcement(&mut self, path: &str, protocol: Protocol, file: &Spanned<EndpointFile>) -> bool {
        let written = file.enforcement.as_ref().filter(|at| at.value != Enforcement::Unsaid);
        // SQL statements are not parsed, so there is nothing to enforce.
        let can_enforce = protocol != Protocol::Sql;
        if let Some(at) = written.filter(|at| at.value == Enforcement::Enforce && !can_enforce) {
            self.error("contradiction", at.at, format!("`{path}`: protocol sql cannot be enforced"));
        }
        let audit = written.filter(|at| at.value == Enforcement::Audit);
        if let Some(audit) = audit.filter(|_| protocol.reads_requests()) {
            let message = format!(
                "`{path}.enforcement` is `audit`: a request that the rules do not allow is recorded and let through"
            );
            let problem = Diagnostic::warning("audit", audit.at, message);
            let help = "leave it out: the default is `enforce`";
            self.report(if can_enforce { problem.help(help) } else { problem });
        }
        can_enforce && audit.is_none()
    }

    fn protocol_settings(
        &mut self,
        path: &str,
        protocol: Protocol,
        file: &Spanned<EndpointFile>,
    ) -> ProtocolSettings {
        let graphql = matches!(protocol, Protocol::Graphql | Protocol::Websocket);
        self.belongs(path, "persisted_queries", file.persisted_queries.as_ref(), graphql, protocol);
        self.belongs(
            path,
            "graphql_persisted_queries",
            file.graphql_persisted_queries.as_ref(),
            graphql,
            protocol,
        );
        self.belongs(path, "graphql_max_body_bytes", file.graphql_max_body_bytes.as_ref(), graphql, protocol);
        self.belongs(path, "json_rpc", file.json_rpc.as_ref(), protocol == Protocol::JsonRpc, protocol);
        self.belongs(path, "mcp", file.mcp.as_ref(), protocol == Protocol::Mcp, protocol);
        let body = match protocol {
            Protocol::JsonRpc => file.json_rpc.as_ref().and_then(|at| at.max_body_bytes.as_ref()),
            Protocol::Mcp => file.mcp.as_ref().and_then(|at| at.max_body_bytes.as_ref()),
            _ => file.graphql_max_body_bytes.as_ref(),
        };
        let mcp = file.mcp.as_ref();
        let registered =
            file.persisted_queries.as_ref().is_some_and(|at| at.value == PersistedQueries::AllowRegistered);
        ProtocolSettings {
            max_body_bytes: body
                .map(|at| at.get())
                .filter(|bytes| *bytes != 0)
                .map_or(DEFAULT_BODY_BYTES, |bytes| bytes.min(MAX_BODY_BYTES)),
            strict_tool_names: mcp.and_then(|at| at.strict_tool_names.as_ref()).is_none_or(|at| at.value),
            persisted_queries: registered.then(|| self.persisted_queries(path, file)),
        }
    }

    /// A stored query without its type could be any operation.
    fn persisted_queries(&mut self, path: &str, file: &EndpointFile) -> BTreeMap<String, GraphqlOperation> {
        let mut registered = BTreeMap::new();
        for (id, query) in file.graphql_persisted_queries.iter().flat_map(|map| map.iter()) {
            let PersistedQueryFile { operation_type, operation_name, fields } = query;
            let kind = operation_type.as_ref().map_or("", |kind| kind.as_str());
            if !["query", "mutation", "subscription"].contains(&kind) {
                let path = format!("{path}.graphql_persisted_queries.{}.operation_type", id.value);
                let at = operation_type.as_ref().map_or(id.at, |kind| kind.at);
                self.error("value", at, format!("`{path}` must be query, mutation or subscription"));
            }
            let operation = GraphqlOperation {
                operation_type: kind.to_owned(),
                name: operation_name.as_ref().map(|name| name.value.clone()).filter(|name| !name.is_empty()),
                fields: fields.iter().map(|field| field.value.clone()).collect(),
            };
            registered.insert(id.value.clone(), operation);
        }
        registered
    }

    fn belongs<T>(
        &mut self,
        path: &str,
        key: &str,
        value: Option<&Spanned<T>>,
        fits: bool,
        protocol: Protocol,
    ) {
        // Protocol tcp has a message of its own.
        if let (Some(value), false, true) = (value, fits, protocol != Protocol::Tcp) {
            let named = if protocol == Protocol::Tunnel { "no protocol" } else { protocol.word() };
            self.error("misplaced", value.at, format!("`{path}.{key}` has no meaning with {named}"));
        }
    }

    /// tcp passes raw bytes: keys that need parsed requests contradict it.
    fn keys_of_tcp(&mut self, path: &str, file: &Spanned<EndpointFile>) {
        let on = |flag: &Option<Spanned<bool>>| flag.as_ref().filter(|at| at.value).map(|at| at.at);
        let given: [(&str, Option<Span>); 14] = [
            ("path", file.path.as_ref().filter(|text| !text.is_empty()).map(|at| at.at)),
            (
                "enforcement",
                file.enforcement.as_ref().filter(|at| at.value != Enforcement::Unsaid).map(|at| at.at),
            ),
            ("access", file.access.as_ref().filter(|at| !at.word().is_empty()).map(|at| at.at)),
            ("rules", file.rules.as_ref().map(|at| at.at)),
            ("deny_rules", file.deny_rules.as_ref().map(|at| at.at)),
            ("allow_encoded_slash", on(&file.allow_encoded_slash)),
            ("websocket_credential_rewrite", on(&file.websocket_credential_rewrite)),
            ("request_body_credential_rewrite", on(&file.request_body_credential_rewrite)),
            ("credential_signing", file.credential_signing.as_ref().map(|at| at.at)),
            ("persisted_queries", file.persisted_queries.as_ref().map(|at| at.at)),
            ("graphql_persisted_queries", file.graphql_persisted_queries.as_ref().map(|at| at.at)),
            ("graphql_max_body_bytes", file.graphql_max_body_bytes.as_ref().map(|at| at.at)),
            ("json_rpc", file.json_rpc.as_ref().map(|at| at.at)),
            ("mcp", file.mcp.as_ref().map(|at| at.at)),
        ];
        for (key, at) in given {
            if let Some(at) = at {
                self.error("contradiction", at, format!("`{path}.{key}` cannot be used with protocol tcp"));
            }
        }
    }
}

pub(super) fn is_on(flag: Option<&Spanned<bool>>) -> bool {
    flag.is_some_and(|at| at.value)
}
