//! `fullsend init --ci`: a pipeline that runs the harness, for people to read and change.

use std::path::Path;

use clap::ValueEnum;

use super::{WrittenFile, write_new};
use crate::cli::exit::Failure;
use crate::defaults;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Forge {
    Github,
    Gitlab,
}

/// Writes the pipeline for a harness whose model needs this variable.
pub fn write(repository: &Path, forge: Forge, variable: &str) -> Result<Vec<WrittenFile>, Failure> {
    let (path, template) = match forge {
        Forge::Github => (".github/workflows/fullsend.yml", defaults::INIT_CI_GITHUB),
        Forge::Gitlab => (".gitlab/fullsend.yml", defaults::INIT_CI_GITLAB),
    };
    let text = template.replace("MODEL_KEY", variable);
    let mut written = vec![write_new(repository, path, &text)?];
    if forge == Forge::Gitlab {
        written.push(write_new(repository, ".gitlab-ci.yml", "include:\n  - local: .gitlab/fullsend.yml\n")?);
    }
    Ok(written)
}
