//! Warns about variables that a script reads but does not get: scripts run with a clean environment. A variable with a
//! default is a problem only if the host sets it, because the script would use the default instead.

use std::collections::BTreeSet;
use std::path::Path;

use yaml::Diagnostic;

use crate::check::Checked;
use crate::resolve::library::Library;
use crate::resolve::variables::VariableLookup;
use crate::scripts::{self, shebang};

/// A larger script is not looked at.
const MAX_BYTES: u64 = 1 << 20;

/// Set for the scripts of a run, beside those that begin with `FULLSEND_`.
const OF_THE_RUN: &[&str] = &["TARGET_REPO_DIR", "REPO_DIR", "TRACEPARENT"];

/// Set by shells.
const OF_SHELLS: &[&str] = &[
    "PWD",
    "OLDPWD",
    "RANDOM",
    "SECONDS",
    "LINENO",
    "HOSTNAME",
    "UID",
    "EUID",
    "PPID",
    "IFS",
    "OPTARG",
    "OPTIND",
    "FUNCNAME",
    "PIPESTATUS",
    "REPLY",
    "SHELL",
    "SHLVL",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "MAPFILE",
    "GROUPS",
    "HOSTTYPE",
    "OSTYPE",
    "MACHTYPE",
    "SHELLOPTS",
    "PS1",
    "PS4",
    "COLUMNS",
    "LINES",
    "TERM",
];

/// One warning for each script.
pub fn missing_variables(checked: &Checked, library: &Library, value: VariableLookup<'_>) -> Vec<Diagnostic> {
    let harness = &checked.resolved.harness;
    let scripts = [
        ("pre_script", harness.pre_script.as_ref()),
        ("post_script", harness.post_script.as_ref()),
        ("validation_loop.script", harness.validation_loop.script.as_ref()),
    ];
    let mut given: BTreeSet<&str> = harness.required_env.iter().map(|name| name.as_str()).collect();
    for map in [&harness.runner_env, &harness.env.runner] {
        given.extend(map.0.iter().map(|(name, _)| name.value.as_str()));
    }
    let mut found = Vec::new();
    for (field, script) in scripts.into_iter().filter_map(|(field, script)| Some((field, script?))) {
        let path = library.find(&script.value, script.at, field).ok();
        let path = path.and_then(|file| library.layers.host_path(&file));
        let Some(text) = path.and_then(|path| shell_text(&path)) else { continue };
        let names: Vec<String> = missing(&text, &given, value).into_iter().collect();
        let Some(first) = names.first() else { continue };
        let message = format!("`{field}` reads variables that scripts do not get: {}", names.join(", "));
        found.push(
            Diagnostic::warning("script-variable", script.at, message)
                .help(format!("pass what it needs: `env.runner: {{{first}: ${{{first}}}}}`")),
        );
    }
    found
}

/// The text of a shell script; `None` for any other program.
fn shell_text(path: &Path) -> Option<String> {
    let line = shebang::of(path)?;
    let words = format!("{} {}", line.interpreter, line.argument.unwrap_or_default());
    let is_shell = words.split(['/', ' ']).any(|word| ["sh", "bash", "dash", "ksh", "zsh"].contains(&word));
    let is_small = std::fs::metadata(path).is_ok_and(|about| about.len() <= MAX_BYTES);
    if is_shell && is_small { std::fs::read_to_string(path).ok() } else { None }
}

fn missing(text: &str, given: &BTreeSet<&str>, value: VariableLookup<'_>) -> BTreeSet<String> {
    let assigned = assigned(text);
    let is_known = |name: &str| {
        given.contains(name)
            || assigned.contains(name)
            || OF_THE_RUN.contains(&name)
            || OF_SHELLS.contains(&name)
            || name.starts_with("FULLSEND_")
            || name.starts_with("BASH")
            || scripts::is_passed(name)
    };
    let read = reads(text).into_iter().filter(|(name, _)| !is_known(name));
    read.filter(|(name, has_default)| !has_default || value(name).is_some()).map(|(name, _)| name).collect()
}

/// Names in capital letters that are expanded, and whether a default is given.
fn reads(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        for (index, _) in line.match_indices('$') {
            let is_escaped = line[..index].ends_with('\\');
            // Text in single quotes is not expanded. After a double quote, single quotes are not tracked.
            let in_quotes = line[..index].matches('\'').count() % 2 == 1 && !line[..index].contains('"');
            let rest = &line[index + 1..];
            let braced = rest.strip_prefix('{');
            let name: String = braced
                .unwrap_or(rest)
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
                .collect();
            let starts_well = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
            let after = &braced.unwrap_or(rest)[name.len()..];
            let goes_on = after.starts_with(|c: char| c.is_ascii_lowercase());
            if is_escaped || in_quotes || !starts_well || goes_on || name.len() < 2 {
                continue;
            }
            let has_default = braced.is_some() && after.trim_start_matches(':').starts_with(['-', '+', '=']);
            found.push((name, has_default));
        }
    }
    found
}

/// Names that the script sets itself.
fn assigned(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split([' ', '\t', ';', '(', ')', '&', '|', '{', '"']).collect();
        for (index, word) in words.iter().enumerate() {
            let name = word.split_once('=').map(|(name, _)| name.trim_end_matches('+'));
            found.extend(name.filter(|name| !name.is_empty()));
            let before = index.checked_sub(1).and_then(|index| words.get(index)).copied().unwrap_or_default();
            if ["for", "local", "declare", "readonly", "-v", "unset"].contains(&before) {
                found.insert(*word);
            }
            if ["read", "mapfile", "readarray"].contains(word) {
                found.extend(words[index + 1..].iter().filter(|word| !word.starts_with('-')));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_script_variable_is_named() {
        let check = |text: &str, expected: &[&str]| {
            let given = BTreeSet::from(["GIVEN"]);
            let value = |name: &str| (name == "SET_HERE").then(String::new);
            let found: Vec<String> = missing(text, &given, &value).into_iter().collect();
            assert_eq!(found, expected, "{text}");
        };
        check("echo \"$COMMENT_BODY\" ${ISSUE}", &["COMMENT_BODY", "ISSUE"]);
        check("echo $GIVEN $PATH $GITHUB_REPOSITORY $FULLSEND_RUN_DIR $REPO_DIR $BASH_SOURCE", &[]);
        check("X_Y=1; echo $X_Y\nfor NAME in a; do echo $NAME; done", &[]);
        check("local DIR; read -r LINE; export OUT=1; echo $DIR $LINE $OUT", &[]);
        check("echo ${OPTIONAL:-x} ${SET_HERE:-x} ${NEEDED:?}", &["NEEDED", "SET_HERE"]);
        check("# $COMMENT\necho '$QUOTED' \\$ESCAPED $lower $1", &[]);
    }
}
