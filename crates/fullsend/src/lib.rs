//! fullsend as a library: one agent, one YAML file, one sandbox, and a record of what happened.
//!
//! A program loads layers into a `Library`, calls `preflight` with the name of a harness, and `run` with a `Request`.
//! `examples/library.rs` is the shortest program that does so, `tests/embedding.rs` a longer one. The events and the record of a run are in `event` and `record`. All other modules
//! are private; read `run/mod.rs` first, it is the sequence of a run.

mod acp;
mod archive;
mod backend;
mod bootstrap;
mod cancel;
mod check;
mod ci;
mod cli;
mod credentials;
mod defaults;
mod directory_cache;
mod dispatch;
pub mod event;
mod fetch;
mod forge;
mod git;
mod guard;
mod harness;
mod image;
mod inputs;
mod json_rpc;
mod lasting;
mod mcp;
mod objects;
mod preflight;
mod provision;
mod publish;
mod quarantine;
pub mod record;
mod registry;
mod remote;
mod render;
mod resolve;
mod run;
mod runtime;
mod runtimes;
mod scripts;
mod serve;
mod telemetry;
mod validate;
mod wake;
mod worker;

pub use cancel::{Cancel, CancelReason};
pub use check::Checked;
pub use check::expected_document::ExpectedDocument;
pub use cli::hidden::dispatch as run_hidden_command;
pub use cli::main;
pub use guard::confirmation::Confirmer;
pub use harness::names::ForgeName;
pub use model::Money;
pub use preflight::{PreflightContext, preflight};
pub use provision::gateway::Recording;
pub use publish::Artifacts;
pub use record::dsse::RecordSigner;
pub use resolve::layers::{Layer, LayerKind, Layers};
pub use resolve::library::Library;
pub use resolve::variables::Strictness;
pub use resolve::{Choices, Resolved, resolve};
pub use run::extra_files::ExtraFiles;
pub use run::script_output::{OnScriptOutput, ScriptOutput};
pub use run::workspace::SaveWorkspace;
pub use run::{Outcome, Request, StartedBy, run};
pub use runtime::Conversation;
pub use runtime::state::StateFile;

/// Internals that the tests and benches of this workspace use. Not part of the API.
#[doc(hidden)]
pub mod internal {
    pub use crate::check::check;
    pub use crate::guard::{Guard, GuardSetup, hook_client, hook_server, neutral_contract};
    pub use crate::harness::config::Config;
    pub use crate::harness::provider::{Profile, Provider};
    pub use crate::harness::{ForgeBlock, Harness, frontmatter};
    pub use crate::inputs::ScannedInputs;
    pub use crate::quarantine::changes::AgentRepository;
    pub use crate::quarantine::{CollectedOutput, QuarantineError, Quarantined, collect};
    pub use crate::render::colour::paint;
    pub use crate::render::{diagnostics, github, sarif};
    pub use crate::resolve::pins::{CAPS, PINS};
    pub use crate::resolve::self_contained;
    pub use crate::runtime::native::protocol;
    pub use crate::runtime::stream;
    pub use crate::runtime::{Attempt, Ending, claude, codex, native, of};
    pub use crate::wake::memory::DIRECTORY;
    pub use crate::wake::prompt::{PromptBudget, PromptSource, assemble};
    pub use crate::wake::screen::MemoryScreen;
    pub use crate::wake::time_seed;

    pub mod git {
        pub use crate::git::{rewrite_config, tracked_count, tracked_secrets};
    }

    pub mod image {
        pub use crate::image::*;
    }

    pub mod validate {
        pub use crate::validate::*;
    }
}
