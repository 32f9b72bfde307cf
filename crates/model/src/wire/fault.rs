//! Errors in the vendors' formats, so that every client shows our message like the vendor's.

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
