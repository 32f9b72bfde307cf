//! The proof at the start: inside, what must fail is tried, and one thing that must work. One unexpected success stops
//! the run before the agent exists.

use std::time::Duration;

use sandbox::{Command, Exit, Sandbox};

use super::{PROGRAM, ProvisionError, Surroundings};
use crate::event::RunEvent;

/// What is tried, as an argument of the hidden `__probe` command, which exits 0 when the thing succeeded.
const MUST_FAIL: &[&str] = &["write-root", "read-host", "connect", "gain-capability", "see-host-processes"];

const MUST_WORK: &str = "write-workspace";

pub fn prove(sandbox: &Sandbox, around: &Surroundings<'_>) -> Result<(), ProvisionError> {
    let canary = around.directory.join("events.jsonl");
    let mut arguments: Vec<String> =
        vec![PROGRAM.to_owned(), "__probe".to_owned(), canary.to_string_lossy().into_owned()];
    arguments.extend(MUST_FAIL.iter().map(ToString::to_string));
    arguments.push(MUST_WORK.to_owned());
    let mut command = Command::new(arguments);
    command.stdout = sandbox::Stdio::Pipe;
    let wrong = |name: &str, detail: String| ProvisionError::Proof { name: name.to_owned(), detail };
    let mut process = sandbox.exec(command).map_err(|error| wrong("probe", error.to_string()))?;
    let mut report = String::new();
    if let Some(stdout) = process.stdout.take() {
        let mut limited = std::io::Read::take(stdout, 64 << 10);
        std::io::Read::read_to_string(&mut limited, &mut report)
            .map_err(|error| wrong("probe", error.to_string()))?;
    }
    let ended = process.wait(Duration::from_secs(5)).map_err(|error| wrong("probe", error.to_string()))?;
    if ended != Exit::Code(0) {
        return Err(wrong("probe", format!("ended with {ended:?}")));
    }
    for name in MUST_FAIL.iter().chain([&MUST_WORK]) {
        let succeeded =
            report.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).map(str::to_owned);
        let expected = *name == MUST_WORK;
        let detail = succeeded.unwrap_or_else(|| "no answer".to_owned());
        let held = detail.starts_with(if expected { "ok" } else { "refused" });
        around.emit.emit(RunEvent::Proof { name: (*name).to_owned(), held, detail: detail.clone() });
        if !held {
            return Err(wrong(name, detail));
        }
    }
    Ok(())
}

/// The hidden command inside: tries each thing and says what happened.
pub fn probe(canary: &str, names: &[String]) -> String {
    names.iter().map(|name| format!("{name} {}\n", attempt(name, canary))).collect()
}

fn attempt(name: &str, canary: &str) -> String {
    let said = |result: std::io::Result<()>| match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("refused: {error}"),
    };
    match name {
        "write-root" => said(std::fs::write("/fullsend-probe", b"x")),
        "read-host" => said(std::fs::read(canary).map(drop)),
        "connect" => {
            let address = std::net::SocketAddr::from(([192, 0, 2, 1], 80));
            said(std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).map(drop))
        }
        "gain-capability" => said(rustix::process::chroot("/").map_err(Into::into)),
        "see-host-processes" => {
            let processes = std::fs::read_dir("/proc").map(|entries| {
                entries
                    .flatten()
                    .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
                    .count()
            });
            match processes {
                Ok(count) if count > 8 => "ok".to_owned(),
                Ok(count) => format!("refused: {count} processes are seen"),
                Err(error) => format!("refused: {error}"),
            }
        }
        "write-workspace" => said(
            std::fs::write("/sandbox/workspace/.probe", b"x")
                .and_then(|()| std::fs::remove_file("/sandbox/workspace/.probe")),
        ),
        other => format!("refused: {other} is not known"),
    }
}
