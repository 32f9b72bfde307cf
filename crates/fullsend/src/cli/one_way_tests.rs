//! Each command that prints data has `--json`. The list below has the exceptions: commands that print no data, or that
//! print a document in another machine-readable format.

use clap::CommandFactory;

/// Commands without `--json`, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("enter", "a shell"),
    ("image pull", "fetches"),
    ("image rm", "removes"),
    ("image gc", "removes"),
    ("serve", "serves an HTTP API"),
    ("mcp", "a protocol"),
    ("acp", "a protocol"),
    ("init", "writes files"),
    ("ci render", "a document of YAML"),
    ("trigger head", "one name"),
    ("runtimes install", "installs"),
    ("models update", "installs"),
    ("runs apply", "changes files"),
    ("runs open", "opens a page"),
    ("runs cancel", "stops a run"),
    ("runs rm", "removes"),
    ("sandbox run", "the output of a command"),
    ("sandbox shell", "a shell"),
    ("sandbox create", "one name"),
    ("sandbox exec", "the output of a command"),
    ("sandbox put", "copies files"),
    ("sandbox get", "copies files"),
    ("sandbox rm", "removes"),
    ("sandbox serve", "a protocol"),
    ("dispatch send", "one name"),
    ("dispatch logs", "the output of a command"),
    ("dispatch cancel", "changes jobs"),
    ("session rm", "removes"),
    ("session dead retry", "changes a session"),
    ("session dead drop", "changes a session"),
    ("store migrate", "changes a store"),
    ("post-comment", "writes a comment"),
    ("post-review", "writes a review"),
    ("issues post-comment", "writes a comment"),
    ("lock", "writes a file"),
    ("fetch-skill", "one path"),
    ("completions", "a script of a shell"),
    ("man", "writes files"),
];

fn walk(command: &clap::Command, path: &str, missing: &mut Vec<String>, seen: &mut Vec<String>) {
    let below: Vec<&clap::Command> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .collect();
    for one in &below {
        walk(one, format!("{path} {}", one.get_name()).trim(), missing, seen);
    }
    if below.is_empty() {
        seen.push(path.to_owned());
        let has = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
        let is_listed = WITHOUT.iter().any(|(name, _)| *name == path);
        if has == is_listed {
            missing.push(path.to_owned());
        }
    }
}

#[test]
fn every_command_that_prints_data_prints_json() {
    let mut missing = Vec::new();
    let mut seen = Vec::new();
    walk(&super::Arguments::command(), "", &mut missing, &mut seen);
    assert!(
        missing.is_empty(),
        "a command either has `--json` or is listed above with a reason: {missing:?}"
    );
    let gone: Vec<_> = WITHOUT.iter().filter(|(name, _)| !seen.iter().any(|path| path == name)).collect();
    assert!(gone.is_empty(), "there are no such commands: {gone:?}");
    assert!(seen.len() > 60, "{seen:?}");
}
