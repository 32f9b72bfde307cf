//! `fullsend migrate`: shows what each file of an existing configuration directory means here, and writes a patch that
//! removes keys without effect. It changes nothing itself.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use yaml::{Diagnostic, Node};

use super::check::check_one;
use super::configuration::{Configuration, ConfigurationOptions};
use super::exit::{Exit, Failure};
use crate::harness::names::ForgeName;
use crate::harness::reference::LocalPath;
use crate::preflight::is_missing_on_host;
use crate::render::diagnostics::clean_text;
use crate::resolve::layers::LayerKind;
use crate::resolve::original_config;
use crate::resolve::variables::Strictness;

#[derive(Args, Debug)]
pub struct Arguments {
    /// Write the edits to this file, for `patch -p1` in the directory
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// Print JSON, one object for each file
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

/// The code of what a patch removes.
const NOT_HONOURED: &str = "not-honoured";

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    let names = opened.library.layers.names("harness");
    if names.is_empty() {
        return Err(Failure::new(Exit::Invalid, "no harness was found")
            .help("name the directory that holds `harness/` with --fullsend-dir"));
    }
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut refused = 0;
    for name in &names {
        let own = forges(&mut opened, name, &mut files);
        for forge in own {
            opened.choices.forge = forge;
            for problem in check_one(&mut opened, name, Strictness::Warned) {
                refused += usize::from(problem.is_error() && !is_missing_on_host(&problem));
                add(&opened, &mut files, &problem);
            }
        }
    }
    print(&files, arguments.json)?;
    let patch = patch(&mut opened);
    match (&arguments.patch, &patch) {
        (_, None) => super::write_stderr("no file needs an edit\n"),
        (None, Some(_)) => super::write_stderr("write the edits with --patch FILE\n"),
        (Some(path), Some(text)) => {
            std::fs::write(path, text).map_err(|error| {
                Failure::new(Exit::Missing, format!("cannot write {}: {error}", path.display()))
            })?;
            super::write_stderr(&format!(
                "wrote {}: apply it with `patch -p1` in the directory\n",
                path.display()
            ));
        }
    }
    Ok(if refused == 0 { Exit::Done } else { Exit::Invalid })
}

/// The forges that a harness has values for; the one of the command line where it has none.
fn forges(
    opened: &mut Configuration,
    name: &str,
    files: &mut BTreeMap<String, Vec<String>>,
) -> Vec<Option<ForgeName>> {
    let path = LocalPath::parse(&format!("harness/{name}.yaml")).ok();
    let found = path.and_then(|path| opened.library.layers.find(&path));
    let Some(found) = found else { return vec![opened.choices.forge] };
    files.entry(opened.library.layers.layer(&found).shown(&found.path)).or_default();
    let tree = opened.library.tree(&found).ok();
    let blocks = tree.as_ref().and_then(|tree| tree.get("forge")).map(Node::entries).unwrap_or_default();
    let named: Vec<_> = blocks.iter().filter_map(|block| ForgeName::parse(&block.key)).map(Some).collect();
    if named.is_empty() { vec![opened.choices.forge] } else { named }
}

/// One line about one file, once.
fn add(opened: &Configuration, files: &mut BTreeMap<String, Vec<String>>, problem: &Diagnostic) {
    let place = opened.library.sources.locate(problem.at);
    let word = if is_missing_on_host(problem) {
        "this host"
    } else if problem.is_error() {
        "refused"
    } else {
        "note"
    };
    let line = format!("{word}: {} (line {})", problem.message, place.line);
    let lines = files.entry(place.name).or_default();
    if !lines.contains(&line) {
        lines.push(line);
    }
}

fn print(files: &BTreeMap<String, Vec<String>>, as_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (file, lines) in files {
        if as_json {
            writeln!(out, "{}", json!({ "file": file, "works": lines.is_empty(), "notes": lines }))?;
            continue;
        }
        if lines.is_empty() {
            writeln!(out, "{}: works", clean_text(file))?;
        }
        for line in lines {
            writeln!(out, "{}: {}", clean_text(file), clean_text(line))?;
        }
    }
    Ok(())
}

/// The repository's `config.yaml` without the keys that have no effect, as a unified diff.
fn patch(opened: &mut Configuration) -> Option<String> {
    let found = opened.library.layers.get(LayerKind::Repository)?.find("config.yaml")?;
    let tree = opened.library.tree(&found).ok()?;
    let source = opened.library.source(&found).ok()?;
    let text = opened.library.text(source).to_string();
    let (_, warnings) = original_config::without_original_keys(&tree);
    let removed: Vec<_> = warnings.iter().filter(|problem| problem.code == NOT_HONOURED).collect();
    let line_of = |at| opened.library.sources.locate(at).line - 1;
    let starts: Vec<usize> = tree.entries().iter().map(|entry| line_of(entry.key_at)).collect();
    let lines: Vec<&str> = text.lines().collect();
    let mut gone = vec![false; lines.len()];
    for entry in tree.entries().iter().filter(|entry| removed.iter().any(|one| one.at == entry.key_at)) {
        let start = line_of(entry.key_at);
        let end = starts.iter().copied().filter(|next| *next > start).min().unwrap_or(lines.len());
        gone[start..end].iter_mut().for_each(|line| *line = true);
    }
    if !gone.contains(&true) {
        return None;
    }
    let kept = gone.iter().filter(|gone| !**gone).count();
    let path = &found.path;
    let mut diff = format!("--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{kept} @@\n", lines.len());
    for (line, gone) in lines.iter().zip(&gone) {
        diff.push_str(if *gone { "-" } else { " " });
        diff.push_str(line);
        diff.push('\n');
    }
    Some(diff)
}
