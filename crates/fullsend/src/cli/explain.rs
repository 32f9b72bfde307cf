//! `fullsend explain`: shows every effective value, the file and line that set it, and what it replaced.

use std::io::Write;

use clap::{Args, ValueEnum};
use yaml::Node;

use super::configuration::ConfigurationOptions;
use super::exit::{Exit, Failure};
use crate::harness::Harness;
use crate::resolve::explained::{self, ExplainedValue};
use crate::resolve::library::Library;
use crate::resolve::{Resolved, resolve, self_contained};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Harness to explain
    name: String,
    /// Show only this field and those below it, such as `security.host_scanners`
    field: Option<String>,
    /// Print in this format
    #[arg(long, value_enum, default_value = "human", conflicts_with = "resolved")]
    format: Format,
    /// Print JSON, as `--format json` does
    #[arg(long, conflicts_with_all = ["format", "resolved"])]
    json: bool,
    /// Print the harness as one self-contained YAML file
    #[arg(long, conflicts_with = "field")]
    resolved: bool,
    #[command(flatten)]
    place: ConfigurationOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Human,
    Json,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut opened = arguments.place.open()?;
    let mut problems = Vec::new();
    let resolved = resolve(&mut opened.library, &arguments.name, &opened.choices, &mut problems);
    if let Some(resolved) = resolved.as_ref().filter(|_| arguments.resolved) {
        crate::check::secrets::check(&mut opened.library, resolved, &mut problems);
    }
    super::check::show(&opened.library.sources, &problems);
    let Some(resolved) = resolved.filter(|_| !problems.iter().any(yaml::Diagnostic::is_error)) else {
        return Ok(super::check::verdict(&problems));
    };
    let policy = policy_rows(&mut opened.library, &resolved);
    let library = &opened.library;
    let mut out = std::io::stdout().lock();
    if arguments.resolved {
        write!(out, "{}", yaml::emit(&self_contained(&resolved), &|_| None))?;
        return Ok(Exit::Done);
    }
    let mut rows = explained::values(library, &resolved, arguments.field.as_deref());
    if arguments.field.as_deref().is_none_or(|field| field == "policy") {
        rows.extend(policy);
    }
    if let (true, Some(field)) = (rows.is_empty(), &arguments.field) {
        return unset(&mut out, &resolved.tree, field);
    }
    let format = if arguments.json { Format::Json } else { arguments.format };
    match format {
        Format::Json => writeln!(out, "{:#}", serde_json::to_value(&rows).unwrap_or_default())?,
        Format::Human => out.write_all(table(&resolved, library, &rows).as_bytes())?,
    }
    Ok(Exit::Done)
}

/// The effective values of the harness's policy.
fn policy_rows(library: &mut Library, resolved: &Resolved) -> Vec<ExplainedValue> {
    let policy = &resolved.harness.policy;
    let found = policy.local().and_then(|path| library.find(path, policy.at, "policy").ok());
    let Some(Ok(parsed)) = found.map(|found| library.policy(&found)) else { return Vec::new() };
    explained::policy_values(library, &parsed.policy)
}

fn table(resolved: &Resolved, library: &Library, rows: &[ExplainedValue]) -> String {
    let width =
        |text: fn(&ExplainedValue) -> usize, most: usize| rows.iter().map(text).max().unwrap_or(0).min(most);
    let fields = width(|row| row.field.chars().count(), 60);
    let values = width(|row| row.value.chars().count(), 50);
    let files: Vec<String> =
        resolved.files.iter().map(|found| library.layers.layer(found).shown(&found.path)).collect();
    let mut text = format!("{}: {}\n\n", resolved.name, files.join(", extends "));
    for row in rows {
        let origin = format!("{}:{} ({})", row.set_by.file, row.set_by.line, row.set_by.layer);
        text.push_str(&format!("{:fields$}  {:values$}  {origin}\n", row.field, row.value));
        for replaced in row.replaced.iter().rev() {
            text.push_str(&format!(
                "{:fields$}  {:values$}    over {}:{}\n",
                "", "", replaced.file, replaced.line
            ));
        }
    }
    for exception in &resolved.exceptions {
        let what = format!(
            "{} {}; until {}: {}",
            exception.field, exception.what, exception.until, exception.reason
        );
        text.push_str(&format!("\nexception: {what}\n"));
    }
    text
}

/// A known field without a value, or an unknown field.
fn unset(out: &mut impl Write, tree: &Node, field: &str) -> Result<Exit, Failure> {
    let first = field.split('.').next().unwrap_or(field);
    if Harness::KEYS.contains(&first) && (tree.get(first).is_none() || field == first) {
        writeln!(out, "{field}  (not set)")?;
        return Ok(Exit::Done);
    }
    let mut known = Vec::new();
    explained::visit_values(tree, "", &mut |path, _| known.push(path.to_owned()));
    let candidates = known.iter().map(String::as_str).chain(Harness::KEYS.iter().copied());
    let failure = Failure::new(Exit::Usage, format!("a harness has no field `{field}`"));
    Err(match yaml::closest(field, candidates) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None => failure.help("`fullsend schema harness` prints all fields"),
    })
}
