//! From a policy file to a [`Policy`]: what the values mean, alone and together. Every problem of a file is reported
//! with its place, not only the first; a policy exists only when there was none.

mod address;
mod allowance;
mod credential;
mod endpoint;
mod filesystem;
mod host;
mod identity;
mod middleware;
mod network;
mod overlap;
mod rpc;
mod rule;
#[cfg(test)]
mod tests;
mod unreachable;

pub(crate) use endpoint::DEFAULT_BODY_BYTES;
pub(crate) use filesystem::beneath;
pub(crate) use rule::WEBSOCKET_TEXT;
use yaml::{
    Decoder, Diagnostic, MapEntry, Node, ParseLimits, Shape, SourceId, Sources, Span, Spanned, Value, parse,
};

use crate::file::{Compatibility, PolicyFile};
use crate::model::{NetworkRule, Policy, ProcessIdentity};

/// A policy and its warnings.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub policy: Policy,
    pub warnings: Vec<Diagnostic>,
}

impl Policy {
    /// Reads a policy file. On failure all problems are returned, warnings among them.
    pub fn parse(sources: &Sources, source: SourceId) -> Result<Parsed, Vec<Diagnostic>> {
        let node = parse(sources, source, ParseLimits::default()).map_err(|problem| vec![*problem])?;
        Self::from_node(&node)
    }

    /// Reads a policy from a tree that was parsed already.
    pub fn from_node(node: &Node) -> Result<Parsed, Vec<Diagnostic>> {
        let mut decoder = Decoder::whole();
        let file = PolicyFile::decode(node, &mut decoder);
        let mut reader = Reader { diagnostics: decoder.diagnostics };
        reader.refuse_empty_values(node, "");
        let policy = file.map(|file| reader.policy(node.at, &file));
        let failed = reader.diagnostics.iter().any(Diagnostic::is_error);
        match policy {
            Some(policy) if !failed => Ok(Parsed { policy, warnings: reader.diagnostics }),
            _ => Err(reader.diagnostics),
        }
    }
}

/// Endpoints of a policy that may match one request and disagree about it. A policy that was read has none; a merged
/// one may have some.
pub fn ambiguities(policy: &Policy) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    overlap::check(&policy.networks, &mut found);
    found
}

impl NetworkRule {
    /// One rule for every program, from endpoints outside a policy file.
    pub fn of_endpoints(name: &str, at: Span, endpoints: Vec<Node>) -> Result<Self, Vec<Diagnostic>> {
        let node = |value: Value| Node::new(at, value);
        let map = |entries: Vec<(&str, Node)>| {
            let entry = |(key, node): (&str, Node)| MapEntry { key: key.to_owned(), key_at: at, node };
            node(Value::Map(entries.into_iter().map(entry).collect()))
        };
        let every_program = map(vec![("path", node(Value::Text("/**".to_owned())))]);
        let rule = map(vec![
            ("binaries", node(Value::List(vec![every_program]))),
            ("endpoints", node(Value::List(endpoints))),
        ]);
        let version = node(Value::Number("1".to_owned()));
        let document = map(vec![("version", version), ("network_policies", map(vec![(name, rule)]))]);
        let mut policy = Policy::from_node(&document)?.policy;
        policy.networks.pop().ok_or_else(Vec::new)
    }
}

/// Collects what is wrong with one policy.
struct Reader {
    diagnostics: Vec<Diagnostic>,
}

impl Reader {
    fn policy(&mut self, at: Span, file: &PolicyFile) -> Policy {
        let PolicyFile {
            version: _,
            filesystem_policy,
            landlock,
            process,
            network_policies,
            network_middlewares,
        } = file;
        let landlock = landlock.as_ref().and_then(|landlock| landlock.compatibility.clone());
        let networks = self.networks(network_policies);
        overlap::check(&networks, &mut self.diagnostics);
        unreachable::check(&networks, &mut self.diagnostics);
        Policy {
            at,
            filesystem: filesystem_policy.as_ref().map(|file| self.filesystem(file)).unwrap_or_default(),
            landlock: landlock.unwrap_or(Spanned { value: Compatibility::BestEffort, at }),
            process: process.as_ref().map_or_else(ProcessIdentity::default, |file| self.process(file)),
            middlewares: self.middlewares(network_middlewares, &networks),
            networks,
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn error(&mut self, code: &'static str, at: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, at, message));
    }

    fn warn(&mut self, code: &'static str, at: Span, message: impl Into<String>) {
        self.report(Diagnostic::warning(code, at, message));
    }

    /// A key without a value is a mistake, and guessing its meaning would be dangerous here.
    fn refuse_empty_values(&mut self, node: &Node, path: &str) {
        for entry in node.entries() {
            let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
            if entry.node.is_null() {
                let problem = Diagnostic::error("empty", entry.key_at, format!("`{path}` has no value"));
                self.report(problem.help("give it a value, or remove the key"));
            } else if entry.key != "config" || !path.starts_with("network_middlewares.") {
                self.refuse_empty_values(&entry.node, &path);
            }
        }
        for (index, item) in node.items().iter().enumerate() {
            self.refuse_empty_values(item, &format!("{path}.{index}"));
        }
    }
}
