//! The runtimes: one folder each, behind one contract (`contract.rs`). A runtime says what it needs inside, starts its
//! agent there, turns its stream into events and returns an `Attempt`. Nothing here makes a sandbox or judges output.

pub(crate) mod attempt;
pub(crate) mod contract;
pub(crate) mod default_model;
pub(crate) mod executable;
pub(crate) mod install;
pub(crate) mod launch;
pub(crate) mod matrix;
mod mcp;
pub(crate) mod options;
mod output;
pub(crate) mod package;
pub(crate) mod paths;
mod process;
pub(crate) mod programs;
pub(crate) mod prompt;
mod schema;
mod skills;
pub(crate) mod state;
pub mod stream;

use sandbox::Mount;
use yaml::Diagnostic;

use crate::check::Checked;
use crate::event::log::Emitter;
use crate::harness::names::RuntimeName;
pub use attempt::{Attempt, Conversation, Ending, RuntimeError, keep_logs, past_calls, review_logs};
use contract::Runtime;
pub use launch::{AttemptRequest, LaunchContext, LaunchSpec};

macro_rules! use_folders {
    ($($name:ident = $word:literal in $folder:ident,)+) => {
        $(pub mod $folder;)+

        /// Every runtime, in the order of the table in `runtimes.rs`.
        pub const ALL: &[&Runtime] = &[$(&$folder::RUNTIME),+];

        pub fn of(name: RuntimeName) -> &'static Runtime {
            match name { $(RuntimeName::$name => &$folder::RUNTIME),+ }
        }
    };
}
crate::runtimes::runtimes!(use_folders);

fn chosen(checked: &Checked) -> &'static Runtime {
    of(checked.resolved.harness.runtime.value)
}

/// What must be in the sandbox from its start, beside the agent and its skills.
pub fn mounts(spec: &LaunchSpec<'_>) -> std::io::Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    if let Some(program) = spec.program {
        let kind = sandbox::MountKind::ReadOnly { source: program.directory.clone() };
        mounts.push(Mount { target: paths::RUNTIME_PROGRAM.into(), kind });
    }
    mounts.extend((chosen(spec.inputs.checked()).mounts)(spec)?);
    Ok(mounts)
}

/// Runs the agent once.
pub fn attempt(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    emit: &Emitter,
) -> Result<Attempt, RuntimeError> {
    (chosen(context.inputs.checked()).attempt)(context, request, emit)
}

/// One error for each option that the chosen runtime would have to ignore.
pub fn refused_options(checked: &Checked) -> Vec<Diagnostic> {
    options::refused(checked, chosen(checked))
}
