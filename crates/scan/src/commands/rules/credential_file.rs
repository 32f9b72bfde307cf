//! Reading files that hold credentials, and sending secrets out. Listing a key or using it with ssh is normal; printing
//! or copying it is not.

use super::{FETCHERS, Judged, harm};
use crate::commands::View;
use crate::commands::script::Call;
use crate::finding::Severity;
use crate::rule;

const ADVICE: &str =
    "Credentials are put in by the runner where they are needed; no command has to read them.";

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
/// Programs that look at a file without giving its content away, or use it for what it is.
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

pub(super) fn judge<'v>(view: &'v View, judged: &mut Vec<Judged<'v>>) {
    for call in view.all() {
        let sent = call.is(FETCHERS) && sends_secret(view, call);
        if sent {
            let detail = format!("`{}` sends credentials or the environment out", call.program());
            judged.extend(
                harm(rule::command::EXFILTRATION, Severity::Critical, detail, ADVICE)
                    .map(|harm| (harm, Some(call))),
            );
        } else if let Some(path) = read_credential(call) {
            judged.extend(
                harm(rule::command::CREDENTIAL_FILE, Severity::High, format!("reads `{path}`"), ADVICE)
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
    for stages in &view.script.pipelines {
        let mut is_secret = false;
        for stage in stages {
            let sender = view.commands(stage.clone()).find(|call| call.is(FETCHERS));
            if let Some(sender) = sender.filter(|_| is_secret) {
                let detail = format!("`{}` sends credentials or the environment out", sender.program());
                judged.extend(
                    harm(rule::command::EXFILTRATION, Severity::Critical, detail, ADVICE)
                        .map(|harm| (harm, Some(sender))),
                );
            }
            is_secret |=
                view.commands(stage.clone()).any(|call| is_dump(call) || read_credential(call).is_some());
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
    words.chain(inputs).filter(|path| Some(*path) != last_written).find(|path| is_credential(path))
}

fn is_credential(path: &str) -> bool {
    let ends = |file: &str| {
        path == file || path.strip_suffix(file).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_key = path.contains(".ssh/")
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

fn sends_secret(view: &View, call: &Call) -> bool {
    let from_inside = view.inside(call).any(|inner| is_dump(inner) || read_credential(inner).is_some());
    let names = ["_TOKEN", "_KEY", "_SECRET", "PASSWORD", "AWS_", "CREDENTIAL"];
    let is_secret_variable = |word: &str| word.contains('$') && names.iter().any(|name| word.contains(name));
    let in_data = data_words(call).any(is_secret_variable);
    from_inside || in_data || read_credential(call).is_some()
}

/// What a fetcher sends as data or in the address; a header with a token is how services are called.
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
