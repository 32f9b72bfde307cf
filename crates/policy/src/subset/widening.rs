//! Where one policy allows more than another.

use yaml::{Diagnostic, Span};

/// The first thing that a policy allows, or may allow, and the other does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widening {
    /// In the inner policy.
    pub at: Span,
    /// In the organisation's policy, where one line can be named.
    pub limit: Option<Span>,
    pub message: String,
}

impl Widening {
    pub(super) fn new(at: Span, message: impl Into<String>) -> Self {
        Self { at, limit: None, message: message.into() }
    }

    pub(super) fn beyond(at: Span, limit: Span, message: impl Into<String>) -> Self {
        Self { at, limit: Some(limit), message: message.into() }
    }

    pub fn diagnostic(&self) -> Diagnostic {
        let problem = Diagnostic::error("widening", self.at, self.message.clone());
        match self.limit {
            Some(limit) => problem.related(limit, "the limit"),
            None => problem,
        }
    }
}
