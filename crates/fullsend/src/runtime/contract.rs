//! What every runtime provides, as data and functions. The launch, the matrix, the check of options and `fullsend
//! runtimes` read it from here; a runtime's folder fills it in.

use model::wire::Wire;
use sandbox::Mount;
use yaml::{Diagnostic, Span};

use super::attempt::{Attempt, RuntimeError};
use super::launch::{AttemptRequest, LaunchContext, LaunchSpec};
use super::package::Package;
use super::programs::{self, Program, ProgramError, ProgramSearch};
use crate::check::Checked;
use crate::event::log::Emitter;
use crate::guard::dialect::{EVERY_TOOL, HookDialect};
use crate::harness::Harness;
use crate::harness::names::RuntimeName;

/// One runtime.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    pub name: RuntimeName,
    /// Its program; `None`: this program itself.
    pub program: Option<Package>,
    /// Whether this harness uses that program, and not one that it names itself.
    pub uses_program: fn(&Harness) -> bool,
    /// The wire formats that it uses.
    pub wires: &'static [Wire],
    /// Families of models that it uses for side tasks, beside the run's model.
    pub side_models: &'static [&'static str],
    /// Its configuration and state, inside.
    pub config_directory: &'static str,
    /// The file at a repository's root that it reads instructions from.
    pub instruction_file: &'static str,
    /// The hooks that a launch installs, all with one command, under the runtime's own names.
    pub hooks: &'static [(Hook, &'static str)],
    pub dialect: &'static HookDialect,
    /// Whether its hooks also work from a file outside `/etc`. A sandbox on an OpenShell gateway cannot write to
    /// `/etc`.
    pub movable_hooks: bool,
    /// Whether the runtime stops a call whose hook dies or hangs. If not, the model gateway stops the run.
    pub dead_hook_blocks: bool,
    /// Whether a hook can change what the model sees of a result. If not, the model gateway does.
    pub hook_rewrites: bool,
    /// The log that it leaves beside its transcript.
    pub debug_log: Option<&'static str>,
    pub has_plugins: bool,
    /// The options of a harness or an agent that it does not support.
    pub refused_options: fn(&Checked) -> Vec<RefusedOption>,
    /// Options that it honours only in part: one warning each.
    pub limited_options: fn(&Checked) -> Vec<Diagnostic>,
    /// Variables that would send its requests past the model gateway. A launch clears them.
    pub model_variables: &'static [&'static str],
    /// The one of these variables that a launch honours: it selects the format of the provider's own service, which the
    /// gateway speaks too.
    pub kept_variable: fn(&Checked) -> Option<&'static str>,
    /// Files that must be in the sandbox from its start.
    pub mounts: fn(&LaunchSpec<'_>) -> std::io::Result<Vec<Mount>>,
    /// Runs the agent once.
    pub attempt: fn(&LaunchContext<'_>, &AttemptRequest, &Emitter) -> Result<Attempt, RuntimeError>,
    pub init: InitFiles,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Start,
    Before,
    After,
    AfterFailure,
}

/// An option that a runtime cannot honour, and what to write instead. Without a place, it is the agent's first line.
#[derive(Clone, Debug)]
pub struct RefusedOption {
    pub at: Option<Span>,
    pub option: String,
    pub instead: String,
}

/// What `fullsend init` writes for it.
#[derive(Clone, Copy, Debug)]
pub struct InitFiles {
    /// The provider that serves the model.
    pub provider: &'static str,
    /// Whether an agent may list its tools.
    pub lists_tools: bool,
}

/// The names of the hooks to install, each once.
pub fn hook_names(hooks: &[(Hook, &'static str)]) -> Vec<&'static str> {
    let mut names: Vec<&str> = hooks.iter().map(|(_, name)| *name).collect();
    names.dedup();
    names
}

impl Runtime {
    /// Whether one of our hooks runs at that moment.
    pub fn hooked(&self, moment: Hook) -> bool {
        self.hooks.iter().any(|(hook, _)| *hook == moment)
    }

    /// Tools that it runs without asking its hooks; the model gateway judges them.
    pub fn tools_without_hooks(&self) -> &'static [&'static str] {
        self.dialect.quirks.tools_without_hooks
    }

    /// Whether it has no hooks, so that the model gateway judges every call and cleans every result.
    pub fn is_judged_at_gateway(&self) -> bool {
        self.tools_without_hooks() == EVERY_TOOL
    }

    /// The program that this harness needs. `None`: this program itself, or one that the harness names.
    pub fn package(&'static self, harness: &Harness) -> Option<&'static Package> {
        self.program.as_ref().filter(|_| (self.uses_program)(harness))
    }

    /// The same on the host.
    pub fn find_package(
        &'static self,
        harness: &Harness,
        search: &ProgramSearch,
    ) -> Result<Option<Program>, ProgramError> {
        self.package(harness).map(|package| programs::find(self.name, package, search)).transpose()
    }

    /// Its program on the host. `None`: it is this program itself.
    pub fn find_program(&'static self, search: &ProgramSearch) -> Result<Option<Program>, ProgramError> {
        self.program.as_ref().map(|package| programs::find(self.name, package, search)).transpose()
    }
}
