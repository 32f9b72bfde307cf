//! `fullsend version`.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, Failure};
use crate::harness::names::NEWEST_VERSION;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    let version = env!("CARGO_PKG_VERSION");
    if arguments.json {
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        writeln!(
            out,
            "{}",
            json!({ "version": version, "harness_version": NEWEST_VERSION, "target": target })
        )?;
    } else {
        writeln!(out, "fullsend {version}")?;
    }
    Ok(Exit::Done)
}
