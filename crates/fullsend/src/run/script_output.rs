//! What scripts on the host print, for the log of the CI: masked, and with the values that a script asks the CI to mask.

use std::sync::Arc;

/// The output of one script, at its end.
#[derive(Debug)]
pub struct ScriptOutput<'a> {
    /// `pre_script`, `validation` or `post_script`.
    pub script: &'a str,
    /// Standard output, then standard error, masked.
    pub text: &'a str,
    /// The values in its `::add-mask::` commands. They are masked in everything that the run writes from here on.
    pub masks: &'a [String],
}

/// Gets the output of every script.
pub type OnScriptOutput = Arc<dyn Fn(&ScriptOutput<'_>) + Send + Sync>;

const ADD_MASK: &str = "::add-mask::";

/// The values of `::add-mask::`, as GitHub reads them.
pub(super) fn masks(text: &str) -> Vec<String> {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix(ADD_MASK));
    let plain = |value: &str| value.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%");
    values.map(plain).filter(|value| !value.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::masks;

    #[test]
    fn masks_are_read_as_the_ci_reads_them() {
        assert_eq!(
            masks("a\n::add-mask::one%25\n  ::add-mask::two\n::add-mask::\nx ::add-mask::no\n"),
            ["one%", "two"]
        );
    }
}
