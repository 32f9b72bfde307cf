//! `runs diff` and `runs apply`: the agent's changes in the repository, to read and to take over. Only an accepted patch
//! whose digest is the recorded one is applied, by a git that reads no configuration of the repository.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};

use super::super::configuration::{ConfigurationOptions, variable};
use super::super::exit::{Exit, Failure};
use super::{Named, find, unreadable};
use crate::event::log::{self, sha256};
use crate::git::command::{self, GitCall, Transport};
use crate::record::store::StoredRun;
use crate::record::{self, files};
use crate::render::diagnostics::clean_text;
use crate::render::patch;
use crate::render::workflow_commands::{neutralise, neutralise_json};

#[derive(Args, Debug)]
pub struct DiffArguments {
    #[command(flatten)]
    run: Named,
    /// Print the names of the files and the number of lines only
    #[arg(long)]
    stat: bool,
    /// Print the patch of the last attempt that was rejected or ended early
    #[arg(long)]
    rejected: bool,
    /// Print one JSON object: the files with their numbers of lines, and the patch
    #[arg(long, conflicts_with = "stat")]
    json: bool,
}

#[derive(Args, Debug)]
pub struct ApplyArguments {
    #[command(flatten)]
    run: Named,
    /// Check whether the changes fit, and change nothing
    #[arg(long)]
    check: bool,
    /// The repository [default: the one around the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
}

pub fn diff(runs: &Path, arguments: &DiffArguments) -> Result<Exit, Failure> {
    let run = find(runs, &arguments.run.run)?;
    let found = match arguments.rejected {
        true => files::unaccepted_patch(&run.path),
        false => files::accepted_patch(&run.path),
    };
    let path = found.ok_or_else(|| no_patch(&run, arguments.rejected))?;
    let bytes = read(&path)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let text = String::from_utf8_lossy(&bytes);
        let files = patch::changed_files(&text)
            .into_iter()
            .map(|file| json!({ "file": file.path, "added": file.added, "removed": file.removed }));
        let object = json!({ "files": files.collect::<Vec<Json>>(), "patch": text });
        writeln!(out, "{}", neutralise_json(&object.to_string()))?;
    } else if arguments.stat {
        for line in patch::table(&patch::changed_files(&String::from_utf8_lossy(&bytes))) {
            writeln!(out, "{}", clean_text(&line))?;
        }
    } else if out.is_terminal() {
        let text = String::from_utf8_lossy(&bytes).replace('\t', "    ");
        write!(out, "{}", clean_text(&text))?;
    } else {
        if is_read_by_ci(&out)? && has_workflow_command(&bytes) {
            return Err(workflow_command());
        }
        // A program reads it: `git apply` needs every byte.
        out.write_all(&bytes)?;
    }
    Ok(Exit::Done)
}

/// Whether a CI reads what this command prints. It does not read files.
pub(super) fn is_read_by_ci(out: &impl AsFd) -> Result<bool, Failure> {
    let in_ci =
        ["CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"].iter().any(|name| variable(name).is_some());
    let about = rustix::fs::fstat(out).map_err(std::io::Error::from)?;
    Ok(in_ci && rustix::fs::FileType::from_raw_mode(about.st_mode) != rustix::fs::FileType::RegularFile)
}

pub(super) fn has_workflow_command(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    neutralise(&text) != text
}

fn workflow_command() -> Failure {
    Failure::new(Exit::Security, "the patch has text that this CI would take for a command")
        .help("write it to a file, `fullsend runs diff > changes.patch`, or use `fullsend runs apply`")
}

pub fn apply(runs: &Path, arguments: &ApplyArguments) -> Result<Exit, Failure> {
    let run = find(runs, &arguments.run.run)?;
    let path = files::accepted_patch(&run.path).ok_or_else(|| no_patch(&run, false))?;
    let bytes = read(&path)?;
    check_digest(&run, &path, &bytes)?;
    let place = ConfigurationOptions {
        repo: arguments.repo.clone(),
        fullsend_dir: None,
        org_dir: None,
        config_ref: None,
        forge: None,
    };
    let repository = place.repository()?;
    let failed = |why: String| {
        Failure::new(Exit::Failed, format!("cannot apply the changes to {}: {why}", repository.display()))
            .help("check out the commit that `fullsend runs show --json` names, or use `fullsend runs diff | git apply --3way`")
    };
    let own = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    command::init(own.path()).map_err(|error| failed(error.to_string()))?;
    let git_directory = &own.path().join(".git");
    let mut words = vec!["apply", "--whitespace=nowarn"];
    words.extend(arguments.check.then_some("--check"));
    let call = GitCall {
        git_directory,
        directory: &repository,
        arguments: &words,
        input: &bytes,
        transport: Transport::None,
    };
    let applied = command::run(&call).and_then(|ended| ended.succeeded("apply"));
    applied.map_err(|error| failed(error.to_string()))?;
    for line in patch::table(&patch::changed_files(&String::from_utf8_lossy(&bytes))) {
        super::super::write_stderr(&format!("{}\n", clean_text(&line)));
    }
    let done = if arguments.check { "the changes fit" } else { "applied; nothing is committed" };
    super::super::write_stderr(&format!("{done}\n"));
    Ok(Exit::Done)
}

/// The patch must be the one that was accepted.
fn check_digest(run: &StoredRun, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let events = log::read(&run.log()).map_err(|error| unreadable(&error))?;
    let below = path.strip_prefix(&run.path).unwrap_or(path).to_string_lossy();
    let recorded = record::fold(&events).artifacts.into_iter().find(|artifact| artifact.path == below);
    match recorded {
        Some(artifact) if artifact.sha256 == sha256(bytes) => Ok(()),
        _ => {
            Err(Failure::new(Exit::Failed, format!("{} is not the patch that was accepted", path.display()))
                .help("`fullsend runs verify` lists what was changed"))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot read {}: {error}", path.display())))
}

fn no_patch(run: &StoredRun, rejected: bool) -> Failure {
    let (kind, other) = match rejected {
        true => ("rejected", files::accepted_patch(&run.path).map(|_| "without --rejected")),
        false => ("accepted", files::unaccepted_patch(&run.path).map(|_| "with --rejected")),
    };
    let failure = Failure::new(Exit::Missing, format!("the run {} has no {kind} changes", run.id));
    match other {
        Some(how) => failure.help(format!("it has others: `fullsend runs diff {how}` shows them")),
        None => failure.help("`fullsend runs show` shows what the run did"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_line_can_be_a_command() {
        for patch in ["+a\n ::add-mask::x\n", "+a ##[error]x\n", "+a\r::error::q\n", "--- a/##vso[x]\n"] {
            assert!(has_workflow_command(patch.as_bytes()), "{patch:?}");
        }
        for patch in ["+::add-mask::x\n", "-::x\n+a::b\n", " use a::b;\n"] {
            assert!(!has_workflow_command(patch.as_bytes()), "{patch:?}");
        }
    }
}
