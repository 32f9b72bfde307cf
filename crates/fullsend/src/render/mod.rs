//! How things look to people and to other programs. Nothing here decides anything.

pub mod actions;
pub mod console;
pub mod diagnostics;
pub mod dry_run;
mod excerpt;
pub mod findings;
pub mod github;
pub mod live;
mod refusal;
pub mod report;
pub mod sarif;
pub mod schema;
