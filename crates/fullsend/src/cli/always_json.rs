//! `--json` for commands that print JSON in any case, so that one option works everywhere.

use clap::Args;

#[derive(Args, Debug, Clone, Copy)]
pub struct AlwaysJson {
    /// Accepted: this command prints JSON in any case
    #[arg(long)]
    json: bool,
}
