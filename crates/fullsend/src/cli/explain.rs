//! `fullsend explain`: shows every effective value, the file and line that set it, and what it replaced.

use std::io::Write;

use clap::{Args, ValueEnum};
use policy::baseline::{PathAccess, PathOrigin};
use serde_json::{Value as Json, json};
use yaml::{Node, Span, Value};

use super::configuration::ConfigurationOptions;
use super::exit::{Exit, Failure};
use crate::harness::Harness;
use crate::resolve::library::Library;
use crate::resolve::{Resolved, ordered, resolve, self_contained};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Harness to explain
    name: String,
    /// Show only this field and those below it, such as `security.host_scanners`
    field: Option<String>,
    /// Print in this format
    #[arg(long, value_enum, default_value = "human", conflicts_with = "resolved")]
    format: Format,
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
    let mut rows = rows(library, &resolved, arguments.field.as_deref());
    if arguments.field.as_deref().is_none_or(|field| field == "policy") {
        rows.extend(policy);
    }
    if let (true, Some(field)) = (rows.is_empty(), &arguments.field) {
        return unset(&mut out, &resolved.tree, field);
    }
    match arguments.format {
        Format::Json => writeln!(out, "{:#}", Json::from_iter(rows.iter().map(Row::json)))?,
        Format::Human => out.write_all(table(&resolved, library, &rows).as_bytes())?,
    }
    Ok(Exit::Done)
}

struct Row {
    field: String,
    value: String,
    set_by: ValueOrigin,
    replaced: Vec<ValueOrigin>,
}

struct ValueOrigin {
    layer: &'static str,
    file: String,
    line: usize,
}

impl Row {
    fn json(&self) -> Json {
        let place =
            |place: &ValueOrigin| json!({ "layer": place.layer, "file": place.file, "line": place.line });
        let mut object = json!({ "field": self.field, "value": self.value });
        object["set_by"] = place(&self.set_by);
        object["replaced"] = self.replaced.iter().map(place).collect();
        object
    }
}

fn place(library: &Library, at: Span) -> ValueOrigin {
    let location = library.sources.locate(at);
    ValueOrigin { layer: library.layer_of(at).words(), file: location.name, line: location.line }
}

fn rows(library: &Library, resolved: &Resolved, only: Option<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    let tree = ordered(&resolved.tree);
    collect(&tree, "", &mut |field, node| {
        let wanted = only.is_none_or(|only| {
            field == only || field.strip_prefix(only).is_some_and(|rest| rest.starts_with('.'))
        });
        if wanted {
            rows.push(Row {
                field: field.to_owned(),
                value: shown_value(field, node),
                set_by: place(library, node.at),
                replaced: node.replaced.iter().map(|at| place(library, *at)).collect(),
            });
        }
    });
    rows
}

/// The paths that the sandbox sees, those of the policy and those of every sandbox, and the programs of its rules.
fn policy_rows(library: &mut Library, resolved: &Resolved) -> Vec<Row> {
    let found = resolved.harness.policy.local().and_then(|path| library.layers.find(path));
    let Some(Ok(parsed)) = found.map(|found| library.policy(&found)) else { return Vec::new() };
    let row = |path: policy::baseline::EffectivePath| Row {
        field: format!("policy path {}", path.path),
        value: match path.access {
            PathAccess::ReadOnly => "read-only".to_owned(),
            PathAccess::ReadWrite => "read-write".to_owned(),
        },
        set_by: match path.origin {
            PathOrigin::Policy(at) => place(library, at),
            PathOrigin::Baseline => {
                ValueOrigin { layer: "built in", file: "<baseline of every sandbox>".to_owned(), line: 0 }
            }
        },
        replaced: Vec::new(),
    };
    let paths = policy::baseline(&parsed.policy).paths.into_iter().map(row);
    let programs = parsed.policy.networks.iter().flat_map(|network| {
        network.binaries.iter().map(|program| Row {
            field: format!("policy program of {}", network.name),
            value: format!("{}, and what it starts", program.value),
            set_by: place(library, program.at),
            replaced: Vec::new(),
        })
    });
    paths.chain(programs).collect()
}

/// Visits every scalar, and every empty list and map.
fn collect(node: &Node, path: &str, visit: &mut impl FnMut(&str, &Node)) {
    let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            entries.iter().for_each(|entry| collect(&entry.node, &below(&entry.key), visit));
        }
        Value::List(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| collect(item, &below(&index.to_string()), visit));
        }
        _ => visit(path, node),
    }
}

/// A credential in a file is not printed.
fn shown_value(field: &str, node: &Node) -> String {
    let text = match &node.value {
        Value::Null => return "(removed)".to_owned(),
        Value::List(_) => return "[]".to_owned(),
        Value::Map(_) => return "{}".to_owned(),
        _ => node.scalar().unwrap_or(""),
    };
    let name = field.rsplit('.').next().unwrap_or(field);
    if redact::find_secret_in_field(name, text).is_some() {
        "(a credential)".to_owned()
    } else {
        text.replace('\n', "\\n")
    }
}

fn table(resolved: &Resolved, library: &Library, rows: &[Row]) -> String {
    let width = |text: fn(&Row) -> usize, most: usize| rows.iter().map(text).max().unwrap_or(0).min(most);
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
    collect(tree, "", &mut |path, _| known.push(path.to_owned()));
    let candidates = known.iter().map(String::as_str).chain(Harness::KEYS.iter().copied());
    let failure = Failure::new(Exit::Usage, format!("a harness has no field `{field}`"));
    Err(match yaml::closest(field, candidates) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None => failure.help("`fullsend schema harness` prints all fields"),
    })
}
