//! Where a command runs. In a sandbox of ours the repository is a copy-on-write view and the network a namespace of its own:
//! what a command deletes there is deleted only from the copy.

/// Where the judged commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// On a person's machine, or unknown.
    #[default]
    None,
    /// In a sandbox that is removed after the run.
    Sandbox,
}
