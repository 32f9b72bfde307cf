//! What a request may ask of a vendor. A vendor can fetch, search, run code or call other servers for the agent, past the
//! network policy, and at prices that the budget does not know. So every field, tool type, content block, source and
//! beta that passes is on a list here; the harness can add more by name (`gateway.allow`). Pure: no I/O.

mod chat;
mod header;
mod json;
mod messages;
mod responses;
mod shape;

pub(crate) use header::{check_headers, check_query, without_date};
pub use json::check_json;

use crate::wire::Wire;
use serde_json::Value;
use shape::Shape;
use std::fmt;

/// Features that the harness allows beside the built-in lists, such as `tool:web_search_20250305` or `beta:files-api-*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedFeatures {
    names: Vec<String>,
}

impl AllowedFeatures {
    pub fn new(names: Vec<String>) -> Self {
        Self { names }
    }

    /// A name that ends in `*` allows everything that starts with the rest.
    pub(crate) fn allows(&self, feature: &str) -> bool {
        self.names.iter().any(|name| matches(name, feature))
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => pattern == text,
    }
}

/// Why a request may not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotAllowed {
    Feature(String),
    /// A value has another type than its field.
    Type {
        path: String,
        expected: &'static str,
    },
}

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(feature) => write!(
                f,
                "fullsend: the model gateway does not pass `{feature}`: the vendor could act outside the network policy \
                 or the budget. A person can allow it in the harness: gateway: {{allow: [\"{feature}\"]}}"
            ),
            Self::Type { path, expected } => write!(f, "`{path}` is not {expected}"),
        }
    }
}

impl std::error::Error for NotAllowed {}

/// Checks every field of a request body.
pub(crate) fn check_body(wire: Wire, body: &Value, allowed: &AllowedFeatures) -> Result<(), NotAllowed> {
    let shape: &Shape = match wire {
        Wire::Messages => &messages::REQUEST,
        Wire::Responses => &responses::REQUEST,
        Wire::Chat => &chat::REQUEST,
    };
    shape::check(shape, body, allowed)
}

#[cfg(test)]
mod tests;
