//! Middlewares: what runs, in which order, on which hosts.

use yaml::{Diagnostic, Map, Spanned};

use super::Reader;
use crate::file::{MiddlewareFile, OnError, SelectorFile};
use crate::glob::{Pattern, ProofBudget, Separator};
use crate::model::{HostPattern, Middleware, NetworkRule};

const MAX_MIDDLEWARES: usize = 10;
const MAX_SELECTORS: usize = 32;
const RESERVED_PREFIX: &str = "openshell/";
const BUILT_IN: &[&str] = &["openshell/regex"];

impl Reader {
    pub(super) fn middlewares(
        &mut self,
        file: &Map<MiddlewareFile>,
        networks: &[NetworkRule],
    ) -> Vec<Middleware> {
        let mut read: Vec<Middleware> = Vec::new();
        for (index, (key, file)) in file.iter().enumerate() {
            if index == MAX_MIDDLEWARES {
                self.error("too-many", key.at, format!("at most {MAX_MIDDLEWARES} middlewares are allowed"));
                break;
            }
            let Some(middleware) = self.middleware(key, file) else { continue };
            if let Some(same) = read.iter().find(|known| known.order == middleware.order) {
                let message = format!(
                    "`network_middlewares.{}.order` is {}, which another middleware has too",
                    key.value, same.order
                );
                let problem =
                    Diagnostic::error("order", file.order.as_ref().map_or(key.at, |at| at.at), message);
                self.report(problem.related(same.key.at, "this one").help("give each its own `order`"));
            }
            self.covers_unread(&middleware, networks);
            read.push(middleware);
        }
        read.sort_by_key(|middleware| middleware.order);
        read
    }

    fn middleware(&mut self, key: &Spanned<String>, file: &MiddlewareFile) -> Option<Middleware> {
        let MiddlewareFile { name, middleware, order, config, on_error, endpoints } = file;
        let path = format!("network_middlewares.{}", key.value);
        if middleware.is_empty() {
            self.error("empty", middleware.at, format!("`{path}.middleware` is empty"));
        }
        if middleware.starts_with(RESERVED_PREFIX) && !BUILT_IN.contains(&middleware.as_str()) {
            let message = format!("`{path}.middleware`: there is no built-in `{}`", middleware.value);
            self.report(
                Diagnostic::error("value", middleware.at, message)
                    .help(format!("built in: {}", BUILT_IN.join(", "))),
            );
        }
        let (include, exclude) = self.selectors(&path, key, endpoints.as_ref())?;
        Some(Middleware {
            name: name.as_ref().filter(|name| !name.is_empty()).unwrap_or(key).value.clone(),
            key: key.clone(),
            middleware: middleware.value.clone(),
            order: order.as_ref().map_or(0, |order| order.0),
            config: config.clone(),
            on_error: on_error.as_ref().map_or(OnError::FailClosed, |at| at.value),
            include,
            exclude,
        })
    }

    fn selectors(
        &mut self,
        path: &str,
        key: &Spanned<String>,
        file: Option<&Spanned<SelectorFile>>,
    ) -> Option<(Vec<Pattern>, Vec<Pattern>)> {
        let Some(file) = file.filter(|file| !file.include.is_empty()) else {
            let at = file.map_or(key.at, |file| file.at);
            self.error("missing", at, format!("`{path}.endpoints.include` must name at least one host"));
            return None;
        };
        if file.include.len() + file.exclude.len() > MAX_SELECTORS {
            self.error(
                "too-many",
                file.at,
                format!("`{path}.endpoints` has more than {MAX_SELECTORS} patterns"),
            );
            return None;
        }
        let include = self.selector_list(&format!("{path}.endpoints.include"), &file.include)?;
        let exclude = self.selector_list(&format!("{path}.endpoints.exclude"), &file.exclude)?;
        Some((include, exclude))
    }

    fn selector_list(&mut self, path: &str, texts: &[Spanned<String>]) -> Option<Vec<Pattern>> {
        let read: Vec<Option<Pattern>> = texts
            .iter()
            .map(|text| {
                if text.contains(['{', '}']) {
                    self.error("pattern", text.at, format!("`{path}` cannot hold braces"));
                    return None;
                }
                match Pattern::glob(&text.to_ascii_lowercase(), Separator::Dot) {
                    Ok(pattern) => Some(pattern),
                    Err(error) => {
                        self.error("pattern", text.at, format!("`{path}` {error}"));
                        None
                    }
                }
            })
            .collect();
        read.into_iter().collect()
    }

    /// A middleware that must inspect every request cannot inspect a raw tunnel.
    fn covers_unread(&mut self, middleware: &Middleware, networks: &[NetworkRule]) {
        if middleware.on_error == OnError::FailOpen {
            return;
        }
        let budget = ProofBudget::default();
        let unread =
            networks.iter().flat_map(|network| &network.endpoints).filter(|endpoint| endpoint.tls_skip);
        for endpoint in unread {
            let single = match &endpoint.host {
                HostPattern::Name(name) => Some(name.clone()),
                HostPattern::Address(address) => Some(address.to_string()),
                HostPattern::Any | HostPattern::Glob(_) => None,
            };
            let may_match = |pattern: &Pattern| match (&single, &endpoint.host) {
                (Some(host), _) => pattern.matches(host.as_bytes()),
                (None, HostPattern::Glob(glob)) => pattern.overlaps(glob, &budget),
                (None, _) => true,
            };
            let matches_all = |pattern: &Pattern| match (&single, &endpoint.host) {
                (Some(host), _) => pattern.matches(host.as_bytes()),
                (None, HostPattern::Glob(glob)) => glob.within(pattern, &budget),
                (None, _) => pattern.is_everything(),
            };
            if middleware.include.iter().any(may_match) && !middleware.exclude.iter().any(matches_all) {
                let message = format!(
                    "middleware `{}` must inspect requests to {}, which pass without inspection",
                    middleware.name,
                    endpoint.selector()
                );
                let problem = Diagnostic::error("contradiction", endpoint.at, message);
                self.report(problem.related(middleware.key.at, "the middleware, which fails closed"));
            }
        }
    }
}
