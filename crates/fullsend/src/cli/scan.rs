//! `fullsend scan`: the guard's scanners for people and CI, on files, standard input, trees and addresses. It changes
//! nothing, and exits with 6 for text that would block a run.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use scan::{LearnedScanner, Origin, Toggles};
use yaml::Diagnostic;

use super::check::{self, Format};
use super::exit::{Exit, Failure};
use super::scan_origin::origin;
use super::{configuration, scan_bench};
use crate::event::clock::Moment;
use crate::guard;
use crate::guard::judge::{Findings, Judge};
use crate::inputs::instruction_files::{self, Coverage, MAX_WHOLE, ScannedFile};
use crate::render::findings::{self, FileVerdict, Scanned};
use crate::resolve;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    what: ScanCommand,
}

#[derive(Debug, Subcommand)]
enum ScanCommand {
    /// Scan input for an agent: issues, comments, pages, tool results
    #[command(after_help = "Example: fullsend scan input issue.md")]
    Input(Texts),
    /// Scan text that an agent wrote
    #[command(after_help = "Example: fullsend scan output result.json")]
    Output(Texts),
    /// Scan the files of a directory that agents read as instructions
    #[command(after_help = "Example: fullsend scan context .")]
    Context(Trees),
    /// Scan URLs
    #[command(after_help = "Example: fullsend scan url http://169.254.169.254/")]
    Url(Addresses),
    /// Measure detection rate and speed of the scanners on your own corpus
    #[command(after_help = "Example: fullsend scan bench corpus/")]
    Bench(scan_bench::Arguments),
}

#[derive(Args, Debug)]
struct Texts {
    /// Files to scan; `-` reads standard input [default: -]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Treat the input as coming from this origin [default: issue for input, output for output]
    #[arg(long, value_parser = origin)]
    origin: Option<Origin>,
    #[command(flatten)]
    how: ScanArguments,
}

#[derive(Args, Debug)]
struct Trees {
    /// Directories to scan
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,
    /// Use this origin for files whose path does not determine one
    #[arg(long, value_parser = origin, default_value = "instruction")]
    origin: Origin,
    /// Scan only the NUL-separated paths from standard input in this directory
    #[arg(long, value_name = "DIR", hide = true)]
    points_of: Option<PathBuf>,
    /// This directory holds the harness's own documents
    #[arg(long, value_name = "DIR", hide = true)]
    own: Option<PathBuf>,
    #[command(flatten)]
    how: ScanArguments,
}

#[derive(Args, Debug)]
struct Addresses {
    /// URLs to scan; `-` reads them from standard input, one per line
    #[arg(value_name = "URL", required = true)]
    addresses: Vec<String>,
    /// Treat the input as coming from this origin
    #[arg(long, value_parser = origin, default_value = "web")]
    origin: Origin,
    #[command(flatten)]
    how: ScanArguments,
}

#[derive(Args, Debug)]
struct ScanArguments {
    /// Print in this format
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Print JSON, one object per line, as `--format json` does
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Leave a scanner out, by its name under `security.host_scanners`; may be repeated
    #[arg(long, value_name = "NAME", value_parser = switch)]
    without: Vec<String>,
    /// Use this weights file for the learned scanner [default: the installed one]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Report text with at least this score from the learned scanner
    #[arg(long, value_name = "SCORE", default_value_t = LearnedScanner::default().threshold)]
    threshold: f32,
    /// Use the waivers of this organisation directory [default: FULLSEND_ORG_DIR]; waivers in scanned files are ignored
    #[arg(long, value_name = "DIR")]
    org_dir: Option<PathBuf>,
}

/// A name under `security.host_scanners` or `security.sandbox_hooks`.
pub fn switch(name: &str) -> Result<String, String> {
    let known = Toggles::NONE.switched(name, true).is_some();
    if known { Ok(name.to_owned()) } else { Err(format!("it is one of {}", Toggles::NAMES.join(", "))) }
}

impl ScanArguments {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    fn judge(&self) -> Result<Judge, Failure> {
        let off = |toggles: Toggles, name: &String| toggles.switched(name, false).unwrap_or(toggles);
        let mut judge = Judge::built_in(self.without.iter().fold(Toggles::default(), off), "");
        if let Some(weights) = self.weights() {
            judge = judge.with_model(&weights, self.threshold);
        }
        let Some(mut library) = configuration::named_organisation(self.org_dir.as_deref())? else {
            return Ok(judge);
        };
        let mut problems = Vec::new();
        let organisation = resolve::organisation(&mut library, &mut problems);
        if problems.iter().any(Diagnostic::is_error) {
            check::show(&library.sources, &problems);
            let message = "the organisation's configuration is not valid, so its waivers are not known";
            return Err(Failure::new(Exit::Invalid, message).help("correct it, or leave --org-dir out"));
        }
        Ok(judge.with_waivers(guard::waivers(organisation.as_deref()), &Moment::now().date()))
    }

    /// The weights of the learned scanner, if it is on and installed.
    fn weights(&self) -> Option<PathBuf> {
        if self.without.iter().any(|name| name == "llm_guard") {
            return None;
        }
        self.model.clone().or_else(|| configuration::installed_weights().found)
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.what {
        ScanCommand::Input(texts) => scan_texts(texts, Origin::Issue),
        ScanCommand::Output(texts) => scan_texts(texts, Origin::Output),
        ScanCommand::Context(trees) => scan_trees(trees),
        ScanCommand::Url(addresses) => scan_addresses(addresses),
        ScanCommand::Bench(arguments) => scan_bench::run(arguments),
    }
}

fn scan_texts(texts: &Texts, origin: Origin) -> Result<Exit, Failure> {
    let judge = texts.how.judge()?;
    let origin = texts.origin.unwrap_or(origin);
    let standard = [PathBuf::from("-")];
    let files = if texts.files.is_empty() { &standard[..] } else { &texts.files[..] };
    let mut all = Vec::new();
    let mut absent = Vec::new();
    for file in files {
        let shown = file.to_string_lossy();
        all.push(match read(file) {
            Ok(bytes) => look(&judge, &shown, origin, &bytes),
            Err(error) => {
                if is_absent(&error) {
                    absent.push(format!("{shown}: {error}"));
                }
                unread(&shown, origin, error.to_string())
            }
        });
    }
    let exit = print(&all, texts.how.format())?;
    // A misspelt name is not a threat, but it must not hide a file that is one.
    if absent.is_empty() || all.iter().filter(|scanned| !passes(scanned)).count() > absent.len() {
        return Ok(exit);
    }
    Err(Failure::new(Exit::Missing, absent.join("\n")))
}

/// The file does not exist.
fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return instruction_files::read(file, MAX_WHOLE);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_WHOLE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_WHOLE {
        return Err(std::io::Error::other(format!("standard input is larger than {MAX_WHOLE} bytes")));
    }
    Ok(bytes)
}

fn scan_trees(trees: &Trees) -> Result<Exit, Failure> {
    let judge = trees.how.judge()?;
    let mut all = Vec::new();
    for directory in trees.directories.iter().chain(&trees.points_of) {
        if !directory.is_dir() {
            let message = format!("{} is not a directory", directory.display());
            return Err(Failure::new(Exit::Missing, message));
        }
        let mut visit = |seen: ScannedFile<'_>| {
            let file = directory.join(seen.path).to_string_lossy().into_owned();
            all.push(match &seen.contents {
                Ok(bytes) => look(&judge, &file, seen.origin, bytes),
                Err(error) => unread(&file, seen.origin, error.to_string()),
            });
            Ok::<(), std::convert::Infallible>(())
        };
        let origin = if trees.own.as_ref() == Some(directory) { Origin::Harness } else { trees.origin };
        let Ok(()) = match &trees.points_of {
            None => instruction_files::walk(directory, Coverage::Instructions, origin, &mut visit),
            Some(known) if known == directory => {
                instruction_files::walk_paths(directory, &points()?, origin, &mut visit)
            }
            Some(known) => instruction_files::walk_without(directory, known, origin, &mut visit),
        };
    }
    print(&all, trees.how.format())
}

fn points() -> Result<Vec<PathBuf>, Failure> {
    let missing = |error| Failure::new(Exit::Missing, format!("standard input: {error}"));
    let bytes = read(Path::new("-")).map_err(missing)?;
    let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// Those that were named, with those on standard input in the place of `-`.
fn named_addresses(addresses: &[String]) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for address in addresses {
        if address == "-" {
            let missing = |error| Failure::new(Exit::Missing, format!("standard input: {error}"));
            let text = String::from_utf8_lossy(&read(Path::new("-")).map_err(missing)?).into_owned();
            all.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        } else {
            all.push(address.clone());
        }
    }
    Ok(all)
}

fn scan_addresses(addresses: &Addresses) -> Result<Exit, Failure> {
    let judge = addresses.how.judge()?;
    let origin = addresses.origin;
    let look = |file: String| {
        let Findings { open: findings, waived } = judge.address(&file);
        // The address is about to be opened, so a finding of severity high or more blocks it.
        let verdict = match shell::denies(&findings, redact::Severity::High) {
            Some(_) => FileVerdict::Blocked,
            None if findings.is_empty() && waived.is_empty() => FileVerdict::Clean,
            None => FileVerdict::Reported,
        };
        Scanned { file, origin, findings, waived, verdict }
    };
    let all: Vec<Scanned> = named_addresses(&addresses.addresses)?.into_iter().map(look).collect();
    print(&all, addresses.how.format())
}

fn look(judge: &Judge, file: &str, origin: Origin, bytes: &[u8]) -> Scanned {
    // Waivers match places as people write them.
    let place = file.strip_prefix("./").unwrap_or(file);
    match judge.scan_file(bytes, origin, place) {
        Ok(findings) => {
            let verdict = match judge.blocking_finding(&findings, origin) {
                Some(_) => FileVerdict::Blocked,
                None if findings == Findings::default() => FileVerdict::Clean,
                None => FileVerdict::Reported,
            };
            let Findings { open: findings, waived } = findings;
            Scanned { file: file.to_owned(), origin, findings, waived, verdict }
        }
        Err(broke) => unread(file, origin, broke.to_string()),
    }
}

fn unread(file: &str, origin: Origin, why: String) -> Scanned {
    Scanned {
        file: file.to_owned(),
        origin,
        findings: Vec::new(),
        waived: Vec::new(),
        verdict: FileVerdict::Unread(why),
    }
}

fn print(all: &[Scanned], format: Format) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Human => {
            for scanned in all {
                out.write_all(findings::human(scanned).as_bytes())?;
            }
            let count: usize = all.iter().map(|scanned| scanned.findings.len()).sum();
            super::write_stderr(&format!("{} scanned, findings: {count}\n", all.len()));
        }
        Format::Json => {
            for scanned in all {
                writeln!(out, "{}", findings::json(scanned))?;
            }
        }
        Format::Sarif => writeln!(out, "{:#}", findings::log(all))?,
        Format::Github => {
            for scanned in all {
                out.write_all(findings::annotations(scanned).as_bytes())?;
            }
        }
    }
    Ok(if all.iter().all(passes) { Exit::Done } else { Exit::Security })
}

fn passes(scanned: &Scanned) -> bool {
    matches!(scanned.verdict, FileVerdict::Clean | FileVerdict::Reported)
}
