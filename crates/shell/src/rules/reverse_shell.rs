//! Giving another machine on the network a shell.

use redact::{Severity, rule};

use super::{HarmfulCall, harm};
use crate::parsed::ParsedLine;
use crate::script::Call;

const ADVICE: &str = "Do not do this. Do the task another way.";

pub(super) fn judge<'v>(line: &'v ParsedLine, judged: &mut Vec<HarmfulCall<'v>>) {
    let has_pipe_file = line.all().any(|call| call.is(&["mkfifo", "mknod"]));
    for call in line.all() {
        let why = if uses_network_file(call) {
            "opens a network connection through /dev/tcp"
        } else if gives_shell(call) {
            "connects a program to the network"
        } else if has_pipe_file && call.is(&["nc", "ncat", "netcat", "socat", "telnet"]) {
            "connects a pipe to the network"
        } else if is_socket_code(call) {
            "runs code that connects a shell to a socket"
        } else {
            continue;
        };
        judged.extend(
            harm(
                rule::command::REVERSE_SHELL,
                Severity::Critical,
                format!("`{}` {why}", call.program()),
                ADVICE,
            )
            .map(|harm| (harm, Some(call))),
        );
    }
}

fn uses_network_file(call: &Call) -> bool {
    let is_network = |path: &str| path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/");
    call.redirects.iter().any(|redirect| is_network(&redirect.target.text)) || call.words().any(is_network)
}

fn gives_shell(call: &Call) -> bool {
    let netcat = call.is(&["nc", "ncat", "netcat"])
        && (call.has_short('e')
            || call.has_short('c')
            || call.has_long("--exec")
            || call.has_long("--sh-exec"));
    let runs = |word: &str| {
        let upper = word.to_ascii_uppercase();
        upper.starts_with("EXEC:") || upper.starts_with("SYSTEM:") || upper.contains(",EXEC:")
    };
    netcat || (call.is(&["socat"]) && call.words().any(runs))
}

fn is_socket_code(call: &Call) -> bool {
    if !super::is_interpreter(call) {
        return false;
    }
    let is_code = |text: &str| {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        has(&["socket", "Socket", "net.connect", "fsockopen", "TCPSocket"])
            && has(&[
                "/bin/sh",
                "/bin/bash",
                "subprocess",
                "pty.spawn",
                "exec(",
                "dup2",
                "child_process",
                "spawn",
                "exec \"",
                "open(STDIN",
            ])
    };
    call.words().any(is_code) || call.fed.iter().any(|text| is_code(text))
}
