//! Finds the commands that a call runs: `sudo`, `env`, `xargs` and similar run another command, and `bash -c` runs a script.

use super::script::{Call, Word};

/// The most wrappers inside each other.
const MAX_NESTING: usize = 8;

/// A program that runs the command in its arguments: its name, its options that take a value, and how many plain
/// arguments stand before the command.
struct Wrapper {
    name: &'static str,
    valued: &'static [&'static str],
    skipped: usize,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str], skipped: usize) -> Wrapper {
    Wrapper { name, valued, skipped }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("sudo", &["-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "--user", "--group"], 0),
    wrapper("doas", &["-u", "-C"], 0),
    wrapper("env", &["-u", "-C", "-S", "--unset", "--chdir"], 0),
    wrapper("command", &[], 0),
    wrapper("builtin", &[], 0),
    wrapper("exec", &["-a"], 0),
    wrapper("nohup", &[], 0),
    wrapper("setsid", &[], 0),
    wrapper("time", &["-f", "-o"], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("ionice", &["-c", "-n", "-p"], 0),
    wrapper("chrt", &[], 1),
    wrapper("taskset", &[], 1),
    wrapper("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    wrapper("stdbuf", &["-i", "-o", "-e"], 0),
    wrapper("unbuffer", &[], 0),
    wrapper(
        "xargs",
        &["-I", "-n", "-P", "-d", "-L", "-s", "-E", "-a", "--max-args", "--max-procs", "--delimiter"],
        0,
    ),
    wrapper("parallel", &["-j", "--jobs"], 0),
    wrapper("watch", &["-n", "--interval"], 0),
    wrapper("busybox", &[], 0),
    wrapper("toybox", &[], 0),
    wrapper("chroot", &["--userspec"], 1),
    wrapper("unshare", &[], 0),
    wrapper("nsenter", &["-t", "--target"], 0),
    wrapper("strace", &["-e", "-o", "-p", "-s"], 0),
    wrapper("ltrace", &["-e", "-o"], 0),
    wrapper("script", &[], 0),
    wrapper("flock", &["-w", "-E"], 1),
    wrapper("runuser", &["-u"], 0),
    wrapper("systemd-run", &["-p", "-u", "--unit"], 0),
    wrapper("firejail", &[], 0),
];

pub(super) const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash"];

/// The call itself and every command that it runs by way of its arguments, outermost first.
pub(super) fn nested_calls(call: &Call) -> Vec<Call> {
    let mut nested = vec![call.clone()];
    while nested.len() < MAX_NESTING {
        let Some(inner) = nested.last().and_then(inner) else { break };
        nested.push(inner);
    }
    nested
}

fn inner(call: &Call) -> Option<Call> {
    if call.is(&["find", "fd", "fdfind"]) {
        return run_by_find(call);
    }
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == call.program())?;
    // `command -v rm` asks where a command is; it runs nothing.
    if wrapper.name == "command" && (call.has_short('v') || call.has_short('V')) {
        return None;
    }
    let mut skipped = wrapper.skipped;
    let mut assignments = call.assignments.clone();
    let mut words = call.arguments.iter().enumerate();
    while let Some((at, word)) = words.next() {
        let text = word.text.as_str();
        if wrapper.valued.contains(&text) {
            words.next();
        } else if text.starts_with('-') && text.len() > 1 {
            continue;
        } else if let Some((name, value)) =
            text.split_once('=').filter(|_| wrapper.name == "env" || wrapper.name == "sudo")
        {
            assignments.push((name.to_owned(), Word { text: value.to_owned(), ..word.clone() }));
        } else if skipped > 0 {
            skipped -= 1;
        } else {
            let arguments = call.arguments[at + 1..].to_vec();
            return Some(Call { name: word.clone(), arguments, assignments, ..call.clone() });
        }
    }
    None
}

/// `find … -exec rm {} \;`
fn run_by_find(call: &Call) -> Option<Call> {
    let is_exec =
        |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "--exec");
    let at = call.arguments.iter().position(is_exec)?;
    let rest = &call.arguments[at + 1..];
    let end = rest.iter().position(|word| matches!(word.text.as_str(), ";" | "+")).unwrap_or(rest.len());
    let (name, arguments) = rest[..end].split_first()?;
    Some(Call { name: name.clone(), arguments: arguments.to_vec(), ..call.clone() })
}

/// A script that the call runs from a string: `bash -c '…'`, `eval …`, a here-document fed to a shell.
pub(super) fn scripts(call: &Call) -> Vec<String> {
    let mut scripts = Vec::new();
    if call.is(SHELLS) || call.is(&["su"]) {
        let is_command = |word: &str| {
            word == "--command" || (word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))
        };
        let mut words = call.words();
        if words.any(is_command) {
            scripts.extend(words.next().map(str::to_owned));
        } else if call.operands().next().is_none() || call.has_short('s') {
            scripts.extend(call.fed.iter().cloned());
        }
    }
    if call.is(&["eval"]) {
        scripts.push(call.words().collect::<Vec<_>>().join(" "));
    }
    // The output of a substitution is unknown; the commands inside it were read already.
    scripts
        .retain(|script| !script.starts_with("$(") && !script.starts_with('`') && !script.starts_with("<("));
    if call.is(&["trap", "watch", "ssh"]) {
        let operands: Vec<&str> = call.operands().map(|word| word.text.as_str()).collect();
        let from = usize::from(call.is(&["ssh"]));
        scripts.extend(operands.get(from..).filter(|rest| !rest.is_empty()).map(|rest| rest.join(" ")));
    }
    scripts.extend(one_liner(call).into_iter().flat_map(shell_strings));
    // `X="rm -rf /"; $X`: the shell splits the value into words.
    let name = &call.name.text;
    if name.contains(char::is_whitespace) && !call.name.is_dynamic {
        let rest: Vec<&str> = call.words().collect();
        scripts.push(format!("{name} {}", rest.join(" ")));
    }
    scripts
}

/// The program in `perl -e '…'` and similar calls.
pub(super) fn one_liner(call: &Call) -> Option<&str> {
    let languages = ["perl", "ruby", "node", "nodejs", "php", "deno", "bun", "lua"];
    let is_language = call.is(&languages) || call.program().starts_with("python");
    let is_code = |word: &str| {
        matches!(word, "--eval" | "eval")
            || (word.len() <= 5 && word.starts_with('-') && word.ends_with(['e', 'E', 'c', 'r']))
    };
    let mut words = call.words();
    words.find(|word| is_language && is_code(word)).and_then(|_| words.next())
}

/// What a one-liner passes to the shell as a plain string.
fn shell_strings(program: &str) -> Vec<String> {
    const HANDS: &[&str] = &["system", "popen", "execSync", "shell_exec", "passthru", "qx"];
    let mut strings = Vec::new();
    for (at, name) in HANDS.iter().flat_map(|name| program.match_indices(name)) {
        let after = program[at + name.len()..].trim_start_matches([' ', '(']);
        let quoted = after.strip_prefix(['"', '\'', '`', '{']).and_then(|inside| {
            let close = if after.starts_with('{') { '}' } else { after.chars().next()? };
            inside.split_once(close)
        });
        strings.extend(quoted.map(|(script, _)| script.to_owned()));
        if strings.len() >= MAX_NESTING {
            break;
        }
    }
    strings
}
