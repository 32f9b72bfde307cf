//! The inside of the proof: a child of PID 1, confined like every command, tries one action after the other and reports
//! the results. It does not judge them.

use crate::channel;
use crate::proof::{ProbeName, ProbeRequest, ProbeResult};
use crate::sys;
use crate::sys::call_probes::{ForbiddenCall, attempt};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The time limit of a probe: an unreachable address is refused at once.
const ATTEMPT_LIMIT: Duration = Duration::from_millis(100);
const RESOLVER_LIMIT: Duration = Duration::from_millis(500);

/// Runs all probes in a child process and returns its results.
pub(super) fn run(request: &ProbeRequest) -> io::Result<Vec<ProbeResult>> {
    let (ours, theirs) = UnixStream::pair()?;
    if sys::fork()?.is_none() {
        drop(ours);
        let sent = channel::send(&theirs, &attempt_all(request), &[]);
        sys::exit_now(i32::from(sent.is_err()));
    }
    drop(theirs);
    ours.set_read_timeout(Some(ATTEMPT_LIMIT * 8 + RESOLVER_LIMIT))?;
    match channel::receive(&ours)? {
        Some((results, _)) => Ok(results),
        None => Err(io::Error::other("the probing process died")),
    }
}

fn attempt_all(request: &ProbeRequest) -> Vec<ProbeResult> {
    let secret = Path::new(&request.secret_path);
    let mut results = vec![
        must_fail(ProbeName::ReadHostSecret, read_secret(secret)),
        must_fail(ProbeName::WriteOutside, write_outside(secret)),
        must_fail(ProbeName::SeeHostProcesses, see_host_processes()),
        must_fail(ProbeName::GainCapability, gain_capability()),
        must_fail(ProbeName::NewNamespace, attempt(ForbiddenCall::NewUserNamespace).map(drop)),
        must_fail(ProbeName::Mount, attempt(ForbiddenCall::Mount).map(drop)),
        must_fail(ProbeName::TracePidOne, attempt(ForbiddenCall::PtracePidOne).map(drop)),
        must_fail(ProbeName::VsockSocket, attempt(ForbiddenCall::SocketVsock).map(drop)),
    ];
    for address in &request.unreachable {
        let connected = TcpStream::connect_timeout(address, ATTEMPT_LIMIT).map(drop);
        results.push(must_fail(ProbeName::ConnectDirectly, connected));
    }
    if let Some((resolver, name)) = &request.unresolvable {
        results.push(must_fail(ProbeName::ResolveForbiddenName, resolve(*resolver, name)));
    }
    if let Some(path) = &request.readable {
        results.push(must_work(ProbeName::ReadListedFile, read_one_byte(Path::new(path))));
    }
    if let Some(path) = &request.writable {
        results.push(must_work(ProbeName::WriteListedDirectory, write_and_remove(Path::new(path))));
    }
    results
}

fn must_fail(name: ProbeName, attempt: io::Result<()>) -> ProbeResult {
    match attempt {
        Ok(()) => ProbeResult { name, held: false, detail: "it worked".to_owned() },
        Err(e) => ProbeResult { name, held: true, detail: e.to_string() },
    }
}

fn must_work(name: ProbeName, attempt: io::Result<()>) -> ProbeResult {
    match attempt {
        Ok(()) => ProbeResult { name, held: true, detail: "it worked".to_owned() },
        Err(e) => ProbeResult { name, held: false, detail: e.to_string() },
    }
}

/// By its path, and through the roots of PID 1 and of this process in /proc.
fn read_secret(path: &Path) -> io::Result<()> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let ways = [
        path.to_path_buf(),
        Path::new("/proc/1/root").join(relative),
        Path::new("/proc/self/root").join(relative),
    ];
    first_success(ways.iter().map(|way| fs::read(way).map(drop)))
}

fn write_outside(secret: &Path) -> io::Result<()> {
    let beside = secret.with_file_name("written-from-inside");
    let ways =
        ["/written", "/usr/written", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"].map(Path::new);
    let opened =
        |way: &Path| fs::OpenOptions::new().write(true).create(true).truncate(false).open(way).map(drop);
    first_success(ways.into_iter().chain([beside.as_path()]).map(opened))
}

/// PID 1 here must be the sandbox's own, this process must have one pid only, and few others may exist.
fn see_host_processes() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let pids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .map(|pids| pids.split_whitespace().count());
    let numbers = fs::read_dir("/proc")?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .count();
    if pids == Some(1) && std::process::id() < 300 && numbers <= 300 {
        return Err(io::Error::other(format!("{numbers} processes are visible, all of the sandbox")));
    }
    Ok(())
}

fn gain_capability() -> io::Result<()> {
    let ways = [ForbiddenCall::SetAllCapabilities, ForbiddenCall::RaiseAmbientCapability];
    first_success(ways.into_iter().map(|way| attempt(way).map(drop)))
}

/// One question for an IPv4 address; anything but a positive answer is a refusal.
fn resolve(resolver: SocketAddr, name: &str) -> io::Result<()> {
    let any: SocketAddr = match resolver {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // Connected, so that a port without a listener refuses at once instead of never answering.
    socket.connect(resolver)?;
    socket.set_read_timeout(Some(RESOLVER_LIMIT))?;
    let mut question = vec![0x5A, 0x17, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        question.push(u8::try_from(label.len()).map_err(io::Error::other)?);
        question.extend(label.bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    socket.send(&question)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    let code = answer[3] & 15;
    let answers = u16::from_be_bytes([answer[6], answer[7]]);
    if length < 12 || code != 0 || answers == 0 {
        return Err(io::Error::other(format!("refused with code {code}")));
    }
    Ok(())
}

fn read_one_byte(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.read(&mut [0]).map(drop)
}

fn write_and_remove(directory: &Path) -> io::Result<()> {
    let path = directory.join(".proof");
    fs::File::create_new(&path)?.write_all(b"x")?;
    fs::remove_file(path)
}

/// One success counts; otherwise the first refusal is returned.
fn first_success(ways: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let mut refusal = None;
    for way in ways {
        match way {
            Ok(()) => return Ok(()),
            Err(e) => refusal = refusal.or(Some(e)),
        }
    }
    Err(refusal.unwrap_or_else(|| io::Error::other("nothing was tried")))
}
