//! `export` and `import`: a session as one file, to move it between stores and machines. The file holds the log, memory,
//! learnings and the redacted transcripts of its runs. It holds no lease and no program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::super::configuration::{ConfigurationOptions, remote_owner};
use super::super::exit::{Exit, Failure};
use super::super::run::runs_directory;
use super::super::write_stderr;
use super::default_store::state_directory;
use super::repository::repository_id;
use super::store::{SessionOptions, StoreOptions, failure, time_seed};
use crate::git::recognised::is_dot_git;
use crate::render::diagnostics::clean_text;
use crate::wake::run_bundle;
use session::{Attachment, ImportTerms, ImportedSession, PAGE_LIMIT, Payload, Seq, SessionId, Sessions};

/// Limits on the transcripts of one session.
const MAX_FILES: usize = 10_000;
const MAX_FILE_BYTES: u64 = 8 << 20;
const MAX_BYTES: u64 = 128 << 20;

#[derive(Args, Debug)]
pub struct Export {
    #[command(flatten)]
    pub(super) session: SessionOptions,
    /// Write this file; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Take transcripts from this directory of runs [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Terminate the session here, so that only the exported copy continues
    #[arg(long)]
    freeze: bool,
    /// Print JSON about the written file
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct Import {
    /// Read this file; `-` is standard input
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Accept the resource with this id, which mounts a path of this host; can be repeated
    #[arg(long, value_name = "ID")]
    accept_resource: Vec<String>,
    /// Accept the environment of the bundle
    #[arg(long)]
    accept_environment: bool,
    /// Accept confirmations of tool calls that people gave where the session was exported
    #[arg(long)]
    accept_answers: bool,
    #[command(flatten)]
    configuration: ConfigurationOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreOptions,
}

impl Export {
    pub(super) fn is_standard_output(&self) -> bool {
        self.output == Path::new("-")
    }
}

pub fn export(arguments: &Export) -> Result<Exit, Failure> {
    write_bundle(arguments, arguments.freeze)
}

/// Exports a session and terminates it, even if the options do not ask for it.
pub fn export_frozen(arguments: &Export) -> Result<Exit, Failure> {
    write_bundle(arguments, true)
}

fn write_bundle(arguments: &Export, is_frozen: bool) -> Result<Exit, Failure> {
    let (mut sessions, id) = arguments.session.open()?;
    let runs = arguments.runs.clone().map_or_else(runs_directory, Ok)?;
    let mut transcripts = all_transcripts(&mut sessions, id, &runs)?.into_iter();
    let count = transcripts.len();
    if arguments.is_standard_output() {
        let mut out = std::io::stdout().lock();
        let head = sessions.export(id, &mut transcripts, &mut out).map_err(failure)?;
        out.flush()?;
        return freeze(&mut sessions, id, head, is_frozen);
    }
    write_file(&mut sessions, id, &mut transcripts, &arguments.output, is_frozen)?;
    if arguments.json {
        let line = json!({ "id": id, "file": arguments.output, "transcripts": count });
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    Ok(Exit::Done)
}

/// Writes the bundle of a session to a file, and terminates the session if it is frozen.
fn write_file(
    sessions: &mut Sessions,
    id: SessionId,
    transcripts: &mut dyn Iterator<Item = Attachment>,
    output: &Path,
    is_frozen: bool,
) -> Result<(), Failure> {
    // Write a temporary file first: a file with the final name is complete.
    let unfinished = output.with_extension("part");
    let wrong = |error: std::io::Error| {
        Failure::new(Exit::Missing, format!("cannot write {}: {error}", output.display()))
    };
    let mut file = BufWriter::new(File::create(&unfinished).map_err(wrong)?);
    let head = sessions.export(id, transcripts, &mut file).map_err(failure)?;
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(wrong)?;
    // Freeze first: a file with the final name is then the only copy that goes on.
    if let Err(error) = freeze(sessions, id, head, is_frozen) {
        drop(std::fs::remove_file(&unfinished));
        return Err(error);
    }
    std::fs::rename(&unfinished, output).map_err(wrong)?;
    Ok(())
}

/// Exports a session with the transcripts of its runs to a file.
pub fn export_to(
    sessions: &mut Sessions,
    id: SessionId,
    runs: &Path,
    output: &Path,
    is_frozen: bool,
) -> Result<(), Failure> {
    let transcripts = all_transcripts(sessions, id, runs)?;
    write_file(sessions, id, &mut transcripts.into_iter(), output, is_frozen)
}

pub fn import(arguments: &Import) -> Result<Exit, Failure> {
    let mut sessions = arguments.store.of(&arguments.configuration).open()?;
    let terms = ImportTerms {
        resources: arguments.accept_resource.clone(),
        environment: arguments.accept_environment,
        answers: arguments.accept_answers,
        ..import_terms(&arguments.configuration)?
    };
    let imported = if arguments.input == Path::new("-") {
        sessions.import(&mut std::io::stdin().lock(), &terms)
    } else {
        let file = File::open(&arguments.input).map_err(|error| {
            Failure::new(Exit::Missing, format!("cannot read {}: {error}", arguments.input.display()))
        })?;
        sessions.import(&mut BufReader::new(file), &terms)
    };
    let ImportedSession { session, attachments, left_out } = imported.map_err(failure)?;
    for what in &left_out {
        write_stderr(&format!("left out: {}\n", clean_text(what)));
    }
    if !left_out.is_empty() {
        write_stderr(
            "accept a resource with --accept-resource and an environment with --accept-environment\n",
        );
    }
    let id = session.header.id;
    save_imported(id, &attachments)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let line = json!({ "id": id, "status": session.state.status, "head": session.state.head });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{id} {} ({} events)", session.state.status, session.state.head.0)?;
    }
    Ok(Exit::Done)
}

/// An imported session belongs to this repository. It brings no environment, no resources and no answers.
pub fn import_terms(configuration: &ConfigurationOptions) -> Result<ImportTerms, Failure> {
    let repository = configuration.repository()?;
    Ok(ImportTerms {
        repository: Some(repository_id(&repository)),
        organisation: remote_owner(&repository),
        resources: Vec::new(),
        environment: false,
        answers: false,
    })
}

fn freeze(sessions: &mut Sessions, id: SessionId, head: Seq, wanted: bool) -> Result<Exit, Failure> {
    if wanted {
        let mut seed = time_seed(sessions)?;
        sessions.freeze(id, head, &mut seed).map_err(failure)?;
    }
    Ok(Exit::Done)
}

/// The ids of the runs in the log.
fn runs_of(sessions: &mut Sessions, id: SessionId) -> Result<Vec<String>, Failure> {
    let mut runs = Vec::new();
    let mut after = Seq(0);
    loop {
        let page = sessions.events(id, after, PAGE_LIMIT).map_err(failure)?;
        let Some(last) = page.last() else { return Ok(runs) };
        after = last.seq;
        for event in &page {
            if let Payload::RunAttached { run_id, .. } = &event.payload
                && runs.last() != Some(run_id)
            {
                runs.push(run_id.clone());
            }
        }
    }
}

/// The transcripts of the session's runs, from this machine or from the bundles that other workers stored.
fn all_transcripts(sessions: &mut Sessions, id: SessionId, runs: &Path) -> Result<Vec<Attachment>, Failure> {
    let mut attached = runs_of(sessions, id)?;
    let mut found = transcripts(runs, &attached);
    attached.retain(|run| !found.iter().any(|file| file.name.starts_with(&format!("runs/{run}/"))));
    let fetched = tempfile::tempdir()
        .map_err(|error| Failure::new(Exit::Missing, format!("no temporary directory: {error}")))?;
    for run in &attached {
        run_bundle::fetch(sessions, id, run, fetched.path()).map_err(failure)?;
    }
    found.extend(transcripts(fetched.path(), &attached));
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The redacted transcripts of the runs that still exist.
fn transcripts(runs: &Path, ids: &[String]) -> Vec<Attachment> {
    let mut found = Vec::new();
    let mut room = MAX_BYTES;
    let mut open: Vec<PathBuf> = vec![runs.to_owned()];
    let mut directories = Vec::new();
    // A run is at runs/<owner>[/<name>]/<run>.
    for _ in 0..3 {
        let below: Vec<PathBuf> = open.iter().flat_map(|path| children(path)).collect();
        let named =
            |path: &&PathBuf| path.file_name().is_some_and(|name| ids.iter().any(|id| name == id.as_str()));
        directories.extend(below.iter().filter(named).cloned());
        open = below;
    }
    for directory in directories {
        let run = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for iteration in children(&directory) {
            let iteration_name = iteration.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in children(&iteration.join("transcripts")) {
                let size = std::fs::symlink_metadata(&file).map_or(u64::MAX, |about| about.len());
                if found.len() >= MAX_FILES || size > MAX_FILE_BYTES.min(room) {
                    continue;
                }
                let Ok(content) = std::fs::read_to_string(&file) else { continue };
                room -= size;
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                found.push(Attachment {
                    name: format!("runs/{run}/{iteration_name}/transcripts/{name}"),
                    content,
                });
            }
        }
    }
    found
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Saves the transcripts that an imported session brought.
pub fn save_imported(id: SessionId, attachments: &[Attachment]) -> Result<(), Failure> {
    save_attachments(&state_directory()?.join("sessions").join(id.to_string()).join("imported"), attachments)
}

/// Writes attachments below the directory. They are untrusted: only those that have the name of a transcript are
/// written, so that they overwrite nothing, and git does not recognise any of them as a repository.
fn save_attachments(directory: &Path, attachments: &[Attachment]) -> Result<(), Failure> {
    let is_transcript = |attachment: &&Attachment| is_transcript(&attachment.name);
    for Attachment { name, content } in attachments.iter().filter(is_transcript) {
        let path = directory.join(name);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(directory))
            .and_then(|()| std::fs::write(&path, content));
        written.map_err(|error| {
            Failure::new(Exit::Missing, format!("cannot write {}: {error}", path.display()))
        })?;
    }
    Ok(())
}

/// `runs/RUN/iteration-NUMBER/transcripts/FILE`, as an export names them.
fn is_transcript(name: &str) -> bool {
    let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '\\']);
    let parts: Vec<&str> = name.split('/').filter(is_plain).collect();
    let [_, run, attempt, "transcripts", file] = parts[..] else { return false };
    let number = attempt.strip_prefix("iteration-").unwrap_or_default();
    name == format!("runs/{run}/{attempt}/transcripts/{file}")
        && name.len() < 500
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && ![run, file].iter().any(|part| is_dot_git(OsStr::new(part)))
}

#[cfg(test)]
mod tests {
    use super::is_transcript;

    #[test]
    fn only_transcripts_are_written() {
        assert!(is_transcript("runs/018f/iteration-1/transcripts/main.jsonl"));
        for name in [
            "HEAD",
            "refs/heads/main",
            "runs/018f/HEAD",
            "runs/018f/iteration-1/transcripts/git~1",
            "runs/018f/iteration-1/transcripts/.git",
            "runs/GIT~2/iteration-1/transcripts/main.jsonl",
            "runs/018f/iteration-1/transcripts/a/b",
            "runs/018f/iteration-x/transcripts/main.jsonl",
            "runs/018f/iteration-/transcripts/main.jsonl",
            "runs//018f/iteration-1/transcripts/main.jsonl",
            "/runs/018f/iteration-1/transcripts/main.jsonl",
            "runs/../iteration-1/transcripts/main.jsonl",
            "x/018f/iteration-1/transcripts/main.jsonl",
            "runs/018f/iteration-1/output/main.jsonl",
        ] {
            assert!(!is_transcript(name), "{name}");
        }
    }
}
