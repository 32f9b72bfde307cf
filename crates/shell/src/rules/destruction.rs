//! Deletion that cannot be undone: recursive removal outside of temporary directories, and commands that delete clusters,
//! buckets and databases.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::Call;

const ADVICE: &str =
    "Use `rm -r` without `-f` on one directory that the task created, or move the files aside.";
const MOVE: &str =
    "Move the files aside. If they must be deleted, say in your result that a person must do it.";
/// Stands for targets that another command passes, as `xargs` does.
const PASSED: &str = "";
const FOR_A_PERSON: &str = "Do not do this. Say in your result that a person must do it.";
const TOP: &[&str] = &[
    "/", "/*", "/.", "~", "~/", "~/*", "$HOME", "$HOME/", "$HOME/*", "/etc", "/usr", "/bin", "/sbin", "/lib",
    "/lib64", "/var", "/home", "/root", "/boot", "/opt", "/srv", "/dev", "/proc", "/sys", "/mnt", "/media",
    "/Users", "/System", "/Library",
];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    match call.program() {
        "rm" | "grm" => remove(call),
        "unlink" | "rmdir" => None,
        "find" | "fd" => find(call),
        "mv" if call.words().last() == Some("/dev/null") => {
            harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, "moves files to /dev/null", ADVICE)
                .map(Harm::ends_with_sandbox)
        }
        "chmod" | "chown" | "chgrp" => rights(call),
        "kill" if call.words().any(|word| word == "-1") && call.arguments.len() > 1 => {
            harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, "kills every process", FOR_A_PERSON)
        }
        "shutdown" | "reboot" | "halt" | "poweroff" => {
            harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, "stops the machine", FOR_A_PERSON)
        }
        "truncate" if call.operands().any(|word| is_top(&word.text)) => {
            harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, "empties system files", FOR_A_PERSON)
        }
        "crontab" if call.has_short('r') => harm(
            rule::command::DESTRUCTIVE_COMMAND,
            Severity::High,
            "deletes all scheduled jobs",
            FOR_A_PERSON,
        ),
        "iptables" | "nft" if call.has_short('F') || call.words().any(|word| word == "flush") => {
            harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, "removes the firewall", FOR_A_PERSON)
        }
        _ => remote_deletion(call).or_else(|| database(call)),
    }
}

fn remove(call: &Call) -> Option<Harm> {
    let is_recursive = call.has_short('r') || call.has_short('R') || call.has_long("--recursive");
    let is_forced = call.has_short('f') || call.has_long("--force");
    let targets: Vec<&str> = call.operands().map(|word| word.text.as_str()).collect();
    if call.has_long("--no-preserve-root") {
        return harm(
            rule::command::DESTRUCTIVE_COMMAND,
            Severity::Critical,
            "removes the root directory on purpose",
            ADVICE,
        );
    }
    let worst = targets
        .iter()
        .find(|target| is_top(target))
        .or_else(|| targets.iter().find(|target| !is_temporary(target)));
    let target = match worst {
        Some(target) => target,
        // `xargs rm -rf` gets its targets from elsewhere.
        None if targets.is_empty() => &PASSED,
        None => return None,
    };
    let severity = match (is_recursive, is_forced) {
        (true, true) if is_top(target) => Severity::Critical,
        (true, _) if is_top(target) => Severity::High,
        (true, true) => Severity::High,
        (true, false) => Severity::Medium,
        (false, _) => return None,
    };
    let detail = if *target == PASSED {
        "removes whatever another command passes to it".to_owned()
    } else {
        format!("removes `{target}` and all below it")
    };
    if is_top(target) {
        return harm(rule::command::DESTRUCTIVE_COMMAND, severity, detail, FOR_A_PERSON);
    }
    let advice = if is_forced { ADVICE } else { MOVE };
    harm(rule::command::DESTRUCTIVE_COMMAND, severity, detail, advice).map(Harm::ends_with_sandbox)
}

pub(super) fn is_top(target: &str) -> bool {
    let trimmed = target.trim_end_matches('*').trim_end_matches('/');
    let squeezed = if trimmed.is_empty() { "/" } else { trimmed };
    let is_root = target.starts_with('/') && squeezed.split('/').all(|part| matches!(part, "" | "." | ".."));
    is_root || (target.starts_with(['/', '~', '$']) && (TOP.contains(&target) || TOP.contains(&squeezed)))
}

/// A path below a directory for temporary files, without `..` out of it.
fn is_temporary(target: &str) -> bool {
    let below = ["/tmp/", "/var/tmp/", "$TMPDIR/", "/private/tmp/", "/dev/shm/"];
    let rest = below.iter().find_map(|directory| target.strip_prefix(directory));
    rest.is_some_and(|rest| !rest.trim_matches('/').is_empty() && !rest.split('/').any(|part| part == ".."))
}

fn find(call: &Call) -> Option<Harm> {
    let deletes = call.words().any(|word| word == "-delete");
    let start = call.words().next().unwrap_or_default();
    if !deletes || is_temporary(start) {
        return None;
    }
    let detail = format!("deletes what it finds below `{start}`");
    if is_top(start) {
        return harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, detail, FOR_A_PERSON);
    }
    harm(rule::command::DESTRUCTIVE_COMMAND, Severity::Medium, detail, ADVICE).map(Harm::ends_with_sandbox)
}

fn rights(call: &Call) -> Option<Harm> {
    let is_recursive = call.has_short('R') || call.has_long("--recursive");
    let target = call.operands().skip(1).find(|word| is_top(&word.text)).filter(|_| is_recursive)?;
    harm(
        rule::command::DESTRUCTIVE_COMMAND,
        Severity::High,
        format!("changes rights everywhere below `{}`", target.text),
        FOR_A_PERSON,
    )
}

/// Commands that delete clusters, cloud resources and repositories.
fn remote_deletion(call: &Call) -> Option<Harm> {
    let words: Vec<&str> = call.words().collect();
    let has = |wanted: &[&str]| wanted.iter().all(|word| words.contains(word));
    let what = match call.program() {
        "kubectl" | "oc" if has(&["delete"]) && (has(&["--all"]) || has(&["namespace"]) || has(&["ns"])) => {
            "deletes a whole namespace"
        }
        "terraform" | "tofu"
            if has(&["destroy"]) && words.iter().any(|word| word.ends_with("auto-approve")) =>
        {
            "destroys infrastructure without asking"
        }
        "aws"
            if has(&["s3"])
                && ((has(&["rm"]) && has(&["--recursive"])) || (has(&["rb"]) && has(&["--force"]))) =>
        {
            "deletes a bucket"
        }
        "gh" if has(&["repo", "delete"]) => "deletes a repository",
        "docker" | "podman"
            if has(&["system", "prune"])
                && words.iter().any(|word| word.contains('a'))
                && has(&["--volumes"]) =>
        {
            "deletes all volumes"
        }
        "dropdb" => return lost_data(call, "drops a database"),
        "redis-cli" if words.iter().any(|word| word.eq_ignore_ascii_case("flushall")) => {
            return lost_data(call, "empties the database");
        }
        _ => return None,
    };
    harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, what, FOR_A_PERSON)
}

/// `psql -c 'DROP DATABASE x'`.
fn database(call: &Call) -> Option<Harm> {
    if !call.is(&["psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "mongosh", "mongo", "clickhouse-client"]) {
        return None;
    }
    let statements = call.words().chain(call.fed.iter().map(String::as_str));
    let drops = |text: &str| {
        let lower = text.to_ascii_lowercase();
        ["drop database", "drop schema", "drop table", "truncate table", "dropdatabase("]
            .iter()
            .any(|word| lower.contains(word))
    };
    let dropped = statements.filter(|text| drops(text)).count() > 0;
    dropped.then_some(()).and_then(|()| lost_data(call, "drops data"))
}

/// Data that a command deletes from a database. A server in the sandbox ends with the sandbox; another one does not.
fn lost_data(call: &Call, what: &str) -> Option<Harm> {
    const ADVICE: &str =
        "Rename the table or the database, or use a database server that you started for this task.";
    let harm = harm(rule::command::DESTRUCTIVE_COMMAND, Severity::High, what, ADVICE)?;
    let is_local = |host: &str| {
        let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
        let name = name.split(['/', '?', ',']).next().unwrap_or_default();
        let name = name
            .strip_suffix(|last: char| last.is_ascii_digit())
            .map_or(name, |_| name.rsplit_once(':').map_or(name, |(name, _)| name));
        matches!(name, "" | "localhost" | "127.0.0.1" | "::1" | "[::1]")
    };
    let option = call.value_of(&["-h", "--host", "-H"]);
    let joined = call.words().find_map(|word| word.strip_prefix("-h").filter(|host| !host.is_empty()));
    let in_words = call.words().filter_map(|word| {
        let inside = word.split_once("://").map(|(_, rest)| rest);
        inside.or_else(|| word.split_whitespace().find_map(|part| part.strip_prefix("host=")))
    });
    let mut hosts = option.into_iter().chain(joined).chain(in_words);
    let is_elsewhere = hosts.any(|host| !is_local(host) && !host.starts_with('/'))
        || call.assignments.iter().any(|(name, value)| name == "PGHOST" && !is_local(&value.text));
    Some(if is_elsewhere { harm } else { harm.ends_with_sandbox() })
}
