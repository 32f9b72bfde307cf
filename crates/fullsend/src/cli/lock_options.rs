//! Whether a command uses only what the lock file lists.

use clap::Args;

use crate::resolve::Choices;

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LockOptions {
    /// Use only the remote resources and images in fullsend.lock, with these digests
    #[arg(long)]
    locked: bool,
}

impl LockOptions {
    pub fn choose(&self, choices: &mut Choices) {
        choices.is_locked = self.locked;
    }
}
