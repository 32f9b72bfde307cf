//! Getting more privileges than the agent has, or leaving its container.

use redact::{Severity, rule};

use super::{Harm, harm};
use crate::script::Call;

const ADVICE: &str = "Do the task without more privileges. Only the operator can grant them.";

pub(super) fn judge(call: &Call) -> Option<Harm> {
    let words: Vec<&str> = call.words().collect();
    let (severity, what) = match call.program() {
        "chmod" if words.iter().any(|word| sets_identity(word)) => {
            (Severity::High, "lets others run a program as its owner")
        }
        "setcap" => (Severity::High, "gives a program capabilities"),
        "insmod" | "modprobe" => (Severity::High, "loads code into the kernel"),
        "nsenter" => (Severity::High, "enters another namespace"),
        "docker" | "podman" | "nerdctl" if escapes(&words) => {
            (Severity::High, "starts a container with full rights on the host")
        }
        "su" | "sudo"
            if call.operands().next().is_none()
                || words.iter().any(|word| matches!(*word, "-i" | "-s" | "--login")) =>
        {
            (Severity::Medium, "opens a shell with all rights")
        }
        "usermod" | "useradd" | "adduser" | "passwd" | "visudo" | "chpasswd" => {
            (Severity::High, "changes the machine's accounts")
        }
        "mount" if !words.is_empty() => (Severity::Medium, "mounts a file system"),
        _ => return None,
    };
    harm(rule::command::PRIVILEGE, severity, format!("`{}` {what}", call.program()), ADVICE)
}

fn sets_identity(mode: &str) -> bool {
    let is_number = mode.len() == 4 && mode.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && matches!(mode.as_bytes()[0], b'2' | b'4' | b'6' | b'7')) || mode.contains("+s")
}

fn escapes(words: &[&str]) -> bool {
    let host_root = |word: &str| {
        word.starts_with("/:")
            || word.contains("source=/,")
            || word.contains("=/:")
            || word.contains("docker.sock")
    };
    words.iter().any(|word| {
        matches!(*word, "--privileged" | "--pid=host" | "--cap-add=SYS_ADMIN" | "--cap-add=ALL")
            || host_root(word)
    })
}
