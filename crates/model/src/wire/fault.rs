//! Errors in the vendors' formats, so that every client shows our message like the vendor's.

use serde_json::Value;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    InvalidRequest,
    Authentication,
    Permission,
    NotFound,
    TooLarge,
    RateLimit,
    Overloaded,
    Timeout,
    Upstream,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
}

impl FaultKind {
    const ALL: [(Self, u16, &'static str); 9] = [
        (Self::InvalidRequest, 400, "invalid_request_error"),
        (Self::Authentication, 401, "authentication_error"),
        (Self::Permission, 403, "permission_error"),
        (Self::NotFound, 404, "not_found_error"),
        (Self::TooLarge, 413, "request_too_large"),
        (Self::RateLimit, 429, "rate_limit_error"),
        (Self::Overloaded, 529, "overloaded_error"),
        (Self::Timeout, 504, "timeout_error"),
        (Self::Upstream, 502, "api_error"),
    ];

    fn row(self) -> (Self, u16, &'static str) {
        *Self::ALL.iter().find(|row| row.0 == self).unwrap_or(&Self::ALL[8])
    }

    pub fn status(self) -> u16 {
        self.row().1
    }

    pub fn name(self) -> &'static str {
        self.row().2
    }

    pub fn from_status(status: u16) -> Self {
        Self::ALL.iter().find(|row| row.1 == status).map_or(Self::Upstream, |row| row.0)
    }

    pub fn from_name(name: &str) -> Self {
        Self::ALL.iter().find(|row| row.2 == name).map_or(Self::Upstream, |row| row.0)
    }
}

/// The words of an error in any form: the vendor's, Google's list of one, Amazon's, those of a server or a proxy between.
pub(super) fn words(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let value = value.get(0).unwrap_or(&value);
    let places = ["/error/message", "/error", "/message", "/Message", "/detail"];
    let said = places.iter().find_map(|place| value.pointer(place)?.as_str());
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_WORDS)]);
    let said = said.unwrap_or(text.trim());
    if said.is_empty() { "the answer has no text".to_owned() } else { said.to_owned() }
}

/// Of a text in no known form.
const MAX_WORDS: usize = 400;

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_error_are_found_in_every_form() {
        for (body, expected) in [
            (r#"{"type":"error","error":{"type":"x","message":"slow down"}}"#, "slow down"),
            (
                r#"[{"error":{"code":403,"message":"not enabled","status":"PERMISSION_DENIED"}}]"#,
                "not enabled",
            ),
            (r#"{"message":"The security token is invalid."}"#, "The security token is invalid."),
            (r#"{"Message":"not authorized"}"#, "not authorized"),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            ("<html>Bad Gateway</html>\n", "<html>Bad Gateway</html>"),
            (r#"{"error":{"type":"x"}}"#, r#"{"error":{"type":"x"}}"#),
            ("", "the answer has no text"),
            (r#"{"error":{"message":""}}"#, "the answer has no text"),
        ] {
            assert_eq!(words(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(words("x".repeat(5000).as_bytes()).len(), MAX_WORDS);
    }
}
