//! What git can destroy, and what git can be made to run.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::Call;

const LOSS: &str = "Use `git stash`, `git switch` or `git revert`, which keep the work.";
const SHARED: &str = "Push to a new branch without force. Rewriting shared history is a person's decision.";
const CONFIGURATION: &str = "Do not change git's configuration.";
const HOOKS: &str = "Commit without `--no-verify`, and fix what the hooks report.";
const REMOTE: &str = "Push to a remote that the repository already has.";
const TRANSPORT: &str = "Use an https address, and let git choose the program.";
const CREDENTIALS: &str = "Do not read credentials. The proxy adds them to allowed requests.";

/// Settings that make git run a program or send data elsewhere.
const RUNS: &[&str] = &[
    "core.sshcommand",
    "core.hookspath",
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.gitproxy",
    "core.askpass",
    "credential.helper",
    "diff.external",
    "sequence.editor",
    "uploadpack.packobjectshook",
    "protocol.ext.allow",
    "http.sslverify",
    "http.proxy",
    "gpg.program",
    "filter.",
    "alias.",
    "url.",
    "include.path",
    "includeif.",
];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    if !call.is(&["git"]) {
        return None;
    }
    let (settings, subcommand, rest) = parts(call);
    risky_setting(&settings, subcommand, &rest, call).or_else(|| loss(subcommand, &rest))
}

/// The `-c` settings, the subcommand, and its arguments.
fn parts(call: &Call) -> (Vec<&str>, &str, Vec<&str>) {
    let words: Vec<&str> = call.words().collect();
    let mut settings = Vec::new();
    let mut at = 0;
    while at < words.len() {
        match words[at] {
            "-c" | "--config-env" => {
                settings.extend(words.get(at + 1));
                at += 2;
            }
            "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" => at += 2,
            option if option.starts_with('-') => at += 1,
            subcommand => return (settings, subcommand, words[at + 1..].to_vec()),
        }
    }
    (settings, "", Vec::new())
}

/// Options before `--`: a long name, or a letter in a cluster.
fn has(rest: &[&str], long: &str, short: char) -> bool {
    let is_short =
        |word: &&str| word.starts_with('-') && !word.starts_with("--") && word[1..].contains(short);
    rest.iter().take_while(|word| **word != "--").any(|word| *word == long || is_short(word))
}

fn loss(subcommand: &str, rest: &[&str]) -> Option<Harm> {
    // Rewritten commits can be pushed; a lost change of the working tree stays in the sandbox.
    let is_published = matches!(subcommand, "filter-branch" | "filter-repo" | "commit");
    let everything = rest.iter().any(|word| matches!(*word, "." | ":/" | "*" | "./"));
    let (severity, what) = match subcommand {
        "reset" if rest.contains(&"--hard") || rest.contains(&"--merge") => {
            (Severity::High, "throws away uncommitted work")
        }
        "clean" if has(rest, "--force", 'f') && !has(rest, "--dry-run", 'n') => {
            (Severity::High, "deletes untracked files")
        }
        "stash" if matches!(rest.first(), Some(&"drop" | &"clear")) => {
            (Severity::High, "throws stashed work away")
        }
        "branch" if has(rest, "--delete --force", 'D') => {
            (Severity::High, "deletes a branch that is not merged")
        }
        "branch" if has(rest, "--delete", 'd') && has(rest, "--force", 'f') => {
            (Severity::High, "deletes a branch that is not merged")
        }
        "push" => return push(rest),
        "checkout" if rest.contains(&"--") || everything => {
            (if everything { Severity::High } else { Severity::Medium }, "throws away uncommitted work")
        }
        "restore" if !has(rest, "--staged", 'S') => {
            (if everything { Severity::High } else { Severity::Medium }, "throws away uncommitted work")
        }
        "reflog" if rest.first() == Some(&"expire") || rest.first() == Some(&"delete") => {
            (Severity::High, "deletes the history that an undo needs")
        }
        "gc" if rest.iter().any(|word| word.starts_with("--prune=")) => {
            (Severity::Medium, "deletes the history that an undo needs")
        }
        "filter-branch" | "filter-repo" => (Severity::High, "rewrites all history"),
        "update-ref" if has(rest, "--delete", 'd') => (Severity::High, "deletes a reference"),
        "worktree" if rest.first() == Some(&"remove") && has(rest, "--force", 'f') => {
            (Severity::Medium, "removes a worktree with its uncommitted changes")
        }
        "commit" if rest.contains(&"--no-verify") || has(rest, "--no-verify", 'n') => {
            (Severity::Medium, "skips the checks of the repository")
        }
        _ => return None,
    };
    let detail = format!("`git {subcommand}` {what}");
    if is_published {
        let advice = if subcommand == "commit" { HOOKS } else { SHARED };
        return harm(rule::command::GIT_LOSS, severity, detail, advice);
    }
    harm(rule::command::GIT_LOSS, severity, detail, LOSS).map(Harm::ends_with_sandbox)
}

fn push(rest: &[&str]) -> Option<Harm> {
    let is_forced = has(rest, "--force", 'f')
        || rest.contains(&"--mirror")
        || rest.iter().any(|word| word.starts_with('+') && word.len() > 1);
    if is_forced {
        return harm(
            rule::command::GIT_LOSS,
            Severity::High,
            "`git push` overwrites what others pushed",
            SHARED,
        );
    }
    let is_lease = rest.iter().any(|word| word.starts_with("--force-with-lease"));
    let deletes =
        has(rest, "--delete", 'd') || rest.iter().any(|word| word.starts_with(':') && word.len() > 1);
    if is_lease || deletes {
        return harm(
            rule::command::GIT_LOSS,
            Severity::Medium,
            "`git push` rewrites or deletes a branch",
            SHARED,
        );
    }
    let leaves = rest.iter().find(|word| word.contains("://") && !word.starts_with('-'))?;
    let host = scan::ssrf::url::parse(leaves).map(|url| url.host).unwrap_or_default();
    harm(
        rule::command::GIT_TRICK,
        Severity::Medium,
        format!("pushes to a URL of `{host}` instead of a named remote"),
        REMOTE,
    )
}

fn risky_setting(settings: &[&str], subcommand: &str, rest: &[&str], call: &Call) -> Option<Harm> {
    let is_risky = |setting: &str| {
        let lower = setting.to_ascii_lowercase();
        RUNS.iter().any(|name| lower.starts_with(name)) && !lower.starts_with("alias.")
            || (lower.starts_with("alias.") && setting.contains('!'))
    };
    if let Some(setting) = settings.iter().find(|setting| is_risky(setting)) {
        let name = setting.split('=').next().unwrap_or_default();
        return harm(
            rule::command::GIT_TRICK,
            Severity::High,
            format!("`-c {name}` can make git run a program, use another server or skip a check"),
            CONFIGURATION,
        );
    }
    if subcommand == "config" {
        let is_read = rest.iter().any(|word| {
            matches!(
                *word,
                "--get" | "--list" | "-l" | "get" | "list" | "--get-all" | "--unset" | "--get-regexp"
            )
        });
        let operands: Vec<&str> =
            rest.iter().copied().filter(|word| !word.starts_with('-') && *word != "set").collect();
        if let ([name, value, ..], false) = (operands.as_slice(), is_read) {
            let is_alias = name.to_ascii_lowercase().starts_with("alias.");
            if is_risky(name) || (is_alias && value.starts_with('!')) {
                return harm(
                    rule::command::GIT_TRICK,
                    Severity::High,
                    format!(
                        "sets `{name}`, which can make git run a program, use another server or skip a check"
                    ),
                    CONFIGURATION,
                );
            }
        }
    }
    if rest.iter().any(|word| word.starts_with("ext::")) {
        return harm(
            rule::command::GIT_TRICK,
            Severity::Critical,
            "an `ext::` address runs a command",
            TRANSPORT,
        );
    }
    let runs = ["--upload-pack", "--receive-pack", "--exec", "-u"];
    let is_transport = matches!(subcommand, "clone" | "fetch" | "pull" | "ls-remote" | "push" | "archive");
    if is_transport && runs.iter().take(3).any(|option| call.has_long(option)) {
        return harm(
            rule::command::GIT_TRICK,
            Severity::High,
            "makes git start a program that the option names",
            TRANSPORT,
        );
    }
    (subcommand == "credential" && rest.first() == Some(&"fill")).then_some(()).and_then(|()| {
        harm(rule::command::GIT_TRICK, Severity::High, "prints stored credentials", CREDENTIALS)
    })
}
