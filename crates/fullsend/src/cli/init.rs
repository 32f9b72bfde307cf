//! `fullsend init`: a working `.fullsend` directory with one harness that `check` accepts. What is there already stays
//! as it is.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, Failure};
use crate::check::codeowners;
use crate::defaults;
use crate::harness::names::RuntimeName;
use crate::render::schema;
use crate::runtime;

#[derive(Args, Debug)]
pub struct Arguments {
    /// The runtime: native, claude or codex
    #[arg(long, default_value = "native", value_parser = parse_runtime)]
    runtime: RuntimeName,
    /// The owner who must approve changes to .fullsend, such as @acme/platform
    #[arg(long, value_name = "@OWNER")]
    owner: Option<String>,
    /// The repository [default: the one around the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub(super) fn parse_runtime(word: &str) -> Result<RuntimeName, String> {
    RuntimeName::parse(word).ok_or_else(|| format!("one of {}", RuntimeName::WORDS.join(", ")))
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let place = super::configuration::ConfigurationOptions {
        repo: arguments.repo.clone(),
        org_dir: None,
        config_ref: Some("worktree".to_owned()),
        forge: None,
    };
    let repository = place.repository()?;
    let layer = repository.join(".fullsend");
    let mut out = std::io::stdout().lock();
    for (name, text) in files(arguments.runtime) {
        let path = layer.join(name);
        let said = if write_new(&path, &text)? { "wrote" } else { "kept " };
        writeln!(out, "{said} .fullsend/{name}")?;
    }
    writeln!(out, "{}", own(&repository, arguments.owner.as_deref())?)?;
    super::talk(
        "\nNext: `fullsend check`, then `fullsend explain assess`, then set the model's key and `fullsend run assess`.\n",
    );
    Ok(Exit::Done)
}

/// Path below `.fullsend`, and the text.
fn files(runtime: RuntimeName) -> Vec<(&'static str, String)> {
    let init = runtime::of(runtime).init;
    let is_listed = |line: &&str| init.lists_tools || !line.starts_with("tools:");
    vec![
        (
            "harness/assess.yaml",
            defaults::INIT_HARNESS.replace("runtime: native", &format!("runtime: {runtime}")),
        ),
        ("agents/assess.md", defaults::INIT_AGENT.split_inclusive('\n').filter(is_listed).collect()),
        ("schemas/assess.json", defaults::INIT_SCHEMA.to_owned()),
        ("policies/assess.yaml", defaults::INIT_POLICY.to_owned()),
        ("providers/model.yaml", init.provider.to_owned()),
        (".editor/harness.schema.json", format!("{:#}\n", schema::harness())),
    ]
}

/// Writes the file unless there is one.
fn write_new(path: &Path, text: &str) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    match std::fs::File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Adds the line to CODEOWNERS, and says what was done.
fn own(repository: &Path, owner: Option<&str>) -> Result<String, Failure> {
    let there = codeowners::PLACES.iter().find(|place| repository.join(place).is_file());
    if there.is_some() && codeowners::without_owner(repository).is_empty() {
        return Ok("kept  CODEOWNERS: .fullsend has an owner".to_owned());
    }
    let Some(owner) = owner else {
        // The owner of the remote may be an organisation, which cannot own files; its teams can.
        let whose = super::configuration::remote_owner(repository).unwrap_or_else(|| "your-org".to_owned());
        return Ok(format!(
            "left  CODEOWNERS: .fullsend has no owner; run init again with --owner @{whose}/TEAM, or with your own name"
        ));
    };
    let place = there.unwrap_or(&"CODEOWNERS");
    let path = repository.join(place);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let comment = "# What decides about agents is changed only with its owners.";
    let line = format!("{before}{gap}{comment}\n/.fullsend/ {owner}\n");
    std::fs::write(&path, line)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display())))?;
    Ok(format!("wrote {place}: /.fullsend/ {owner}"))
}
