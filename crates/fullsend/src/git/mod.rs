//! Everything about git on the host: its files as we read them, the one way to start its program, and the mounts that
//! show a repository in a sandbox. An attacker may have written git's files, so nothing in them is trusted or run.

pub mod checkout;
pub(crate) mod command;
mod config;
pub(crate) mod directory;
pub(crate) mod head;
mod index;
mod indirection;
mod reader;
pub(crate) mod recognised;
mod repository;
mod secret_files;
mod small_file;

pub use command::GitError;
pub use config::rewrite as rewrite_config;
pub use index::{tracked_count, tracked_secrets};
pub use reader::RepositoryReader;
pub use repository::Repository;
pub use secret_files::looks_secret;
pub use small_file::RepositoryError;
