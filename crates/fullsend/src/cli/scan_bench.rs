//! `fullsend scan bench`: precision, recall and speed of each family of rules on a corpus: our own, or a user's.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use redact::{Category, Finding, Severity};
use scan::{CaseCounts, LabelledText, Origin, Scanner, Toggles};
use serde_json::{Value as Json, json};
use shell::Isolation;

use super::configuration::installed_weights;
use super::exit::{Exit, Failure};
use super::scan_ranking;
use crate::inputs::instruction_files::{self, Coverage, MAX_WHOLE, ScannedFile};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Corpus directory: files of JSON lines `{text, label, origin, category, source,
    /// language}`, label `attack` or `benign`; or the
    /// directories `attack/` and `benign/`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Use this origin for cases without one
    #[arg(long, value_parser = super::scan_origin::origin, default_value = "tool")]
    origin: Origin,
    /// Count a case as detected if a finding has at least this severity
    #[arg(long, value_name = "SEVERITY", value_parser = severity, default_value = "high")]
    least: Severity,
    /// Assume a disposable sandbox
    #[arg(long)]
    sandboxed: bool,
    /// Use this weights file for the learned scanner [default: the installed one]
    #[arg(long, value_name = "FILE", conflicts_with = "rules_only")]
    model: Option<PathBuf>,
    /// Rank by the rules alone, without the learned scanner
    #[arg(long)]
    rules_only: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

fn severity(name: &str) -> Result<Severity, String> {
    Severity::parse(name)
        .ok_or_else(|| format!("a severity is one of {}", Severity::ALL.map(Severity::as_str).join(", ")))
}

/// The families that judge a text by itself, and their switches.
const FAMILIES: &[(Category, &str)] = &[
    (Category::UnicodeNormalizer, "unicode_normalizer"),
    (Category::ContextInjection, "context_injection"),
    (Category::SsrfValidator, "ssrf_validator"),
    (Category::SecretRedactor, "secret_redactor"),
    (Category::Commands, "tirith"),
];

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let cases = load(arguments)?;
    if cases.is_empty() {
        let message = format!("{} has no cases", arguments.directory.display());
        return Err(Failure::new(Exit::Missing, message)
            .help("it needs *.jsonl files of {text, label, origin}, or directories attack/ and benign/"));
    }
    let isolation = if arguments.sandboxed { Isolation::Sandbox } else { Isolation::None };
    let how = (arguments.least, isolation);
    let mut out = std::io::stdout().lock();
    if !arguments.json {
        writeln!(
            out,
            "{:20} {:>8} {:>8} {:>10} {:>8} {:>10} {:>9}",
            "family", "attacks", "benign", "precision", "recall", "false pos.", "MB/s"
        )?;
    }
    for (category, switch) in FAMILIES {
        let asked = |case: &&LabelledText| match case.category {
            Some(wanted) => wanted == *category,
            // Cases without a category are texts, not commands.
            None => *category != Category::Commands,
        };
        let cases: Vec<LabelledText> = cases.iter().filter(asked).cloned().collect();
        let scanner = Scanner::new(Toggles::NONE.switched(switch, true).unwrap_or_default());
        if let Some(row) = measured(category.as_str(), &scanner, &cases, how) {
            row.print(&mut out, arguments.json)?;
        }
    }
    if let Some(row) = measured("all", &Scanner::default(), &cases, how) {
        row.print(&mut out, arguments.json)?;
    }
    scan_ranking::print(&mut out, weights(arguments).as_deref(), &cases, arguments.json)?;
    Ok(Exit::Done)
}

/// The learned scanner's weights, if it is on and installed.
fn weights(arguments: &Arguments) -> Option<PathBuf> {
    let installed = || installed_weights().found.filter(|_| !arguments.rules_only);
    arguments.model.clone().or_else(installed)
}

/// What a family of rules found.
struct BenchRow<'a> {
    name: &'a str,
    counts: CaseCounts,
    megabytes_per_second: f64,
}

fn measured<'a>(
    name: &'a str,
    scanner: &Scanner,
    cases: &[LabelledText],
    (least, isolation): (Severity, Isolation),
) -> Option<BenchRow<'a>> {
    // Warm up: the first scan builds the automata.
    let find = |case: &LabelledText| findings(scanner, case, isolation);
    scan::measure(cases.get(..1)?, least, find);
    let started = Instant::now();
    let counts = scan::measure(cases, least, find).remove(&None).unwrap_or_default();
    let seconds = started.elapsed().as_secs_f64();
    let bytes: usize = cases.iter().map(|case| case.text.len()).sum();
    Some(BenchRow { name, counts, megabytes_per_second: bytes as f64 / 1e6 / seconds.max(1e-9) })
}

impl BenchRow<'_> {
    fn print(&self, out: &mut impl Write, as_json: bool) -> Result<(), Failure> {
        let Self { name, counts, megabytes_per_second } = self;
        let CaseCounts { attacks_found, attacks_missed, benign_flagged, benign_passed } = counts;
        let attacks = attacks_found + attacks_missed;
        let benign = benign_flagged + benign_passed;
        if as_json {
            let object = json!({
                "family": name, "attacks": attacks, "attacks_found": attacks_found, "benign": benign,
                "benign_flagged": benign_flagged, "megabytes_per_second": megabytes_per_second,
            });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        let percent =
            |share: f64, of: usize| if of == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * share) };
        writeln!(
            out,
            "{name:20} {attacks:>8} {benign:>8} {:>10} {:>8} {:>10} {megabytes_per_second:>9.1}",
            percent(counts.precision(), attacks_found + benign_flagged),
            percent(counts.recall(), attacks),
            percent(counts.false_positives(), benign),
        )?;
        Ok(())
    }
}

fn findings(scanner: &Scanner, case: &LabelledText, isolation: Isolation) -> Vec<Finding> {
    match case.category {
        Some(Category::Commands) if !scanner.toggles().tirith => Vec::new(),
        Some(Category::Commands) => shell::scan_command_in(&case.text, isolation),
        Some(Category::SsrfValidator) => scanner.scan_address(&case.text),
        _ => scanner.scan(&case.text, case.origin),
    }
}

fn load(arguments: &Arguments) -> Result<Vec<LabelledText>, Failure> {
    let directory = &arguments.directory;
    let missing =
        |path: &Path, why: String| Failure::new(Exit::Missing, format!("{}: {why}", path.display()));
    let entries = std::fs::read_dir(directory).map_err(|error| missing(directory, error.to_string()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && (name == "attack" || name == "benign") {
            folder(&path, name == "attack", arguments.origin, &mut cases)?;
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            let bytes = instruction_files::read(&path, MAX_WHOLE)
                .map_err(|error| missing(&path, error.to_string()))?;
            for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
                let case = case(line, arguments.origin);
                cases.push(case.map_err(|why| missing(&path, format!("line {}: {why}", number + 1)))?);
            }
        }
    }
    Ok(cases)
}

fn folder(
    path: &Path,
    is_attack: bool,
    origin: Origin,
    cases: &mut Vec<LabelledText>,
) -> Result<(), Failure> {
    instruction_files::walk(path, Coverage::Everything, origin, &mut |seen: ScannedFile<'_>| {
        let unread =
            |error| Failure::new(Exit::Missing, format!("{}/{}: {error}", path.display(), seen.path));
        let bytes = seen.contents.map_err(unread)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        cases.push(LabelledText {
            text,
            is_attack,
            origin,
            category: None,
            source: String::new(),
            language: String::new(),
        });
        Ok(())
    })
}

fn case(line: &str, origin: Origin) -> Result<LabelledText, String> {
    let row: Json = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let word = |key: &str| row[key].as_str();
    let is_attack = match word("label") {
        Some("attack") => true,
        Some("benign") => false,
        _ => return Err("`label` must be `attack` or `benign`".to_owned()),
    };
    let text = word("text").ok_or("`text` is missing")?.to_owned();
    let origin = match word("origin") {
        Some(name) => super::scan_origin::origin(name)?,
        None => origin,
    };
    let category = match word("category") {
        Some(name) => Some(
            Category::ALL
                .into_iter()
                .find(|category| category.as_str() == name)
                .ok_or_else(|| format!("there is no family `{name}`"))?,
        ),
        None => None,
    };
    let source = word("source").unwrap_or_default().to_owned();
    let language = word("language").unwrap_or_default().to_owned();
    Ok(LabelledText { text, is_attack, origin, category, source, language })
}
