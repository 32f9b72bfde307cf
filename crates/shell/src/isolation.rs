//! Where a command runs. In a sandbox of ours the repository is a copy-on-write view and the network a namespace of its own:
//! what a command deletes there is gone from the copy alone.

/// Where the commands run that are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// On somebody's machine, or nobody knows where.
    #[default]
    None,
    /// In a sandbox that is thrown away after the run.
    Sandbox,
}
