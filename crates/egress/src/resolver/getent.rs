//! The host's own resolver, asked through `getent ahosts`. It honours nsswitch, search domains, mDNS and the split DNS of a
//! VPN, as every other program of the host does. A subprocess, because a statically linked glibc program must not call
//! `getaddrinfo`: that loads the host's shared NSS modules into it.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Where distributions install it.
const SEARCH_PATH: &str = "/usr/bin:/bin:/run/current-system/sw/bin";
const DEADLINE: Duration = Duration::from_secs(15);
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
const FIRST_POLL: Duration = Duration::from_millis(1);
const SLOWEST_POLL: Duration = Duration::from_millis(20);
/// `getent` exits with 2 where the name has no address, and with 1 where it does not know `ahosts`.
const EXIT_UNSUPPORTED: i32 = 1;
const EXIT_NOT_FOUND: i32 = 2;

#[derive(Debug, Clone)]
pub(super) struct Getent {
    pub(super) program: PathBuf,
    pub(super) deadline: Duration,
}

impl Default for Getent {
    fn default() -> Self {
        Self { program: PathBuf::from("getent"), deadline: DEADLINE }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum GetentAnswer {
    /// In the host's order of preference; not empty.
    Addresses(Vec<IpAddr>),
    NoSuchName,
    /// This host has no `getent`, or one without `ahosts`.
    Unsupported,
    Failed(String),
}

impl Getent {
    /// Blocks until the answer or the deadline.
    pub(super) fn ask(&self, host: &str) -> GetentAnswer {
        let child = match self.start(host) {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return GetentAnswer::Unsupported,
            Err(error) => return GetentAnswer::Failed(format!("cannot start getent: {error}")),
        };
        match wait(child, self.deadline) {
            Ok((status, output)) => read_answer(status, &output),
            Err(error) => GetentAnswer::Failed(format!("getent: {error}")),
        }
    }

    fn start(&self, host: &str) -> io::Result<Child> {
        Command::new(&self.program)
            .args(["ahosts", "--", host])
            .env_clear()
            .env("PATH", SEARCH_PATH)
            // An endpoint of a policy is a full name: it is asked for as it is before any search domain is tried.
            .env("RES_OPTIONS", "ndots:1")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }
}

/// Output that does not fit into the pipe stops the child, which then runs into the deadline.
fn wait(mut child: Child, deadline: Duration) -> io::Result<(ExitStatus, String)> {
    let started = Instant::now();
    let mut poll = FIRST_POLL;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not respond in time"));
        }
        std::thread::sleep(poll);
        poll = (poll * 2).min(SLOWEST_POLL);
    };
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_OUTPUT_BYTES).read_to_string(&mut output)?;
    }
    Ok((status, output))
}

fn read_answer(status: ExitStatus, output: &str) -> GetentAnswer {
    match status.code() {
        Some(0) => match addresses(output) {
            found if found.is_empty() => GetentAnswer::NoSuchName,
            found => GetentAnswer::Addresses(found),
        },
        Some(EXIT_NOT_FOUND) => GetentAnswer::NoSuchName,
        Some(EXIT_UNSUPPORTED) => GetentAnswer::Unsupported,
        _ => GetentAnswer::Failed(format!("getent ended with {status}")),
    }
}

/// Each address has a line for each kind of socket. A scoped address (`fe80::1%eth0`) is left out: nothing dials it.
fn addresses(output: &str) -> Vec<IpAddr> {
    let mut seen = BTreeSet::new();
    output
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .filter(|address: &IpAddr| seen.insert(*address))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program that stands in for `getent`.
    struct Script(PathBuf);

    impl Script {
        fn new(name: &str, body: &str) -> Self {
            let path = std::env::temp_dir().join(format!("egress-getent-{name}-{}", std::process::id()));
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            Self(path)
        }

        fn ask(&self, host: &str) -> GetentAnswer {
            Getent { program: self.0.clone(), deadline: Duration::from_millis(500) }.ask(host)
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            drop(std::fs::remove_file(&self.0));
        }
    }

    #[test]
    fn addresses_are_read_once_and_in_order() {
        let script = Script::new(
            "order",
            "printf '2001:db8::1 STREAM %s\\n2001:db8::1 DGRAM\\n192.0.2.7 STREAM\\nfe80::1%%eth0 STREAM\\nnonsense\\n' \"$3\"",
        );
        let expected = vec!["2001:db8::1".parse().unwrap(), "192.0.2.7".parse().unwrap()];
        assert_eq!(script.ask("api.test"), GetentAnswer::Addresses(expected));
    }

    #[test]
    fn exit_codes_are_told_apart() {
        assert_eq!(Script::new("none", "exit 2").ask("a.test"), GetentAnswer::NoSuchName);
        assert_eq!(Script::new("empty", "exit 0").ask("a.test"), GetentAnswer::NoSuchName);
        assert_eq!(Script::new("old", "exit 1").ask("a.test"), GetentAnswer::Unsupported);
        let missing = Getent { program: PathBuf::from("/nonexistent/getent"), ..Getent::default() };
        assert_eq!(missing.ask("a.test"), GetentAnswer::Unsupported);
        let broken = Script::new("broken", "exit 9").ask("a.test");
        assert!(matches!(broken, GetentAnswer::Failed(_)), "{broken:?}");
    }

    #[test]
    fn a_resolver_that_hangs_or_floods_is_killed_at_the_deadline() {
        for (name, body) in [("hangs", "exec sleep 60"), ("floods", "exec yes 192.0.2.1")] {
            let started = Instant::now();
            let answer = Script::new(name, body).ask("a.test");
            assert!(
                matches!(&answer, GetentAnswer::Failed(reason) if reason.contains("in time")),
                "{answer:?}"
            );
            assert!(started.elapsed() < Duration::from_secs(10));
        }
    }

    #[test]
    fn no_variable_of_this_process_reaches_it_and_a_name_is_never_an_option() {
        let script = Script::new(
            "env",
            "[ \"$1 $2 $3\" = 'ahosts -- --help' ] && [ -z \"$CARGO_PKG_NAME$HOME\" ] && echo 192.0.2.1",
        );
        assert!(matches!(script.ask("--help"), GetentAnswer::Addresses(_)));
    }

    #[test]
    fn the_hosts_own_getent_knows_localhost() {
        match Getent::default().ask("localhost") {
            GetentAnswer::Addresses(found) => assert!(found.iter().all(IpAddr::is_loopback), "{found:?}"),
            GetentAnswer::Unsupported => crate::skip("resolver::getent", "getent is not installed"),
            other => panic!("{other:?}"),
        }
    }
}
