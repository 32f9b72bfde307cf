//! Allow and deny rules. Which keys a rule has depends on the protocol; other keys are refused, because a rule that is
//! narrower or wider than it looks is worse than none.

use yaml::{Span, Spanned};

use super::Reader;
use crate::canonical::{CanonicalPath, EncodedSlash};
use crate::file::{Matcher, Protocol, RuleFile};
use crate::glob::{Pattern, Separator};
use crate::model::{GraphqlRule, HttpRule, Method, RequestRule, RuleSpan, RuleSubject, ValuePattern};

/// The method that means a text frame from the client.
pub(crate) const WEBSOCKET_TEXT: &str = "WEBSOCKET_TEXT";

impl Reader {
    pub(super) fn rule(
        &mut self,
        path: &str,
        protocol: Protocol,
        file: &Spanned<RuleFile>,
    ) -> Option<RequestRule> {
        let on = match protocol {
            Protocol::Websocket if speaks_graphql(file) => {
                self.graphql(path, protocol, file).map(RuleSubject::Graphql)
            }
            Protocol::Rest | Protocol::Websocket => self.http(path, protocol, file).map(RuleSubject::Http),
            Protocol::Graphql => self.graphql(path, protocol, file).map(RuleSubject::Graphql),
            Protocol::JsonRpc | Protocol::Mcp => self.rpc(path, protocol, file).map(RuleSubject::Rpc),
            Protocol::Sql => self.sql(path, file),
            Protocol::Tunnel | Protocol::Tcp => None,
        }?;
        Some(RequestRule { at: RuleSpan(file.at), on })
    }

    fn http(&mut self, path: &str, protocol: Protocol, file: &Spanned<RuleFile>) -> Option<HttpRule> {
        self.only(path, protocol, file, &["method", "path", "query"]);
        let method = self.required(path, "method", file.at, file.method.as_ref(), "*");
        let pattern = self.required(path, "path", file.at, file.path.as_ref(), "**");
        let method = method.and_then(|method| self.method(path, protocol, method));
        let pattern = pattern.and_then(|pattern| self.request_path(&format!("{path}.path"), pattern));
        let mut query = Vec::new();
        for (key, matcher) in file.query.iter() {
            query.push((
                key.value.clone(),
                self.values(&format!("{path}.query.{}", key.value), key.at, matcher)?,
            ));
        }
        Some(HttpRule { method: method?, path: pattern?, query })
    }

    fn method(&mut self, path: &str, protocol: Protocol, method: &Spanned<String>) -> Option<Method> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
        if method.value == "*" {
            return Some(Method::Any);
        }
        if method.is_empty() || !method.bytes().all(token) {
            self.error(
                "method",
                method.at,
                format!("`{path}.method` is not a method; write one name, or `*`"),
            );
            return None;
        }
        let name = method.to_ascii_uppercase();
        let applies = match protocol {
            Protocol::Websocket => matches!(name.as_str(), "GET" | WEBSOCKET_TEXT),
            _ => name != WEBSOCKET_TEXT,
        };
        if !applies {
            let message = format!("`{path}.method` never occurs with protocol {protocol}: `{name}`");
            self.warn("unreachable", method.at, message);
        }
        Some(Method::Named(name))
    }

    /// A pattern for request paths, as endpoints and rules have them.
    pub(super) fn request_path(&mut self, path: &str, text: &Spanned<String>) -> Option<Pattern> {
        let pattern = match Pattern::glob(text, Separator::Slash) {
            Ok(pattern) => pattern,
            Err(error) => {
                self.error("pattern", text.at, format!("`{path}` {error}"));
                return None;
            }
        };
        if !text.starts_with('/') && !text.starts_with("**") {
            self.error("path", text.at, format!("`{path}` must start with `/` or be `**`"));
            return None;
        }
        if let Some(why) = never_canonical(&pattern) {
            let message = format!("`{path}` never matches: {why}");
            self.error("never-matches", text.at, message);
            return None;
        }
        Some(pattern)
    }

    pub(super) fn values(&mut self, path: &str, at: Span, matcher: &Matcher) -> Option<ValuePattern> {
        let texts = matcher.texts();
        if texts.is_empty() {
            self.error("empty", at, format!("`{path}.any` is empty, so nothing would match"));
            return None;
        }
        texts.iter().map(|text| self.name_pattern(path, text)).collect::<Option<Vec<_>>>().map(ValuePattern)
    }

    /// Patterns for query values and names stop at dots.
    pub(super) fn name_pattern(&mut self, path: &str, text: &Spanned<String>) -> Option<Pattern> {
        match Pattern::glob(text, Separator::Dot) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                self.error("pattern", text.at, format!("`{path}` {error}"));
                None
            }
        }
    }

    fn graphql(&mut self, path: &str, protocol: Protocol, file: &Spanned<RuleFile>) -> Option<GraphqlRule> {
        self.only(path, protocol, file, &["operation_type", "operation_name", "fields"]);
        let kind = self.required(path, "operation_type", file.at, file.operation_type.as_ref(), "query")?;
        let known = match kind.as_str() {
            "query" | "mutation" | "subscription" => true,
            other => other == "*" && protocol == Protocol::Websocket,
        };
        if !known {
            let message = format!("`{path}.operation_type` must be query, mutation or subscription");
            self.error("value", kind.at, message);
            return None;
        }
        let name = file.operation_name.as_ref();
        let name = match name {
            Some(text) => Some(self.name_pattern(&format!("{path}.operation_name"), text)?),
            None => None,
        };
        let fields = format!("{path}.fields");
        let fields =
            file.fields.iter().map(|text| self.name_pattern(&fields, text)).collect::<Option<_>>()?;
        Some(GraphqlRule { operation_type: kind.value.clone(), operation_name: name, fields })
    }

    fn sql(&mut self, path: &str, file: &Spanned<RuleFile>) -> Option<RuleSubject> {
        self.only(path, Protocol::Sql, file, &["command"]);
        let command = self.required(path, "command", file.at, file.command.as_ref(), "*")?;
        Some(RuleSubject::Sql { command: command.to_ascii_uppercase() })
    }

    pub(super) fn required<'a>(
        &mut self,
        path: &str,
        key: &str,
        at: Span,
        value: Option<&'a Spanned<String>>,
        example: &str,
    ) -> Option<&'a Spanned<String>> {
        if value.is_none_or(|value| value.is_empty()) {
            let message = format!("`{path}.{key}` is missing; without it the rule never applies");
            let problem = yaml::Diagnostic::error("missing", at, message);
            self.report(problem.help(format!("write `{key}: \"{example}\"` if that is what is meant")));
            return None;
        }
        value
    }

    /// Refuses keys of a rule that mean nothing with this protocol.
    pub(super) fn only(&mut self, path: &str, protocol: Protocol, file: &RuleFile, keys: &[&str]) {
        let RuleFile {
            method,
            path: pattern,
            query,
            operation_type,
            operation_name,
            fields,
            tool,
            params,
            command,
        } = file;
        let given = [
            ("method", method.as_ref().map(|at| at.at)),
            ("path", pattern.as_ref().map(|at| at.at)),
            ("query", query.iter().next().map(|(key, _)| key.at)),
            ("operation_type", operation_type.as_ref().map(|at| at.at)),
            ("operation_name", operation_name.as_ref().map(|at| at.at)),
            ("fields", fields.first().map(|at| at.at)),
            ("tool", tool.as_ref().map(|at| at.at)),
            ("params", params.iter().next().map(|(key, _)| key.at)),
            ("command", command.as_ref().map(|at| at.at)),
        ];
        for (key, at) in given {
            if let (Some(at), false) = (at, keys.contains(&key)) {
                let message = format!("`{path}.{key}` has no meaning in this rule of protocol {protocol}");
                self.report(
                    yaml::Diagnostic::error("misplaced", at, message)
                        .help(format!("keys here: {}", keys.join(", "))),
                );
            }
        }
    }
}

fn speaks_graphql(file: &RuleFile) -> bool {
    file.operation_type.is_some() || file.operation_name.is_some() || !file.fields.is_empty()
}

/// Why no canonical path can match, if that is obvious.
fn never_canonical(pattern: &Pattern) -> Option<String> {
    let text = pattern.as_str();
    if let Some(exact) = pattern.as_exact() {
        let exact = String::from_utf8_lossy(exact);
        return match CanonicalPath::new(&exact, EncodedSlash::Keep) {
            Ok(path) if path.as_str() == exact => None,
            Ok(path) => Some(format!("requests are matched in the canonical form `{path}`")),
            Err(error) => Some(error.to_string()),
        };
    }
    let odd = ["//", "/./", "/../", ";", " ", "#"].into_iter().find(|part| text.contains(part));
    match odd {
        Some(part) => Some(format!("no canonical request path contains `{part}`")),
        None if !text.is_ascii() => {
            Some("request paths are ASCII; other characters are percent-encoded".to_owned())
        }
        None => None,
    }
}
