//! `fullsend sandbox create|exec|put|get|list|show|logs|rm|serve`: a sandbox that many commands use.

mod create;
mod exec;
mod files;
mod inspect;
mod serve;
mod serve_parameters;

use std::path::PathBuf;

use clap::Subcommand;

use super::exit::{Exit, Failure};
use super::sandbox_options::failed;
use crate::lasting::client::{SandboxClient, SandboxClientError};
use crate::lasting::directory::{LASTING, LastingDirectory, LastingError, LastingSandbox};

#[derive(Debug, Subcommand)]
pub enum LastingCommand {
    /// Create a sandbox that lasts, and print its id
    #[command(
        after_help = "Example:\n  fullsend sandbox create --name build --repo . --ttl 2h\n\nThe sandbox ends when it is removed, after its \
                      time to live, or with the process that --parent names."
    )]
    Create(create::Arguments),
    /// Run a command in a lasting sandbox and exit with its exit code, or with 8 if it did not start
    #[command(
        after_help = "Example:\n  fullsend sandbox exec build --timeout 5m -- make test\n\nWithout --stdin the command reads nothing. When this \
                      program ends, the command is killed with everything that it started."
    )]
    Exec(exec::Arguments),
    /// Put a file or a directory into a lasting sandbox
    #[command(after_help = "Example:\n  fullsend sandbox put build ./data /sandbox/workspace/data")]
    Put(files::PutArguments),
    /// Get a file or a directory out of a lasting sandbox
    #[command(after_help = "Example:\n  fullsend sandbox get build report.json ./report.json")]
    Get(files::GetArguments),
    /// List the lasting sandboxes
    #[command(after_help = "Example:\n  fullsend sandbox list --all")]
    List(inspect::ListArguments),
    /// Show a lasting sandbox as JSON
    #[command(after_help = "Example:\n  fullsend sandbox show build")]
    Show(inspect::OneArgument),
    /// Print the record of a lasting sandbox: commands, files, connections, and why it ended
    #[command(after_help = "Example:\n  fullsend sandbox logs build")]
    Logs(inspect::OneArgument),
    /// Remove a lasting sandbox; its record stays for a week
    #[command(after_help = "Example:\n  fullsend sandbox rm build")]
    Rm(inspect::RemoveArguments),
    /// Serve lasting sandboxes to another program, as JSON-RPC on the standard streams
    #[command(
        after_help = "Example:\n  fullsend sandbox serve --stdio\n\nThe sandboxes that it creates end with it. docs/sandbox.md describes the \
                      protocol."
    )]
    Serve(serve::Arguments),
}

pub fn run(which: &LastingCommand) -> Result<u8, Failure> {
    match which {
        LastingCommand::Create(arguments) => create::run(arguments).map(Exit::code),
        LastingCommand::Exec(arguments) => exec::run(arguments),
        LastingCommand::Put(arguments) => files::put(arguments).map(Exit::code),
        LastingCommand::Get(arguments) => files::get(arguments).map(Exit::code),
        LastingCommand::List(arguments) => inspect::list(arguments).map(Exit::code),
        LastingCommand::Show(arguments) => inspect::show(arguments).map(Exit::code),
        LastingCommand::Logs(arguments) => inspect::logs(arguments).map(Exit::code),
        LastingCommand::Rm(arguments) => inspect::remove(arguments).map(Exit::code),
        LastingCommand::Serve(arguments) => serve::run(arguments).map(Exit::code),
    }
}

/// Beside the runs of this user.
fn root() -> Result<PathBuf, Failure> {
    Ok(super::run::runs_directory()?.with_file_name(LASTING))
}

fn find(name: &str) -> Result<LastingSandbox, Failure> {
    let found = LastingDirectory::open(&root()?).and_then(|all| all.find(name));
    found.map_err(|error| not_found(&error))
}

fn not_found(error: &LastingError) -> Failure {
    failed(error.to_string())
}

fn client(name: &str) -> Result<SandboxClient, Failure> {
    SandboxClient::open(&find(name)?).map_err(|error| refused(&error))
}

fn refused(error: &SandboxClientError) -> Failure {
    failed(error.to_string())
}

/// `90s`, `30m`, `2h`, `7d`; a bare number is seconds.
fn parse_seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a duration; write 90s, 30m, 2h or 7d");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let factor = match &text[end..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("7d", 604_800)] {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
        for text in ["", "h", "0", "1w", "-1", "1.5h", "99999999999999999999d"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
