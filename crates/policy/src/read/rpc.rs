//! Rules of JSON-RPC and MCP, and the methods that MCP is known to have.

use yaml::{Diagnostic, Span, Spanned};

use super::Reader;
use crate::file::{EndpointFile, Matcher, Protocol, RuleFile};
use crate::glob::{Pattern, Separator};
use crate::message::fold;
use crate::model::{RequestRule, RpcRule, RuleSpan, RuleSubject, ValuePattern};

const TOOL_CALL: &str = "tools/call";

/// The methods of clients in the revisions of MCP up to 2025-11-25.
const KNOWN_METHODS: &[&str] = &[
    "initialize",
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/cancel",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
];

/// The rules of `allow_all_known_mcp_methods`: every known method; a rule that names a tool narrows the calls of tools to it.
pub(super) fn known_methods(at: Span, rules: &[RequestRule]) -> Vec<RequestRule> {
    let names_tool = |rule: &RequestRule| matches!(&rule.on, RuleSubject::Rpc(rpc) if narrows_tools(rpc));
    let narrowed = rules.iter().any(names_tool);
    let call = (!narrowed).then_some(TOOL_CALL);
    let method = |name: &str| {
        let method = Pattern::exact(name, Separator::Dot);
        let rule = RpcRule { method, tool: None, params: Vec::new() };
        RequestRule { at: RuleSpan(at), on: RuleSubject::Rpc(rule) }
    };
    KNOWN_METHODS.iter().copied().chain(call).map(method).filter(|rule| !rules.contains(rule)).collect()
}

fn narrows_tools(rule: &RpcRule) -> bool {
    rule.method.as_exact() == Some(TOOL_CALL.as_bytes()) && (rule.tool.is_some() || !rule.params.is_empty())
}

impl Reader {
    pub(super) fn rpc(
        &mut self,
        path: &str,
        protocol: Protocol,
        file: &Spanned<RuleFile>,
    ) -> Option<RpcRule> {
        let is_mcp = protocol == Protocol::Mcp;
        let keys: &[&str] = if is_mcp { &["method", "tool", "params"] } else { &["method", "params"] };
        self.only(path, protocol, file, keys);
        let mut tool = match &file.tool {
            Some(tool) => Some(self.values(&format!("{path}.tool"), tool.at, tool)?),
            None => None,
        };
        let mut params = Vec::new();
        for (key, matcher) in file.params.iter() {
            let path_of_key = format!("{path}.params.{}", key.value);
            if is_mcp && key.value == "name" {
                let values = self.values(&path_of_key, key.at, matcher)?;
                if tool.is_some() {
                    let message = format!("`{path}` has both `tool` and `params.name`; keep one");
                    self.error("contradiction", key.at, message);
                    return None;
                }
                tool = Some(values);
            } else {
                params.push((fold(&key.value), self.texts(&path_of_key, key.at, matcher)?));
            }
        }
        let method = match &file.method {
            None if tool.is_some() => Pattern::exact(TOOL_CALL, Separator::Dot),
            method => self.rpc_method(path, protocol, file.at, method.as_ref())?,
        };
        let calls_tools = method.as_exact() == Some(TOOL_CALL.as_bytes());
        if let (Some(_), Some(written), true) = (&tool, &file.method, is_mcp && !calls_tools) {
            let message = format!("`{path}.method` must be {TOOL_CALL} in a rule that names a tool");
            self.error("contradiction", written.at, message);
            return None;
        }
        Some(RpcRule { method, tool, params })
    }

    /// Patterns for parameters, in which `*` stands for any text.
    fn texts(&mut self, path: &str, at: Span, matcher: &Matcher) -> Option<ValuePattern> {
        let texts = matcher.texts();
        if texts.is_empty() {
            self.error("empty", at, format!("`{path}.any` is empty, so nothing would match"));
            return None;
        }
        let mut patterns = Vec::new();
        for text in texts {
            match Pattern::scope(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => {
                    self.error("pattern", text.at, format!("`{path}` {error}"));
                    return None;
                }
            }
        }
        Some(ValuePattern(patterns))
    }

    fn rpc_method(
        &mut self,
        path: &str,
        protocol: Protocol,
        at: Span,
        method: Option<&Spanned<String>>,
    ) -> Option<Pattern> {
        let method = self.required(path, "method", at, method, "*")?;
        if method.value == "*" {
            return Some(Pattern::everything(Separator::Dot));
        }
        let starred = method.contains(['*', '?', '[', ']', '{', '}']);
        if starred && !(protocol == Protocol::Mcp && method.starts_with("tools/")) {
            self.error("method", method.at, format!("`{path}.method` must be a whole name or `*`"));
            return None;
        }
        self.name_pattern(&format!("{path}.method"), method)
    }

    /// Without strict names servers may interpret a name differently, so a pattern has no certain meaning.
    pub(super) fn loose_tool_names(&mut self, path: &str, file: &EndpointFile) {
        let strict = file.mcp.as_ref().and_then(|mcp| mcp.strict_tool_names.as_ref());
        if strict.is_none_or(|strict| strict.value) {
            return;
        }
        let allow = file.rules.iter().flat_map(|rules| rules.iter()).filter_map(|rule| rule.allow.as_ref());
        let deny = file.deny_rules.iter().flat_map(|rules| rules.iter());
        for tool in allow.chain(deny).filter_map(|rule| rule.tool.as_ref()) {
            if let Some(text) = tool.texts().iter().find(|text| text.contains(['*', '?', '[', ']', '{', '}']))
            {
                let message = format!("`{path}` has a pattern for tools, which needs strict names");
                let problem = Diagnostic::error("contradiction", text.at, message);
                self.report(problem.help("write the whole name, or remove `strict_tool_names: false`"));
            }
        }
    }
}
