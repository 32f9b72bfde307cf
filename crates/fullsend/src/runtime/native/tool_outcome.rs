//! The result of a tool, and its size limit.

/// The most bytes of a result.
pub const MAX_OUTPUT: usize = 64 << 10;

/// The end of a text that was longer.
pub const CUT: &str = "\n(cut here: the limit is 64 KiB)";

/// The result of a tool.
#[derive(Debug)]
pub struct ToolOutcome {
    pub text: String,
    pub is_error: bool,
}

impl ToolOutcome {
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// Text that may be longer than a result; the rest is left out.
    pub fn start_of(mut text: String) -> Self {
        if text.len() > MAX_OUTPUT {
            text.truncate(text.floor_char_boundary(MAX_OUTPUT));
            text.push_str(CUT);
        }
        Self::ok(text)
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}
