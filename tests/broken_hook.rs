//! The program with a hook that breaks as hooks do, for tests: everything is the real thing but the process that a runtime
//! starts as its hook, which misbehaves for one event when the file `break` in the repository says so.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

use fullsend::guard::client;

/// In the repository: the event, a space, and how to break.
const ORDER: &str = "/sandbox/workspace/repo/break";
/// Only calls that carry this word are broken.
const WORD: &str = "BREAK-ME";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "__hook") {
        return hook(&words[2..]).unwrap_or(ExitCode::from(70));
    }
    match fullsend::cli::hidden::dispatch(&words) {
        Some(code) => code,
        None => fullsend::cli::main(words),
    }
}

/// As the real one, unless it is told to break.
fn hook(words: &[OsString]) -> Option<ExitCode> {
    let mut body = Vec::new();
    std::io::stdin().lock().read_to_end(&mut body).ok()?;
    if let Some(code) = broken(&String::from_utf8_lossy(&body)) {
        return Some(code);
    }
    let answer = client::ask(words.first()?.to_str()?, words.get(2)?.to_str()?, &body).ok()?;
    if answer.code == 0 {
        std::io::stdout().write_all(answer.text.as_bytes()).ok()?;
    } else {
        std::io::stderr().write_all(answer.text.as_bytes()).ok()?;
    }
    Some(ExitCode::from(answer.code))
}

fn broken(body: &str) -> Option<ExitCode> {
    let order = std::fs::read_to_string(ORDER).ok()?;
    let (event, how) = order.trim().split_once(' ')?;
    let named = body.contains(&format!("\"hook_event_name\":\"{event}\""));
    if !named || (event != "SessionStart" && !body.contains(WORD)) {
        return None;
    }
    let say = |text: &str| {
        drop(std::io::stdout().write_all(text.as_bytes()));
        Some(ExitCode::SUCCESS)
    };
    match how {
        "exit-1" => Some(ExitCode::from(1)),
        "exit-127" => Some(ExitCode::from(127)),
        "killed" => std::process::abort(),
        "hangs" => {
            std::thread::sleep(std::time::Duration::from_secs(600));
            None
        }
        "garbage" => say("this is { not JSON"),
        "stops" => say("{\"continue\":false,\"stopReason\":\"enough\"}"),
        "asks" => say(&format!(
            "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{event}\",\"permissionDecision\":\"ask\"}}}}"
        )),
        "rewrites" => say(&format!(
            "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{event}\",\"permissionDecision\":\"allow\",\"updatedInput\":{{\"command\":\"echo CHANGED-$((6*7)) {WORD}\"}}}}}}"
        )),
        "text" => say(&format!(
            "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{event}\",\"updatedToolOutput\":\"clean\"}}}}"
        )),
        _ => say(""),
    }
}
