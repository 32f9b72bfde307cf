//! What a script of the harness prints, for the log of a CI: its notices, groups and masks work, and all other CI
//! commands in it are escaped.

use super::diagnostics::clean_text;

/// GitHub's commands that only show something. No others pass, because a script may print text of an agent.
const SHOWING: &[&str] = &["notice", "warning", "error", "debug", "group", "endgroup"];

/// A line of a script of the harness for the log of GitHub. `None`: a mask, which is handled separately.
pub fn script_line(line: &str) -> Option<String> {
    let start = line.trim_start();
    let Some(command) = start.strip_prefix("::") else { return Some(clean_text(line)) };
    let name = command.split(['|', ' ', ':']).next().unwrap_or_default();
    match name {
        "add-mask" => None,
        name if SHOWING.contains(&name) => Some(format!("::{}", clean_text(command))),
        _ => Some(clean_text(line)),
    }
}

/// Tells GitHub to mask a value in the log of the whole job. GitHub does not show this line.
pub fn mask(value: &str) -> String {
    let data = value.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    format!("::add-mask::{data}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_shows_and_masks_and_commands_nothing_else() {
        for (line, expected) in [
            ("plain", Some("plain")),
            ("::notice file=a.rs::look", Some("::notice file=a.rs::look")),
            ("  ::group::Checks", Some("::group::Checks")),
            ("::endgroup::", Some("::endgroup::")),
            ("::add-mask::value", None),
            ("::set-env name=PATH::/x", Some("| ::set-env name=PATH::/x")),
            ("::stop-commands::x", Some("| ::stop-commands::x")),
            ("::error::##[set-env]", Some("::error::## [set-env]")),
        ] {
            assert_eq!(script_line(line).as_deref(), expected, "{line}");
        }
        assert_eq!(mask("a%b\nc"), "::add-mask::a%25b%0Ac");
    }
}
