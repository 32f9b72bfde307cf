//! Betas and query parameters: they switch a vendor's features on, so only known ones pass.

use super::{AllowedFeatures, NotAllowed};
use hyper::HeaderMap;

/// Names of Anthropic's betas without their date. None of them makes the vendor fetch, run or call anything, or changes
/// a price.
const BETAS: &[&str] = &[
    "adaptive-thinking",
    "advanced-tool-use",
    "afk-mode",
    "auto-mode-classifier",
    "cache-diagnosis",
    "cache-keepalive",
    "claude-code",
    "claude-code-side-query",
    "cli-internal",
    "computer-use",
    "context-1m",
    "context-hint",
    "context-management",
    "dev-full-thinking",
    "effort",
    "extended-cache-ttl",
    "fine-grained-tool-streaming",
    "interleaved-thinking",
    "max-effort",
    "mid-conversation-system",
    "mid-conversation-system-clear-at",
    "mid-conversation-tool-changes",
    "model-context-window-exceeded",
    "oauth",
    "output-128k",
    "pdfs",
    "per-turn-control",
    "prompt-caching",
    "prompt-caching-evict",
    "prompt-caching-scope",
    "redact-thinking",
    "request-tags",
    "structured-outputs",
    "summarize-connector-text",
    "task-budgets",
    "thinking-binding-controls",
    "thinking-display-updates",
    "thinking-resumption",
    "thinking-token-count",
    "timing",
    "token-counting",
    "token-efficient-tools",
    "tool-examples",
    "tool-search-tool",
];

const OPENAI_BETAS: &[&str] = &["responses=experimental"];

pub(crate) fn check_headers(headers: &HeaderMap, allowed: &AllowedFeatures) -> Result<(), NotAllowed> {
    let known = |name: &str, beta: &str| match name {
        "anthropic-beta" => BETAS.contains(&without_date(beta)),
        _ => OPENAI_BETAS.contains(&beta),
    };
    for name in ["anthropic-beta", "openai-beta"] {
        for value in headers.get_all(name) {
            let Ok(value) = value.to_str() else {
                return Err(NotAllowed::Type { path: name.to_owned(), expected: "plain text" });
            };
            for beta in value.split(',').map(str::trim).filter(|beta| !beta.is_empty()) {
                let feature = format!("beta:{beta}");
                if !known(name, beta) && !allowed.allows(&feature) {
                    return Err(NotAllowed::Feature(feature));
                }
            }
        }
    }
    Ok(())
}

/// `interleaved-thinking-2025-05-14` and `claude-code-20250219` without their dates.
pub(crate) fn without_date(beta: &str) -> &str {
    let name = beta.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let date = beta[name.len()..].bytes().filter(u8::is_ascii_digit).count();
    if date == 8 { name } else { beta }
}

/// Clients send `beta=true` with requests that have betas.
pub(crate) fn check_query(query: Option<&str>, allowed: &AllowedFeatures) -> Result<(), NotAllowed> {
    for parameter in query.unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty()) {
        let feature = format!("query:{parameter}");
        if parameter != "beta=true" && !allowed.allows(&feature) {
            return Err(NotAllowed::Feature(feature));
        }
    }
    Ok(())
}
