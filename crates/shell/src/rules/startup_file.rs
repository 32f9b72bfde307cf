//! Writing files that run something later: shell profiles, cron, hooks, agents' settings, authorized keys. And deleting the
//! shell's history.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::Call;

const ADVICE: &str = "Edit these files with the file tools, and only if the task asks for it.";
const SCHEDULE: &str =
    "Do not schedule commands. Run the command now, or say in your result that a person must schedule it.";

const STARTUP: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".kshrc",
    ".cshrc",
    ".inputrc",
    ".xinitrc",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".ssh/rc",
    ".gitconfig",
    ".git/config",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".curlrc",
    ".wgetrc",
    ".pam_environment",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".vscode/tasks.json",
];
const STARTUP_DIRECTORIES: &[&str] = &[
    "/.git/hooks/",
    ".git/hooks/",
    "/etc/",
    ".config/autostart/",
    ".config/systemd/user/",
    ".config/fish/",
    "/.claude/hooks/",
    ".claude/hooks/",
    "/var/spool/cron/",
    "LaunchAgents/",
    "LaunchDaemons/",
    "/usr/lib/systemd/",
    "/lib/systemd/",
    "/boot/",
    "/usr/bin/",
    "/usr/sbin/",
    "/bin/",
    "/sbin/",
];
const HISTORY: &[&str] = &[
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".mysql_history",
    ".psql_history",
    ".node_repl_history",
];

pub(super) fn judge(call: &Call) -> Option<Harm> {
    history(call).or_else(|| written(call).find_map(startup)).or_else(|| schedule(call))
}

/// The files that a call writes.
fn written(call: &Call) -> impl Iterator<Item = &str> {
    let redirected = call
        .redirects
        .iter()
        .filter(|redirect| redirect.writes())
        .map(|redirect| redirect.target.text.as_str());
    let is_editor =
        call.is(&["tee", "truncate", "touch", "ed"]) || (call.is(&["sed", "perl"]) && call.has_short('i'));
    let copies = call.is(&["cp", "mv", "install", "ln", "rsync", "scp"]);
    let operands: Vec<&str> = call.operands().map(|word| word.text.as_str()).collect();
    let last = operands.last().copied().filter(|_| copies && operands.len() > 1);
    let named =
        call.value_of(&["-o", "-O", "--output", "--output-document"]).filter(|_| call.is(&["curl", "wget"]));
    redirected.chain(operands.into_iter().filter(move |_| is_editor)).chain(last).chain(named)
}

fn startup(path: &str) -> Option<Harm> {
    let is_file = STARTUP
        .iter()
        .any(|file| path == *file || path.strip_suffix(file).is_some_and(|rest| rest.ends_with('/')));
    let in_directory = STARTUP_DIRECTORIES.iter().any(|directory| {
        path.starts_with(directory) || (!directory.starts_with('/') && path.contains(directory))
    });
    let is_hook = path.contains("/.git/hooks/") || path.contains("/.claude/hooks/");
    (is_file || in_directory || is_hook).then_some(()).and_then(|()| {
        harm(
            rule::command::STARTUP_FILE,
            Severity::High,
            format!("writes `{path}`, which something else runs or trusts"),
            ADVICE,
        )
    })
}

fn schedule(call: &Call) -> Option<Harm> {
    let installs = call.is(&["crontab"]) && !call.has_short('l') && !call.has_short('r');
    let later = call.is(&["at", "batch"]) && !call.fed.is_empty();
    (installs || later).then_some(()).and_then(|()| {
        harm(rule::command::STARTUP_FILE, Severity::High, "schedules a command for later", SCHEDULE)
    })
}

fn history(call: &Call) -> Option<Harm> {
    let clears = call.is(&["history"]) && (call.has_short('c') || call.has_short('d') || call.has_short('w'));
    let unsets = call.is(&["unset"]) && call.words().any(|word| word.starts_with("HIST"));
    let switches = call.is(&["set"])
        && call.words().any(|word| word == "history")
        && call.words().any(|word| word == "+o");
    let redirects = call.assignments.iter().any(|(name, value)| match name.as_str() {
        "HISTFILE" => true,
        "HISTSIZE" | "HISTFILESIZE" => value.text == "0",
        _ => false,
    });
    let is_history = |path: &str| HISTORY.iter().any(|file| path.ends_with(file));
    let wipes = written(call).any(is_history)
        || (call.is(&["rm", "shred", "unlink"]) && call.operands().any(|word| is_history(&word.text)));
    (clears || unsets || switches || redirects || wipes).then_some(()).and_then(|()| {
        harm(
            rule::command::HISTORY_TAMPERING,
            Severity::High,
            "wipes or disables the shell's history",
            "Do not change the shell's history.",
        )
    })
}
