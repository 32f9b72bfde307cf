//! Whether a person must approve changes to what decides about an agent: CODEOWNERS lines for the repository's layer.

use std::path::Path;

/// The files that GitHub and GitLab read, in their order.
pub const PLACES: &[&str] = &[".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"];

/// Directories whose change can change what an agent may do.
pub const OWNED: &[&str] = &["harness", "schemas", "policies", "agents", "scripts"];

/// The directories of `.fullsend` that exist and have no owner.
pub fn without_owner(repository: &Path) -> Vec<&'static str> {
    let text = PLACES
        .iter()
        .find_map(|place| std::fs::read_to_string(repository.join(place)).ok())
        .unwrap_or_default();
    let rules: Vec<(&str, bool)> = text.lines().filter_map(rule).collect();
    OWNED
        .iter()
        .copied()
        .filter(|directory| repository.join(".fullsend").join(directory).is_dir())
        .filter(|directory| !has_owner(&rules, &format!(".fullsend/{directory}/file")))
        .collect()
}

/// A pattern and whether it names an owner. A line without one takes ownership away.
fn rule(line: &str) -> Option<(&str, bool)> {
    let line = line.split(" #").next().unwrap_or(line).trim();
    if line.is_empty() || line.starts_with(['#', '[', '^']) {
        return None;
    }
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next().is_some()))
}

/// The last line that matches decides.
fn has_owner(rules: &[(&str, bool)], path: &str) -> bool {
    rules.iter().rev().find(|(pattern, _)| matches(pattern, path)).is_some_and(|(_, owned)| *owned)
}

/// The part of the pattern language that whole directories need: `*`, `/dir/`, `dir`, `/dir/**`.
fn matches(pattern: &str, path: &str) -> bool {
    let anchored = pattern.trim_start_matches('/');
    let directory = anchored.trim_end_matches("**").trim_end_matches('*').trim_end_matches('/');
    if directory.is_empty() {
        return true;
    }
    let below = |place: &str| place == directory || place.starts_with(&format!("{directory}/"));
    let floating = !pattern.starts_with('/') && !directory.contains('/');
    below(path) || floating && path.match_indices('/').any(|(index, _)| below(&path[index + 1..]))
}

#[cfg(test)]
mod tests {
    use super::{has_owner, rule};

    #[test]
    fn the_last_matching_line_decides() {
        let check = |text: &str, expected: bool| {
            let rules: Vec<_> = text.lines().filter_map(rule).collect();
            assert_eq!(has_owner(&rules, ".fullsend/policies/file"), expected, "{text}");
        };
        check("* @all", true);
        check("/.fullsend/ @team", true);
        check(".fullsend @team # ours", true);
        check("/.fullsend/** @team", true);
        check("policies/ @team", true);
        check("# /.fullsend/ @team", false);
        check("/.fullsend/ @team\n/.fullsend/policies/", false);
        check("/.fullsend/harness/ @team", false);
        check("/src/ @team", false);
        check("", false);
    }
}
