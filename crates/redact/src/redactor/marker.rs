//! The mask that replaces a secret.

/// The source of a masked secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// A vendor's format or a structural rule.
    Format(&'static str),
    /// The index of a known value.
    Known(usize),
}

/// A mask must not contain a known value. So the longest mask that contains none is used, and the shortest one is shorter than
/// any known value.
pub(super) fn choose(name: &str, holds_known_value: impl Fn(&str) -> bool) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let name: String =
        name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(64).collect();
    let candidates = [format!("[REDACTED:{name}]"), "[REDACTED]".to_owned()];
    candidates.into_iter().find(|candidate| !holds_known_value(candidate)).unwrap_or_else(|| "***".to_owned())
}
