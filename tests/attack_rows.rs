//! Rows of the gate's attack table for what the program as a whole stops. A test that has shown an attack to fail says so
//! here; `.ci/run` prints the table from the files.

use std::fs;

use crate::support::{Who, root};

/// Numbers go on from those of the sandbox and the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackRow {
    OtherProgramAtGateway = 57,
    RepositoryInResults = 58,
    RepositoryChoosesDirectories = 59,
    CredentialInVariables = 60,
    TokensInLogs = 61,
    CommandsForCi = 62,
    PullRequestRules = 63,
    HostileGitConfiguration = 64,
    HostSockets = 65,
    HostLogs = 66,
    ForgedRecord = 67,
    HostMemory = 68,
    EventsWithoutEnd = 69,
}

impl AttackRow {
    fn name(self) -> &'static str {
        match self {
            Self::OtherProgramAtGateway => "another program's model",
            Self::RepositoryInResults => "a repository in the result",
            Self::RepositoryChoosesDirectories => "directories by git's files",
            Self::CredentialInVariables => "a credential by a variable",
            Self::TokensInLogs => "tokens in logs of scripts",
            Self::CommandsForCi => "commands for the CI",
            Self::PullRequestRules => "a pull request's own rules",
            Self::HostileGitConfiguration => "git's configuration",
            Self::HostSockets => "sockets of the host",
            Self::HostLogs => "the host's logs",
            Self::ForgedRecord => "a forged record",
            Self::HostMemory => "the runner's memory",
            Self::EventsWithoutEnd => "events without end",
        }
    }
}

/// There is no layer to leave out; instead each test failed before its fix.
const BIT: &str = "no switch: its test failed before the fix";

/// Notes that the attack failed for `who`.
pub fn held(row: AttackRow, who: Who) {
    let is_root = who == Who::Caller && rustix::process::geteuid().is_root();
    let who = if is_root { "root" } else { "user" };
    let number = row as u32;
    let name = row.name();
    let cells = format!("{number}\t{name}\t{who}\theld\tyes\n{number}\t{name}\t{who}\tbit\t{BIT}\n");
    let directory = root().join("target/attacks");
    // Where it cannot be written there is no row in the table.
    drop(
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(directory.join(format!("program-{number}-{who}.tsv")), cells)),
    );
}
