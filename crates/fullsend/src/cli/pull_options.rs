//! When images in registries are pulled, and pulling one for a command that is not a run.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::configuration::{ConfigurationOptions, variable};
use super::exit::{Exit, Failure};
use crate::cancel::Cancel;
use crate::harness::image::{ImageName, PullMode};
use crate::registry::{self, PullError, PullProgress, PullSettings};
use crate::render::console::pulled;
use crate::resolve;

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct PullOptions {
    /// Pull an image from its registry always, only if the cache does not have it, or never [default: missing]
    #[arg(long, value_enum, value_name = "WHEN")]
    pull: Option<PullWhen>,
    /// Use only the cache and ask no server; the same as `--pull never`
    #[arg(long, conflicts_with = "pull")]
    offline: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PullWhen {
    Always,
    Missing,
    Never,
}

impl PullOptions {
    /// The same, but ask the registry every time unless the caller chooses otherwise.
    pub fn or_always(self) -> Self {
        let pull = self.pull.or((!self.offline).then_some(PullWhen::Always));
        Self { pull, ..self }
    }

    pub fn mode(&self) -> PullMode {
        match self.pull {
            _ if self.offline => PullMode::Never,
            Some(PullWhen::Always) => PullMode::Always,
            Some(PullWhen::Never) => PullMode::Never,
            Some(PullWhen::Missing) | None => PullMode::Missing,
        }
    }
}

/// Where pulled images are kept.
pub fn store_directory() -> Result<PathBuf, Failure> {
    registry::store_directory(&variable)
        .ok_or_else(|| Failure::new(Exit::Missing, "neither XDG_CACHE_HOME nor HOME is set"))
}

/// The layout of an image, under the rules of the configuration around the current directory.
pub fn pull_image(
    name: &ImageName,
    pull: &PullOptions,
    place: &ConfigurationOptions,
) -> Result<PathBuf, Failure> {
    let mut opened = place.open()?;
    let mut problems = Vec::new();
    let settings = resolve::image_settings(&mut opened.library, &mut problems);
    if let Some(problem) = problems.iter().find(|problem| problem.is_error()) {
        return Err(Failure::new(Exit::Invalid, problem.message.clone()).help("run `fullsend check`"));
    }
    let store = store_directory()?;
    let around = PullSettings { settings: settings.as_ref(), mode: pull.mode(), store: &store };
    let show = |progress: PullProgress| {
        let much = pulled(progress.bytes, progress.total_bytes);
        super::write_stderr(&format!("{name}: {much}\n"));
    };
    registry::fetch(name, &around, &variable, &Cancel::default(), &show).map_err(|error| failure(&error))
}

fn failure(error: &PullError) -> Failure {
    let exit = match error {
        PullError::Refused { .. } => Exit::Security,
        PullError::NotAllowed { .. } | PullError::Unusable { .. } => Exit::Invalid,
        PullError::Cancelled { .. } => Exit::Interrupted,
        PullError::NotCached { .. }
        | PullError::Unreachable { .. }
        | PullError::Answered { .. }
        | PullError::Login { .. }
        | PullError::Store { .. } => Exit::Missing,
    };
    Failure::new(exit, error.to_string())
}
