//! What an endpoint allows and refuses: a preset or rules, and deny rules that win over both.

use yaml::{Diagnostic, Span, Spanned};

use super::Reader;
use super::endpoint::is_on;
use super::rpc::known_methods;
use super::rule::WEBSOCKET_TEXT;
use crate::file::{Access, AllowFile, EndpointFile, Protocol, RuleFile};
use crate::glob::{Pattern, Separator};
use crate::model::{GraphqlRule, HttpRule, Method, RequestRule, RuleSpan, RuleSubject};

const MAX_RULES: usize = 4096;

impl Reader {
    /// Allow and deny rules; `None` after a problem was reported.
    pub(super) fn allowance(
        &mut self,
        path: &str,
        protocol: Protocol,
        file: &Spanned<EndpointFile>,
    ) -> Option<(Vec<RequestRule>, Vec<RequestRule>)> {
        if protocol == Protocol::Tcp {
            return Some((Vec::new(), Vec::new()));
        }
        let access = file.access.as_ref().filter(|at| at.value != Access::None);
        let everything = protocol == Protocol::Mcp
            && file.mcp.as_ref().is_some_and(|mcp| is_on(mcp.allow_all_known_mcp_methods.as_ref()));
        self.exclusive(path, protocol, access, file)?;
        let mut allow = match (&file.rules, access) {
            (Some(rules), _) => self.rules(path, protocol, rules, everything)?,
            (None, Some(access)) if protocol.reads_requests() => preset(protocol, access),
            (None, _) => Vec::new(),
        };
        if let (true, Some(mcp)) = (everything, &file.mcp) {
            let known = known_methods(mcp.at, &allow);
            allow.extend(known);
        }
        self.loose_tool_names(path, file);
        if protocol.reads_requests() && allow.is_empty() {
            let presets = !matches!(protocol, Protocol::JsonRpc | Protocol::Mcp);
            let lacks = if presets { "neither `rules` nor `access`" } else { "no `rules`" };
            let message = format!("`{path}` has protocol {protocol} but {lacks}: nothing would be allowed");
            self.error("missing", file.at, message);
            return None;
        }
        let deny = match &file.deny_rules {
            Some(rules) => self.deny_rules(path, protocol, rules)?,
            None => Vec::new(),
        };
        Some((allow, deny))
    }

    fn exclusive(
        &mut self,
        path: &str,
        protocol: Protocol,
        access: Option<&Spanned<Access>>,
        file: &EndpointFile,
    ) -> Option<()> {
        let rules = file.rules.as_ref().map(|at| at.at);
        if let (Some(access), Some(rules)) = (access, rules) {
            let problem = Diagnostic::error(
                "contradiction",
                access.at,
                format!("`{path}` has both `access` and `rules`; keep one"),
            );
            self.report(problem.related(rules, "the rules"));
            return None;
        }
        if let (Some(access), Protocol::Mcp | Protocol::JsonRpc) = (access, protocol) {
            self.error(
                "contradiction",
                access.at,
                format!("`{path}.access` cannot be used with protocol {protocol}: write `rules`"),
            );
            return None;
        }
        if protocol.reads_requests() {
            return Some(());
        }
        let deny = file.deny_rules.as_ref().map(|at| at.at);
        let narrowing = access.filter(|at| at.value != Access::Full).map(|at| at.at);
        for (key, at) in [("rules", rules), ("deny_rules", deny), ("access", narrowing)] {
            if let Some(at) = at {
                let message = format!("`{path}.{key}` needs a protocol that reads requests, such as rest");
                let problem = Diagnostic::error("misplaced", at, message);
                self.report(problem.label("without one, everything would pass"));
            }
        }
        if let Some(access) = access.filter(|at| at.value == Access::Full) {
            self.warn("no-effect", access.at, format!("`{path}.access` has no effect without a protocol"));
        }
        Some(())
    }

    fn rules(
        &mut self,
        path: &str,
        protocol: Protocol,
        rules: &Spanned<Vec<Spanned<AllowFile>>>,
        knows_methods: bool,
    ) -> Option<Vec<RequestRule>> {
        self.bounded(&format!("{path}.rules"), rules.at, rules.len())?;
        let empty = |rule: &Spanned<AllowFile>| rule.allow.as_ref().is_none_or(|allow| says_nothing(allow));
        if protocol.reads_requests() && !knows_methods && rules.iter().all(empty) {
            let at = rules.first().map_or(rules.at, |rule| rule.at);
            self.error(
                "deny-all",
                at,
                format!("`{path}.rules` would deny everything: no rule has an `allow`"),
            );
            return None;
        }
        let read = |(index, rule): (usize, &Spanned<AllowFile>)| {
            let path = format!("{path}.rules.{index}");
            let Some(allow) = &rule.allow else {
                self.error("missing", rule.at, format!("`{path}.allow` is missing"));
                return None;
            };
            self.rule(&format!("{path}.allow"), protocol, allow)
        };
        // `allow: {}` beside `allow_all_known_mcp_methods` has no further effect.
        let says_more = |(_, rule): &(usize, &Spanned<AllowFile>)| {
            !(knows_methods && rule.allow.as_ref().is_some_and(|allow| says_nothing(allow)))
        };
        let read: Vec<Option<RequestRule>> = rules.iter().enumerate().filter(says_more).map(read).collect();
        read.into_iter().collect()
    }

    fn deny_rules(
        &mut self,
        path: &str,
        protocol: Protocol,
        rules: &Spanned<Vec<Spanned<RuleFile>>>,
    ) -> Option<Vec<RequestRule>> {
        let path = format!("{path}.deny_rules");
        self.bounded(&path, rules.at, rules.len())?;
        let read: Vec<Option<RequestRule>> = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| self.rule(&format!("{path}.{index}"), protocol, rule))
            .collect();
        read.into_iter().collect()
    }

    fn bounded(&mut self, path: &str, at: Span, count: usize) -> Option<()> {
        if count == 0 {
            let problem = Diagnostic::error("empty", at, format!("`{path}` is an empty list"));
            self.report(problem.help("give it a rule, or remove the key"));
            return None;
        }
        if count > MAX_RULES {
            self.error(
                "too-many",
                at,
                format!("`{path}` has {count} rules; at most {MAX_RULES} are allowed"),
            );
            return None;
        }
        Some(())
    }
}

fn says_nothing(file: &RuleFile) -> bool {
    let RuleFile { method, path, query, operation_type, operation_name, fields, tool, params, command } =
        file;
    let texts = [method, path, operation_type, operation_name, command];
    texts.iter().all(|text| text.as_ref().is_none_or(|at| at.is_empty()))
        && query.is_empty()
        && fields.is_empty()
        && tool.is_none()
        && params.is_empty()
}

/// The rules of a preset. `read-write` leaves DELETE out.
fn preset(protocol: Protocol, access: &Spanned<Access>) -> Vec<RequestRule> {
    let words: &[&str] = match (protocol, access.value) {
        (_, Access::None) => &[],
        (_, Access::Full) => &["*"],
        (Protocol::Websocket, Access::ReadOnly) => &["GET"],
        (Protocol::Websocket, Access::ReadWrite) => &["GET", WEBSOCKET_TEXT],
        (Protocol::Graphql, Access::ReadOnly) => &["query"],
        (Protocol::Graphql, Access::ReadWrite) => &["query", "mutation"],
        (Protocol::Sql, Access::ReadOnly) => &["SELECT"],
        (Protocol::Sql, Access::ReadWrite) => &["SELECT", "INSERT", "UPDATE"],
        (_, Access::ReadOnly) => &["GET", "HEAD", "OPTIONS"],
        (_, Access::ReadWrite) => &["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH"],
    };
    words
        .iter()
        .map(|word| RequestRule { at: RuleSpan(access.at), on: preset_subject(protocol, word) })
        .collect()
}

fn preset_subject(protocol: Protocol, word: &str) -> RuleSubject {
    match protocol {
        Protocol::Graphql => RuleSubject::Graphql(GraphqlRule {
            operation_type: word.to_owned(),
            operation_name: None,
            fields: Vec::new(),
        }),
        Protocol::Sql => RuleSubject::Sql { command: word.to_owned() },
        _ => RuleSubject::Http(HttpRule {
            method: if word == "*" { Method::Any } else { Method::Named(word.to_owned()) },
            path: Pattern::everything(Separator::Slash),
            query: Vec::new(),
        }),
    }
}
