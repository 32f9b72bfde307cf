//! How things look to people and to other programs. Nothing here decides anything.

pub mod actions;
pub mod console;
pub mod diagnostics;
mod excerpt;
pub mod findings;
pub mod github;
pub mod live;
pub mod dry_run;
pub mod sarif;
pub mod schema;
pub mod report;
