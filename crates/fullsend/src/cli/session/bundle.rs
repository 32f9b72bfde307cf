//! `export` and `import`: a session as one file, for machines that vanish and for moving between stores. It holds the log,
//! memory, learnings and the redacted transcripts of its runs; no lease and nothing that could be run.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::super::exit::{Exit, Failure};
use super::super::run::runs_directory;
use super::store::{SessionArguments, StoreArguments, failure, state_directory};
use session::{Attachment, PAGE_LIMIT, Payload, Seq, SessionId, Sessions};

/// What the transcripts of one session may be.
const MAX_FILES: usize = 10_000;
const MAX_FILE_BYTES: u64 = 8 << 20;
const MAX_BYTES: u64 = 128 << 20;

#[derive(Args, Debug)]
pub struct Export {
    #[command(flatten)]
    one: SessionArguments,
    /// The file to write; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Where runs are kept, for their transcripts [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Say on standard output what was written, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub struct Import {
    /// The file to read; `-` is standard input
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StoreArguments,
}

pub fn export(arguments: &Export) -> Result<Exit, Failure> {
    let id = arguments.one.id;
    let mut sessions = arguments.one.place.open()?;
    let runs = arguments.runs.clone().map_or_else(runs_directory, Ok)?;
    let attached = runs_of(&mut sessions, id)?;
    let mut transcripts = transcripts(&runs, &attached).into_iter();
    let count = transcripts.len();
    if arguments.output == Path::new("-") {
        let mut out = std::io::stdout().lock();
        sessions.export(id, &mut transcripts, &mut out).map_err(failure)?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    // Beside its place first: a file with this name is whole.
    let unfinished = arguments.output.with_extension("part");
    let wrong = |error: std::io::Error| {
        Failure::new(Exit::Missing, format!("{} cannot be written: {error}", arguments.output.display()))
    };
    let mut file = BufWriter::new(File::create(&unfinished).map_err(wrong)?);
    sessions.export(id, &mut transcripts, &mut file).map_err(failure)?;
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(wrong)?;
    std::fs::rename(&unfinished, &arguments.output).map_err(wrong)?;
    if arguments.json {
        let line = json!({ "id": id, "file": arguments.output, "transcripts": count });
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    Ok(Exit::Done)
}

pub fn import(arguments: &Import) -> Result<Exit, Failure> {
    let mut sessions = arguments.place.open()?;
    let imported = if arguments.input == Path::new("-") {
        sessions.import(&mut std::io::stdin().lock())
    } else {
        let file = File::open(&arguments.input).map_err(|error| {
            Failure::new(Exit::Missing, format!("{} cannot be read: {error}", arguments.input.display()))
        })?;
        sessions.import(&mut BufReader::new(file))
    };
    let (session, attachments) = imported.map_err(failure)?;
    let id = session.header.id;
    keep(&state_directory()?.join("sessions").join(id.to_string()).join("imported"), &attachments)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let line = json!({ "id": id, "status": session.state.status, "head": session.state.head });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "{id} {} ({} events)", session.state.status, session.state.head.0)?;
    }
    Ok(Exit::Done)
}

/// The runs that the log names.
fn runs_of(sessions: &mut Sessions, id: SessionId) -> Result<Vec<String>, Failure> {
    let (mut runs, mut after) = (Vec::new(), Seq(0));
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

/// The transcripts of those runs that are still here, as the run kept them: redacted.
fn transcripts(runs: &Path, ids: &[String]) -> Vec<Attachment> {
    let (mut found, mut room) = (Vec::new(), MAX_BYTES);
    let mut open: Vec<PathBuf> = vec![runs.to_owned()];
    let mut directories = Vec::new();
    // runs/<owner>[/<name>]/<run>: never deeper.
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
            let place = iteration.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in children(&iteration.join("transcripts")) {
                let size = std::fs::symlink_metadata(&file).map_or(u64::MAX, |about| about.len());
                if found.len() >= MAX_FILES || size > MAX_FILE_BYTES.min(room) {
                    continue;
                }
                let Ok(content) = std::fs::read_to_string(&file) else { continue };
                room -= size;
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                found.push(Attachment { name: format!("runs/{run}/{place}/transcripts/{name}"), content });
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

/// Attachments come from elsewhere: only plain names below the directory are written.
fn keep(directory: &Path, attachments: &[Attachment]) -> Result<(), Failure> {
    let plain = |name: &str| {
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\0', '\\']);
        name.len() < 500 && name.split('/').all(part)
    };
    for Attachment { name, content } in attachments.iter().filter(|attachment| plain(&attachment.name)) {
        let path = directory.join(name);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(directory))
            .and_then(|()| std::fs::write(&path, content));
        written.map_err(|error| {
            Failure::new(Exit::Missing, format!("{} cannot be written: {error}", path.display()))
        })?;
    }
    Ok(())
}
