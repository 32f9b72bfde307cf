//! `fullsend sandbox create`: starts the owner of a new sandbox and prints its id.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use yaml::Sources;

use super::super::exit::{Exit, Failure};
use super::super::pull_options::PullOptions;
use super::super::sandbox_options::{check_policy, failed, image_and_cache, policy_text};
use crate::lasting::create::{CreateRequest, create};
use crate::lasting::protocol::LastingLimits;

#[derive(Args, Debug, Default)]
pub struct Arguments {
    /// The policy: what commands may read, write and reach [default: the built-in policy, which reaches nothing]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// An image in a registry, an OCI layout directory or an archive to use as the root [default: the host's programs]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    #[command(flatten)]
    pub pull: PullOptions,
    /// Show a copy-on-write view of this directory; commands start there [default: an empty workspace]
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Give the sandbox a name, which other commands accept like its id
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// End the sandbox after this time, such as 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::parse_seconds)]
    pub ttl: u64,
    /// End the sandbox when this process ends
    #[arg(long, value_name = "PID")]
    pub parent: Option<u32>,
    /// Limit the memory of the whole sandbox, in MiB
    #[arg(long, value_name = "MIB", default_value_t = LastingLimits::default().memory_mb)]
    pub memory_mb: u64,
    /// Allow at most this many processes and threads
    #[arg(long, value_name = "COUNT", default_value_t = LastingLimits::default().pids)]
    pub pids: u64,
    /// Let the sandbox write at most this much, in MiB
    #[arg(long, value_name = "MIB", default_value_t = LastingLimits::default().disk_mb)]
    pub disk_mb: u64,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let id = create_from(arguments, None)?;
    writeln!(std::io::stdout(), "{id}")?;
    Ok(Exit::Done)
}

/// Creates a sandbox; `policy` is the text of a policy in place of a file.
pub fn create_from(arguments: &Arguments, policy: Option<String>) -> Result<String, Failure> {
    let policy = match policy {
        Some(text) => ("policy".to_owned(), text),
        None => policy_text(arguments.policy.as_deref())?,
    };
    if let Some(name) = &arguments.name {
        check_name(name)?;
    }
    check_policy(policy.clone(), &mut Sources::default())?;
    let image = arguments.image.as_deref().map(|name| image_and_cache(name, &arguments.pull));
    let image = image.transpose()?;
    let real = |path: &PathBuf| {
        path.canonicalize().map_err(|error| failed(format!("cannot use {}: {error}", path.display())))
    };
    let image = image.map(|(path, cache)| Ok::<_, Failure>((real(&path)?, cache))).transpose()?;
    let repository = arguments.repo.as_ref().map(real).transpose()?;
    let limits = LastingLimits {
        memory_mb: arguments.memory_mb,
        pids: arguments.pids,
        disk_mb: arguments.disk_mb,
        ..LastingLimits::default()
    };
    let (policy_name, policy_text) = policy;
    let request = CreateRequest {
        name: arguments.name.clone(),
        policy_name,
        policy_text,
        image,
        repository,
        ttl_seconds: arguments.ttl,
        parent: arguments.parent,
        limits,
    };
    create(&super::root()?, request).map_err(|error| failed(error.to_string()))
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(failed(format!("`{name}` is not a valid name: use up to 64 letters, digits, `.`, `_` and `-`")))
}
