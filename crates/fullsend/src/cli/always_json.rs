//! `--json` for commands that print JSON in any case, so that one option works everywhere.

use clap::Args;

#[derive(Args, Debug, Clone, Copy)]
pub struct AlwaysJson {
    /// No effect: this command always prints JSON
    #[arg(long)]
    json: bool,
}
