//! The program with a hook or a guard that breaks as they may, for tests: everything is real except two parts. The
//! process that a runtime starts as its hook misbehaves for one event if the file `break` in the repository says so.
//! The guard's socket dies or hangs in the middle of a run if the variable `BREAK_GUARD` says so.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fullsend::internal::hook_client::{self, HookAddress};

/// In the repository: the event, a space, and how to break.
const ORDER: &str = "/sandbox/workspace/repo/break";
/// Only calls that carry this word are broken.
const WORD: &str = "BREAK-ME";
/// Where events are written down.
const MARKS: &str = "/tmp/marks";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Ok(how) = std::env::var("BREAK_GUARD") {
        std::thread::spawn(move || break_guard(&how));
    }
    if words.get(1).is_some_and(|word| word == "__hook") && Path::new(ORDER).exists() {
        return hook(&words[2..]).unwrap_or(ExitCode::from(70));
    }
    match fullsend::run_hidden_command(&words) {
        Some(code) => code,
        None => fullsend::main(words),
    }
}

/// As the real one, unless it is told to break.
fn hook(words: &[OsString]) -> Option<ExitCode> {
    let mut body = Vec::new();
    std::io::stdin().lock().read_to_end(&mut body).ok()?;
    let text = String::from_utf8_lossy(&body);
    let how = order(&text);
    if let Some(code) = how.as_deref().and_then(broken) {
        return Some(code);
    }
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let answer = HookAddress::parse(&words)?.ask(Path::new(hook_client::SOCKET), &body);
    if how.is_some_and(|how| how.starts_with("keeps ")) {
        // It asked the guard, and does not pass the answer on to the runtime.
        return Some(ExitCode::SUCCESS);
    }
    if answer.code == 0 {
        std::io::stdout().write_all(answer.text.as_bytes()).ok()?;
    } else {
        std::io::stderr().write_all(answer.text.as_bytes()).ok()?;
    }
    Some(ExitCode::from(answer.code))
}

/// How to break for this event, if it is to. The order `any marks` writes down every event and breaks nothing.
fn order(body: &str) -> Option<String> {
    let order = std::fs::read_to_string(ORDER).ok()?;
    let (event, how) = order.trim().split_once(' ')?;
    if event == "any" {
        let name = body.split("\"hook_event_name\":\"").nth(1)?.split('"').next()?;
        let mut marks = std::fs::File::options().create(true).append(true).open(MARKS).ok()?;
        writeln!(marks, "hooked:{name}").ok()?;
        return None;
    }
    let named = body.contains(&format!("\"hook_event_name\":\"{event}\""));
    let wanted = named && (event == "SessionStart" || body.contains(WORD));
    wanted.then(|| format!("{how} {event}"))
}

fn broken(order: &str) -> Option<ExitCode> {
    let (how, event) = order.split_once(' ')?;
    let say = |text: &str| {
        drop(std::io::stdout().write_all(text.as_bytes()));
        Some(ExitCode::SUCCESS)
    };
    match how {
        "exit-1" => Some(ExitCode::from(1)),
        "exit-127" => Some(ExitCode::from(127)),
        "killed" => std::process::abort(),
        "hangs" => {
            std::thread::sleep(Duration::from_secs(600));
            None
        }
        // Asked below.
        "keeps" => None,
        "defers" => say(&format!(
            "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{event}\",\"permissionDecision\":\"defer\"}}}}"
        )),
        "blocks" => say("{\"decision\":\"block\",\"reason\":\"not this\"}"),
        "exit-2" => {
            drop(std::io::stderr().write_all(b"not this"));
            Some(ExitCode::from(2))
        }
        "part" => say(&format!(
            "{{\"hookSpecificOutput\":{{\"hookEventName\":\"{event}\",\"updatedToolOutput\":{{\"stdout\":\"clean\",\"stderr\":\"\"}}}}}}"
        )),
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

/// After the second request to the model, so that the first call was judged as usual.
fn break_guard(how: &str) -> Option<()> {
    let state = std::env::var("XDG_STATE_HOME").ok()?;
    let asked = || -> Option<usize> {
        let mut runs = std::fs::read_dir(Path::new(&state).join("fullsend/runs/local")).ok()?;
        let events = std::fs::read_to_string(runs.next()?.ok()?.path().join("events.jsonl")).ok()?;
        Some(events.matches("\"model_request\"").count())
    };
    while asked().unwrap_or_default() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (place, listener) = listener()?;
    if how == "killed" {
        // As if the listening process had ended: connections are refused.
        UnixStream::from(listener).shutdown(std::net::Shutdown::Both).ok()?;
        return Some(());
    }
    // The kernel gives a connection to the thread that has waited longest: the guard gets one more, and all others are
    // accepted here and never answered.
    let listener = UnixListener::from(listener);
    for _ in 0..32 {
        let listener = listener.try_clone().ok()?;
        std::thread::spawn(move || {
            let _taken = listener.accept();
            std::thread::sleep(Duration::from_secs(600));
        });
    }
    std::thread::sleep(Duration::from_millis(300));
    let _silent = UnixStream::connect(place).ok()?;
    std::thread::sleep(Duration::from_secs(600));
    Some(())
}

/// The address that the guard of this process listens at, and its socket once more.
fn listener() -> Option<(String, OwnedFd)> {
    const LISTENS: &str = "00010000";
    let sockets = std::fs::read_to_string("/proc/self/net/unix").ok()?;
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut guards = fields.filter(|fields| fields.len() == 8 && fields[3] == LISTENS);
    let own = std::process::id();
    guards.find_map(|fields| {
        let inode = fields[6];
        let place = fields[7];
        let is_it = |number: &i32| {
            let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
            place.ends_with("guard.sock")
                && link.is_ok_and(|link| link == Path::new(&format!("socket:[{inode}]")))
        };
        let number = (0..1024).find(is_it)?;
        let own = rustix::process::Pid::from_raw(i32::try_from(own).ok()?)?;
        let process = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).ok()?;
        let again = rustix::process::pidfd_getfd(process, number, rustix::process::PidfdGetfdFlags::empty());
        Some((place.to_owned(), again.ok()?))
    })
}
