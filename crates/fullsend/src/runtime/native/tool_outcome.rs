//! What a tool gives back, and how long that may be.

/// The most that a result may be.
pub const MAX_OUTPUT: usize = 64 << 10;

/// What a tool gave back.
#[derive(Debug)]
pub struct ToolOutcome {
    pub text: String,
    pub is_error: bool,
}

impl ToolOutcome {
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}
