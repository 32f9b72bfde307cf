//! Runs commands, each in its own process group, with limits for time and output.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::tool_outcome::{CUT, MAX_OUTPUT, ToolOutcome};

const MAX_TIME: Duration = Duration::from_secs(120);

pub fn bash(command: &str) -> ToolOutcome {
    run(Command::new("/bin/sh").args(["-c", command]))
}

/// Every image has grep.
pub fn grep(pattern: &str, place: &str) -> ToolOutcome {
    let mut command = Command::new("grep");
    let outcome = run(command.args(["-rnHIE", "--exclude-dir=.git", "-e", pattern, "--", place]));
    // Exit code 1 means that nothing was found.
    if outcome.is_error && outcome.text.trim() == "(exit status: 1)" { ToolOutcome::ok("") } else { outcome }
}

fn run(command: &mut Command) -> ToolOutcome {
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return ToolOutcome::error(format!("the command cannot be started: {error}")),
    };
    let out = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let deadline = Instant::now() + MAX_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            _ => break None,
        }
    };
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    drop(child.wait());
    let text: String = [out, errors].into_iter().flatten().filter_map(|reader| reader.join().ok()).collect();
    match status {
        Some(status) if status.success() => ToolOutcome::ok(text),
        Some(status) => ToolOutcome::error(format!("{text}\n({status})")),
        None => ToolOutcome::error(format!("{text}\n(stopped after {} seconds)", MAX_TIME.as_secs())),
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        drop((&mut stream).take(MAX_OUTPUT as u64).read_to_end(&mut kept));
        let rest = std::io::copy(&mut stream, &mut std::io::sink());
        let mut text = String::from_utf8_lossy(&kept).into_owned();
        if rest.is_ok_and(|rest| rest > 0) {
            text.push_str(CUT);
        }
        text
    })
}
