//! Reading files that contain credentials, and sending secrets out. Listing a key or using it with ssh is normal; printing
//! or copying it is not.

use redact::{Severity, rule};

use super::{FETCHERS, HarmfulCall, harm};
use crate::parsed::ParsedLine;
use crate::script::Call;

const ADVICE: &str = "Do not read credentials. The proxy adds them to allowed requests.";

const FILES: &[&str] = &[
    ".aws/credentials",
    ".netrc",
    ".git-credentials",
    ".docker/config.json",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".pypirc",
    ".npmrc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".azure/accessTokens.json",
    ".config/gcloud/application_default_credentials.json",
    ".config/gcloud/credentials.db",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    ".terraform.d/credentials.tfrc.json",
];
const DIRECTORIES: &[&str] = &[
    "/var/run/secrets/",
    "/run/secrets/",
    ".gnupg/",
    ".password-store/",
    ".mozilla/firefox/",
    ".config/google-chrome/",
];
/// Directories that contain mostly credentials. Copying one whole copies the credentials.
const WHOLE: &[&str] = &[".ssh", ".aws", ".gnupg", ".kube", ".azure", ".config/gcloud", ".password-store"];
const TAKERS: &[&str] =
    &["tar", "bsdtar", "cp", "scp", "rsync", "rclone", "zip", "7z", "cpio", "pax", "grep", "rg", "mv"];
/// Programs that print a file.
const PRINTERS: &[&str] =
    &["cat", "tac", "head", "tail", "less", "more", "bat", "nl", "base64", "xxd", "od", "strings"];
/// Programs that use a file without revealing its content.
const HARMLESS: &[&str] = &[
    "ls",
    "stat",
    "test",
    "[",
    "chmod",
    "chown",
    "ssh",
    "ssh-add",
    "ssh-keygen",
    "sftp",
    "mkdir",
    "rm",
    "touch",
    "file",
    "find",
    "git",
    "cd",
    "echo",
    "printf",
];

pub(super) fn judge<'v>(line: &'v ParsedLine, judged: &mut Vec<HarmfulCall<'v>>) {
    for call in line.all() {
        let sent = call.is(FETCHERS) && sends_secret(line, call);
        if sent {
            let detail = format!("`{}` sends credentials or the environment out", call.program());
            judged.extend(
                harm(rule::command::EXFILTRATION, Severity::Critical, detail, ADVICE)
                    .map(|harm| (harm, Some(call))),
            );
        } else if let Some(path) = read_credential(call) {
            // Reading a project's own file is normal; sending it out is not.
            let severity = if is_environment(path) { Severity::Medium } else { Severity::High };
            judged.extend(
                harm(rule::command::CREDENTIAL_FILE, severity, format!("reads `{path}`"), ADVICE)
                    .map(|harm| (harm, Some(call))),
            );
        } else if prints_token(call) {
            let detail = format!("`{}` prints a credential", call.program());
            judged.extend(
                harm(rule::command::CREDENTIAL_FILE, Severity::High, detail, ADVICE)
                    .map(|harm| (harm, Some(call))),
            );
        }
    }
    for stages in &line.script.pipelines {
        let mut is_secret = false;
        for stage in stages {
            let sender = line.commands(stage.clone()).find(|call| call.is(FETCHERS));
            if let Some(sender) = sender.filter(|_| is_secret) {
                let detail = format!("`{}` sends credentials or the environment out", sender.program());
                judged.extend(
                    harm(rule::command::EXFILTRATION, Severity::Critical, detail, ADVICE)
                        .map(|harm| (harm, Some(sender))),
                );
            }
            is_secret |=
                line.commands(stage.clone()).any(|call| is_dump(call) || read_credential(call).is_some());
        }
    }
}

fn read_credential(call: &Call) -> Option<&str> {
    if call.is(HARMLESS) {
        return None;
    }
    let inputs = call
        .redirects
        .iter()
        .filter(|redirect| !redirect.writes())
        .map(|redirect| redirect.target.text.as_str());
    let words = call.words().map(|word| word.rsplit('@').next().unwrap_or(word));
    let last_written = if call.is(&["cp", "mv", "scp", "rsync", "tee"]) { call.words().last() } else { None };
    let takes_all = call.is(TAKERS) && !extracts(call);
    let prints = call.is(PRINTERS) || call.is(FETCHERS);
    let mut paths = words.chain(inputs).filter(|path| Some(*path) != last_written);
    paths.find(|path| {
        is_credential(path)
            || (takes_all && WHOLE.iter().any(|directory| ends_in(path.trim_end_matches('/'), directory)))
            || (prints && is_environment(path))
    })
}

/// `tar xf a.tar -C ~/.ssh` writes there.
fn extracts(call: &Call) -> bool {
    let bundle = call.words().next().filter(|word| !word.starts_with('-')).unwrap_or_default();
    let creates = call.has_short('c') || call.has_long("--create") || bundle.contains('c');
    call.is(&["tar", "bsdtar"]) && !creates
}

/// `.env` and `.env.production`, but not `.env.example`.
fn is_environment(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(name, ".env" | ".env.local" | ".env.production" | ".env.prod" | ".env.staging")
}

/// Whether a path ends with `file`, or with a shell pattern that matches it.
fn ends_in(path: &str, file: &str) -> bool {
    let mut parts = path.rsplit('/');
    file.rsplit('/').all(|name| parts.next().is_some_and(|part| part == name || fits(part, name)))
}

/// Whether a shell pattern matches a name. A pattern without a letter matches everything and counts as no match.
fn fits(pattern: &str, name: &str) -> bool {
    let is_pattern = pattern.len() <= 64 && pattern.contains(['*', '?']);
    if !is_pattern
        || !pattern.contains(char::is_alphanumeric)
        || pattern.starts_with('.') != name.starts_with('.')
    {
        return false;
    }
    // Which prefixes of the pattern match the part of the name read so far.
    let signs: Vec<char> = pattern.chars().collect();
    let mut open = vec![false; signs.len() + 1];
    open[0] = true;
    let skip_stars = |open: &mut Vec<bool>| {
        for (at, sign) in signs.iter().enumerate() {
            open[at + 1] |= open[at] && *sign == '*';
        }
    };
    skip_stars(&mut open);
    for letter in name.chars() {
        let mut next = vec![false; signs.len() + 1];
        for (at, sign) in signs.iter().enumerate().filter(|(at, _)| open[*at]) {
            match sign {
                '*' => next[at] = true,
                sign => next[at + 1] |= *sign == '?' || *sign == letter,
            }
        }
        skip_stars(&mut next);
        open = next;
    }
    open[signs.len()]
}

fn is_credential(path: &str) -> bool {
    let ends = |file: &str| {
        let is_same = path == file
            || path.strip_suffix(file).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        is_same || (path.contains(['*', '?']) && ends_in(path, file))
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_key = (path.contains(".ssh/") || path.split('/').rev().skip(1).any(|part| fits(part, ".ssh")))
        && !name.ends_with(".pub")
        && (name.starts_with("id_") || name == "*" || name.ends_with(".pem") || name.ends_with(".key"));
    let is_process = path.starts_with("/proc/") && name == "environ";
    FILES.iter().any(|file| ends(file) || (file.starts_with('/') && path == *file))
        || DIRECTORIES.iter().any(|directory| path.contains(directory))
        || is_key
        || is_process
}

/// `env`, `printenv`, `export -p`, `set` without arguments.
fn is_dump(call: &Call) -> bool {
    let bare = call.operands().next().is_none();
    (call.is(&["env", "printenv", "set", "declare", "export"]) && bare) || prints_token(call)
}

fn prints_token(call: &Call) -> bool {
    let words: Vec<&str> = call.words().collect();
    match call.program() {
        "gh" => words.starts_with(&["auth", "token"]),
        "gcloud" => words.contains(&"print-access-token") || words.contains(&"print-identity-token"),
        "aws" => {
            words.contains(&"get-session-token")
                || words.contains(&"export-credentials")
                || words.contains(&"get-secret-value")
        }
        "az" => words.contains(&"get-access-token"),
        "security" => words.iter().any(|word| word.starts_with("find-") && word.ends_with("-password")),
        "vault" => words.first() == Some(&"read") || words.starts_with(&["kv", "get"]),
        "pass" | "secret-tool" => words.first() == Some(&"show") || words.first() == Some(&"lookup"),
        _ => false,
    }
}

fn sends_secret(line: &ParsedLine, call: &Call) -> bool {
    let from_inside = line.inside(call).any(|inner| is_dump(inner) || read_credential(inner).is_some());
    let names = ["_TOKEN", "_KEY", "_SECRET", "PASSWORD", "AWS_", "CREDENTIAL"];
    let is_secret_variable = |word: &str| word.contains('$') && names.iter().any(|name| word.contains(name));
    let in_data = data_words(call).any(is_secret_variable);
    from_inside || in_data || read_credential(call).is_some()
}

/// What a fetcher sends as data or in the address. A header with a token is a normal call.
fn data_words(call: &Call) -> impl Iterator<Item = &str> {
    let mut previous = "";
    call.words().filter(move |word| {
        let before = std::mem::replace(&mut previous, word);
        let is_data = matches!(
            before,
            "-d" | "--data"
                | "--data-raw"
                | "--data-binary"
                | "--data-urlencode"
                | "-F"
                | "--form"
                | "--post-data"
        );
        is_data || word.contains("://")
    })
}
