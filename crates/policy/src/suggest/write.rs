//! Additions as YAML: one rule for each program, so that no program gets what another asked for.

use std::collections::BTreeMap;

use yaml::{MapEntry, Node, Span, Value};

use crate::file::Protocol;
use crate::glob::Pattern;
use crate::host::Host;
use crate::message::{GraphqlOperation, Operation, RpcCall};
use crate::model::{
    CredentialUse, Endpoint, GraphqlRule, HttpRule, Policy, ProtocolSettings, RequestRule, RpcRule,
    RuleSubject, ValuePattern,
};
use crate::read::DEFAULT_BODY_BYTES;

/// One endpoint to be added for one program.
pub(super) struct Addition<'a> {
    pub(super) binary: String,
    pub(super) host: Host,
    pub(super) port: u16,
    /// The endpoint whose settings it must share.
    pub(super) like: Option<&'a Endpoint>,
    pub(super) asked: Vec<DeniedRequest>,
    pub(super) encoded_slash: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct DeniedRequest {
    pub(super) method: String,
    pub(super) path: String,
    /// If the rules read bodies.
    pub(super) operation: Option<Operation>,
}

/// Joins what goes to the same endpoint.
pub(super) fn add<'a>(additions: &mut Vec<Addition<'a>>, new: Addition<'a>) {
    let same = |known: &&mut Addition<'_>| {
        known.binary == new.binary
            && (&known.host, known.port) == (&new.host, new.port)
            && known.asked.is_empty() == new.asked.is_empty()
            && !known.encoded_slash
            && !new.encoded_slash
            && known.like.map(|like| like.at) == new.like.map(|like| like.at)
    };
    match additions.iter_mut().find(same) {
        None => additions.push(new),
        Some(known) => {
            for asked in new.asked {
                if !known.asked.contains(&asked) {
                    known.asked.push(asked);
                }
            }
        }
    }
}

pub(super) fn node(policy: &Policy, additions: &[Addition<'_>]) -> Node {
    let write = Writer(policy.at);
    let mut rules: Vec<(String, Node)> = Vec::new();
    let mut binaries: Vec<&str> = additions.iter().map(|addition| addition.binary.as_str()).collect();
    binaries.sort_unstable();
    binaries.dedup();
    for binary in binaries {
        let endpoints = additions
            .iter()
            .filter(|addition| addition.binary == binary)
            .map(|addition| write.endpoint(addition));
        let rule = write.map(vec![
            ("binaries", write.list(vec![write.map(vec![("path", write.text(&literal_program(binary)))])])),
            ("endpoints", write.list(endpoints.collect())),
        ]);
        rules.push((key(policy, &rules, binary), rule));
    }
    let entries = rules.into_iter().map(|(key, node)| MapEntry { key, key_at: policy.at, node }).collect();
    write.map(vec![("network_policies", Node::new(policy.at, Value::Map(entries)))])
}

/// A name that no other rule has.
fn key(policy: &Policy, rules: &[(String, Node)], binary: &str) -> String {
    let file = binary.rsplit('/').next().unwrap_or(binary);
    let plain: String = file.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let taken = |name: &String| {
        policy.networks.iter().any(|network| network.key.value == *name)
            || rules.iter().any(|(key, _)| key == name)
    };
    let base = format!("suggested-{plain}");
    if !taken(&base) {
        return base;
    }
    (2..).map(|number| format!("{base}-{number}")).find(|name| !taken(name)).unwrap_or(base)
}

/// Only a preset allows every type of operation.
fn is_full_graphql(endpoint: &Endpoint) -> bool {
    let every =
        |rule: &RequestRule| matches!(&rule.on, RuleSubject::Graphql(rule) if rule.operation_type == "*");
    endpoint.protocol == Protocol::Graphql && endpoint.allow.iter().any(every)
}

/// A path with a `*` in it would be read as a pattern.
fn literal_program(binary: &str) -> String {
    if binary.contains('*') { Pattern::escape(binary) } else { binary.to_owned() }
}

/// Makes nodes that all have one span.
struct Writer(Span);

impl Writer {
    fn map(&self, entries: Vec<(&str, Node)>) -> Node {
        let entry = |(key, node): (&str, Node)| MapEntry { key: key.to_owned(), key_at: self.0, node };
        Node::new(self.0, Value::Map(entries.into_iter().map(entry).collect()))
    }

    fn list(&self, items: Vec<Node>) -> Node {
        Node::new(self.0, Value::List(items))
    }

    fn text(&self, text: &str) -> Node {
        Node::new(self.0, Value::Text(text.to_owned()))
    }

    fn number(&self, number: u64) -> Node {
        Node::new(self.0, Value::Number(number.to_string()))
    }

    fn yes(&self) -> Node {
        Node::new(self.0, Value::Bool(true))
    }

    fn endpoint(&self, addition: &Addition<'_>) -> Node {
        let mut keys = vec![
            ("host", self.text(&addition.host.to_string())),
            ("port", self.number(u64::from(addition.port))),
        ];
        if let Some(like) = addition.like {
            self.settings(like, addition, &mut keys);
        }
        self.map(keys)
    }

    fn settings(&self, like: &Endpoint, addition: &Addition<'_>, keys: &mut Vec<(&str, Node)>) {
        if !like.protocol.word().is_empty() {
            keys.push(("protocol", self.text(like.protocol.word())));
        }
        if like.tls_skip {
            keys.push(("tls", self.text("skip")));
        }
        if !like.allowed_ips.is_empty() {
            let ips = like.allowed_ips.iter().map(|network| self.text(&network.to_string()));
            keys.push(("allowed_ips", self.list(ips.collect())));
        }
        if like.protocol.reads_requests() {
            keys.push(("enforcement", self.text(if like.enforce { "enforce" } else { "audit" })));
            self.rules(like, addition, keys);
        }
        self.limits(like.protocol, &like.limits, keys);
        if like.allow_encoded_slash || addition.encoded_slash {
            keys.push(("allow_encoded_slash", self.yes()));
        }
        self.credentials(&like.credentials, keys);
    }

    /// The refused request; or, if no request was seen, what the endpoint allows to other programs.
    fn rules(&self, like: &Endpoint, addition: &Addition<'_>, keys: &mut Vec<(&str, Node)>) {
        let exact = addition.asked.first().filter(|_| addition.encoded_slash);
        match (exact, &like.path) {
            (Some(asked), _) => keys.push(("path", self.text(&Pattern::escape(&asked.path)))),
            (None, Some(scope)) if addition.asked.iter().all(|asked| like.covers_path(&asked.path)) => {
                keys.push(("path", self.text(scope.as_str())));
            }
            (None, _) => {}
        }
        let allow = |rule: Node| self.map(vec![("allow", rule)]);
        let asked = addition.asked.iter().map(|asked| match &asked.operation {
            Some(operation) => self.operation(operation),
            None => self.map(vec![
                ("method", self.text(&asked.method)),
                ("path", self.text(&Pattern::escape(&asked.path))),
            ]),
        });
        if addition.asked.is_empty() && is_full_graphql(like) {
            keys.push(("access", self.text("full")));
        } else if addition.asked.is_empty() {
            keys.push((
                "rules",
                self.list(like.allow.iter().filter_map(|rule| self.rule(rule)).map(allow).collect()),
            ));
            if !like.deny.is_empty() {
                keys.push((
                    "deny_rules",
                    self.list(like.deny.iter().filter_map(|rule| self.rule(rule)).collect()),
                ));
            }
        } else {
            keys.push(("rules", self.list(asked.map(allow).collect())));
        }
    }

    fn rule(&self, rule: &RequestRule) -> Option<Node> {
        match &rule.on {
            RuleSubject::Http(HttpRule { method, path, query }) => {
                let mut keys =
                    vec![("method", self.text(&method.to_string())), ("path", self.text(path.as_str()))];
                self.values("query", query, &mut keys);
                Some(self.map(keys))
            }
            RuleSubject::Rpc(RpcRule { method, tool, params }) => {
                let method = if method.is_everything() { "*" } else { method.as_str() };
                let mut keys = vec![("method", self.text(method))];
                if let Some(tool) = tool {
                    keys.push(("tool", self.any(tool)));
                }
                self.values("params", params, &mut keys);
                Some(self.map(keys))
            }
            RuleSubject::Graphql(GraphqlRule { operation_type, operation_name, fields }) => {
                // Only a preset says every type.
                let kind = Some(operation_type.as_str()).filter(|kind| *kind != "*")?;
                let name = operation_name.as_ref().map(Pattern::as_str);
                Some(self.graphql(kind, name, fields.iter().map(Pattern::as_str)))
            }
            RuleSubject::Sql { .. } => None,
        }
    }

    fn any(&self, patterns: &ValuePattern) -> Node {
        self.map(vec![("any", self.list(patterns.0.iter().map(|p| self.text(p.as_str())).collect()))])
    }

    fn values(&self, key: &'static str, values: &[(String, ValuePattern)], keys: &mut Vec<(&str, Node)>) {
        if !values.is_empty() {
            let entries = values.iter().map(|(key, patterns)| (key.as_str(), self.any(patterns)));
            keys.push((key, self.map(entries.collect())));
        }
    }

    fn graphql<'t>(&self, kind: &str, name: Option<&str>, fields: impl Iterator<Item = &'t str>) -> Node {
        let fields: Vec<Node> = fields.map(|field| self.text(field)).collect();
        let mut keys = vec![("operation_type", self.text(kind))];
        if let Some(name) = name {
            keys.push(("operation_name", self.text(name)));
        }
        if !fields.is_empty() {
            keys.push(("fields", self.list(fields)));
        }
        self.map(keys)
    }

    fn registered(&self, registered: &BTreeMap<String, GraphqlOperation>) -> Node {
        let entries = registered.iter().map(|(id, operation)| {
            let GraphqlOperation { operation_type, name, fields } = operation;
            let fields = fields.iter().map(String::as_str);
            (id.as_str(), self.graphql(operation_type, name.as_deref(), fields))
        });
        self.map(entries.collect())
    }

    /// The rule that allows one operation.
    fn operation(&self, operation: &Operation) -> Node {
        match operation {
            Operation::Rpc(RpcCall { method, tool, .. }) => {
                let mut keys = vec![("method", self.text(method))];
                if let Some(tool) = tool {
                    keys.push(("tool", self.text(&Pattern::escape(tool))));
                }
                self.map(keys)
            }
            Operation::Graphql(GraphqlOperation { operation_type, name, fields }) => {
                self.graphql(operation_type, name.as_deref(), fields.iter().map(String::as_str))
            }
            Operation::Session => self.map(Vec::new()),
        }
    }

    fn limits(&self, protocol: Protocol, limits: &ProtocolSettings, keys: &mut Vec<(&str, Node)>) {
        let ProtocolSettings { max_body_bytes, strict_tool_names, persisted_queries } = limits;
        if let (Protocol::Graphql, Some(registered)) = (protocol, persisted_queries) {
            keys.push(("persisted_queries", self.text("allow_registered")));
            keys.push(("graphql_persisted_queries", self.registered(registered)));
        }
        if protocol == Protocol::Graphql && *max_body_bytes != DEFAULT_BODY_BYTES {
            keys.push(("graphql_max_body_bytes", self.number(*max_body_bytes)));
        }
        let mut settings = Vec::new();
        if *max_body_bytes != DEFAULT_BODY_BYTES {
            settings.push(("max_body_bytes", self.number(*max_body_bytes)));
        }
        if !strict_tool_names {
            settings.push(("strict_tool_names", Node::new(self.0, Value::Bool(false))));
        }
        match protocol {
            Protocol::Mcp if !settings.is_empty() => keys.push(("mcp", self.map(settings))),
            Protocol::JsonRpc if !settings.is_empty() => keys.push(("json_rpc", self.map(settings))),
            _ => {}
        }
    }

    fn credentials(&self, credentials: &CredentialUse, keys: &mut Vec<(&str, Node)>) {
        let CredentialUse { provider, rewrite_websocket, rewrite_body, allow_uninspected, signing } =
            credentials;
        for (key, on) in [
            ("websocket_credential_rewrite", rewrite_websocket),
            ("request_body_credential_rewrite", rewrite_body),
            ("allow_uninspected_credentials", allow_uninspected),
        ] {
            if *on {
                keys.push((key, self.yes()));
            }
        }
        if let Some(provider) = provider {
            keys.push(("credential_binding", self.map(vec![("provider", self.text(provider))])));
        }
        if let Some(signing) = signing {
            keys.push(("credential_signing", self.text(signing.scheme.word())));
            keys.push(("signing_service", self.text(&signing.service)));
            if let Some(region) = &signing.region {
                keys.push(("signing_region", self.text(region)));
            }
        }
    }
}
