//! `fullsend version`, `--version` and `-V`.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, Failure};
use crate::harness::names::NEWEST_VERSION;

/// The commit that `packaging/build` built.
const COMMIT: &str = match option_env!("FULLSEND_COMMIT") {
    Some(commit) => commit,
    None => "unreleased",
};

#[derive(Args, Debug, Default)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The target that this binary was built for.
fn target() -> String {
    let environment = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-{}-{environment}", std::env::consts::ARCH, std::env::consts::OS)
}

/// `fullsend 0.1.0 (1a2b3c4d5e6f, x86_64-unknown-linux-gnu)`.
pub fn line() -> String {
    format!("fullsend {} ({COMMIT}, {})", env!("CARGO_PKG_VERSION"), target())
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let version = env!("CARGO_PKG_VERSION");
        let about = json!({
            "version": version, "commit": COMMIT, "harness_version": NEWEST_VERSION, "target": target(),
        });
        writeln!(out, "{about}")?;
    } else {
        writeln!(out, "{}", line())?;
    }
    Ok(Exit::Done)
}
