//! Whether a command uses only what the lock file has.

use clap::Args;

use crate::resolve::Choices;

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LockOptions {
    /// Use only the remote resources and images that fullsend.lock has, and only as it has them
    #[arg(long)]
    locked: bool,
}

impl LockOptions {
    pub fn choose(&self, choices: &mut Choices) {
        choices.is_locked = self.locked;
    }
}
