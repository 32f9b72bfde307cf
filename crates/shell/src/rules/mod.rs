//! The kinds of harm, one per file. A rule gets the whole line and reports what is wrong and at which call.

mod credential_file;
mod destruction;
mod disk;
mod environment;
mod git;
mod host;
mod interpreter;
mod obfuscation;
mod package;
mod pipe_to_shell;
mod privilege;
mod reverse_shell;
mod startup_file;
mod upload;

use redact::{RuleName, Severity};

use super::script::Call;
use crate::harm::{Harm, HarmReach};
use crate::parsed::ParsedLine;

/// A harm and the call that does it, when it is one call.
pub(super) type HarmfulCall<'v> = (Harm, Option<&'v Call>);

pub(super) fn judge(line: &ParsedLine) -> Vec<HarmfulCall<'_>> {
    let mut judged = Vec::new();
    pipe_to_shell::judge(line, &mut judged);
    obfuscation::judge(line, &mut judged);
    reverse_shell::judge(line, &mut judged);
    credential_file::judge(line, &mut judged);
    for call in line.all().filter(|call| !only_asks(call)) {
        let found = [
            destruction::judge(call),
            disk::judge(call),
            git::judge(call),
            startup_file::judge(call),
            package::judge(call),
            privilege::judge(call),
            host::judge(call),
            environment::judge(call),
            interpreter::judge(call),
            upload::judge(call),
        ];
        judged.extend(found.into_iter().flatten().map(|harm| (harm, Some(call))));
    }
    judged
}

fn harm(rule: RuleName, severity: Severity, detail: impl Into<String>, advice: &'static str) -> Option<Harm> {
    Some(Harm { rule, severity, detail: detail.into(), advice, reach: HarmReach::Beyond })
}

/// `rm --help` and `git --version` do nothing.
fn only_asks(call: &Call) -> bool {
    let is_question = |word: &str| matches!(word, "--help" | "--version" | "-help");
    call.arguments.len() <= 2 && call.words().any(is_question)
}

/// Programs that get something from the network and print it.
const FETCHERS: &[&str] = &[
    "curl", "wget", "fetch", "http", "https", "xh", "aria2c", "lynx", "w3m", "httpie", "ftp", "tftp", "nc",
    "ncat", "netcat",
];

/// Programs that run what they are given.
const INTERPRETERS: &[&str] = &[
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "ash",
    "fish",
    "mksh",
    "rbash",
    "csh",
    "tcsh",
    "yash",
    "posh",
    "osh",
    "oksh",
    "elvish",
    "nu",
    "xonsh",
    "$SHELL",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "php",
    "deno",
    "bun",
    "lua",
    "osascript",
    "pwsh",
    "powershell",
    "tclsh",
    "source",
    ".",
    "eval",
];

fn is_interpreter(call: &Call) -> bool {
    let program = call.program();
    INTERPRETERS.contains(&program)
        || program.strip_prefix("python3.").is_some()
        || program.strip_prefix("python2.").is_some()
}
