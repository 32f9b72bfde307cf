//! `fullsend self-test`: one whole run without a key, in its own directory that is removed afterwards. It shows what
//! works on this machine.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::changed_files::changed_files;
use super::exit::{Exit, Failure};
use super::run::environment;
use super::version;
use crate::cancel::Cancel;
use crate::event::EnforcementStatus;
use crate::event::outcome::OutcomeKind;
use crate::record::store::{self, StoredRun};
use crate::record::{Record, verify};
use crate::render::diagnostics::clean_text;
use crate::render::figures::duration;
use crate::render::patch;
use crate::scripts::{self, Script};

/// Far more than the run needs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A repository with one harness: the built-in agent and a scripted model.
const FILES: &[(&str, &str)] = &[
    ("greeting.txt", "Hello, wrold!\n"),
    (
        ".fullsend/harness/self-test.yaml",
        "agent: agents/self-test.md\nruntime: native\nproviders: [model]\noutput_schema: schemas/self-test.json\n",
    ),
    (
        ".fullsend/agents/self-test.md",
        "---\nname: self-test\ndescription: Corrects a word.\n---\nCorrect the word.\n",
    ),
    (
        ".fullsend/schemas/self-test.json",
        r#"{"type":"object","required":["corrected"],"properties":{"corrected":{"type":"boolean"}}}"#,
    ),
    (
        ".fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\nconfig:\n  scenario: scenarios/self-test.json\n",
    ),
    (
        ".fullsend/scenarios/self-test.json",
        r#"{"turns":[[{"shell":"sed -i s/wrold/world/ greeting.txt && cat greeting.txt"}],[{"finish":{"corrected":true}}]]}"#,
    ),
];

#[derive(Args, Debug)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One part of the test.
struct TestPart {
    name: String,
    state: &'static str,
    found: String,
}

impl TestPart {
    fn new(name: &str, works: bool, found: String) -> Self {
        Self { name: name.to_owned(), state: if works { "good" } else { "bad" }, found }
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let missing = |why: String| Failure::new(Exit::Missing, why);
    let place = tempfile::Builder::new().prefix("fullsend-self-test-").tempdir();
    let place = place.map_err(|error| missing(format!("cannot create a temporary directory: {error}")))?;
    let repository = place.path().join("repository");
    write_files(&repository)
        .map_err(|error| missing(format!("cannot write the test repository: {error}")))?;
    let runs = place.path().join("runs");
    let started = Instant::now();
    let words = run_program(&repository, &runs)?;
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let found = store::find(&runs, "latest").ok();
    let parts = found.as_ref().and_then(|run| Some(parts(run, &run.record().ok()?)));
    let works = found
        .as_ref()
        .and_then(|run| run.record().ok())
        .is_some_and(|record| record.outcome == Some(OutcomeKind::Completed));
    let parts = parts.unwrap_or_else(|| vec![TestPart::new("run", false, words)]);
    print(arguments.json, works, millis, &parts)?;
    match works {
        true => Ok(Exit::Done),
        false => Err(Failure::new(Exit::SandboxUnavailable, "the test run did not complete")
            .help("`fullsend doctor` shows what this machine lacks, and how to get it")),
    }
}

fn write_files(repository: &Path) -> std::io::Result<()> {
    for (name, text) in FILES {
        let path = repository.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(repository))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Runs this program on the repository, and returns what it printed.
fn run_program(repository: &Path, runs: &Path) -> Result<String, Failure> {
    let failed = |why: String| Failure::new(Exit::Failed, format!("cannot run the test: {why}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let words = ["run", "self-test", "--quiet", "--output", "none", "--config-ref", "worktree"];
    let mut arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    arguments.push(format!("--repo={}", repository.display()));
    arguments.push(format!("--output-dir={}", runs.display()));
    let script = Script {
        program: &program,
        arguments: &arguments,
        working_directory: repository,
        environment: scripts::base_environment(&environment()),
        time: TIME_LIMIT,
        cancel: &Cancel::default(),
    };
    scripts::run(&script).map(|ended| ended.output).map_err(|error| failed(error.to_string()))
}

fn parts(run: &StoredRun, record: &Record) -> Vec<TestPart> {
    let held = record.proofs.iter().filter(|proof| proof.held).count();
    let all = record.proofs.len();
    let mut parts = vec![TestPart::new(
        "sandbox",
        all > 0 && held == all,
        format!("{held} of {all} attempts to leave it fail"),
    )];
    for part in record.sandbox.iter().filter(|part| part.status != EnforcementStatus::Enforced) {
        let found = format!("{}: {}", part.status.as_str(), part.reason);
        parts.push(TestPart { name: part.part.clone(), state: "weaker", found });
    }
    let turns: u64 = record.attempts.iter().map(|attempt| attempt.turns).sum();
    parts.push(TestPart::new(
        "agent",
        turns > 0,
        format!("the built-in agent took {turns} turns with a scripted model"),
    ));
    let changed = changed_files(&run.path);
    parts.push(TestPart::new("changes", !changed.is_empty(), patch::total(&changed)));
    let accepted = record.attempts.iter().any(|attempt| attempt.accepted);
    parts.push(TestPart::new(
        "output",
        accepted,
        if accepted { "accepted by its schema" } else { "not accepted" }.to_owned(),
    ));
    let problems = verify::verify(run, None);
    let verified = if problems.is_empty() { "verified".to_owned() } else { problems.join("; ") };
    parts.push(TestPart::new("record", problems.is_empty(), verified));
    if let Some(reason) = record.reason.as_ref().filter(|reason| !reason.is_empty()) {
        parts.push(TestPart::new("run", false, reason.clone()));
    }
    parts
}

fn print(as_json: bool, works: bool, millis: u64, parts: &[TestPart]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let part = |part: &TestPart| json!({ "name": part.name, "state": part.state, "found": part.found });
        let parts: Vec<_> = parts.iter().map(part).collect();
        let answer =
            json!({ "works": works, "version": version::line(), "duration_ms": millis, "parts": parts });
        writeln!(out, "{answer:#}")?;
        return Ok(());
    }
    writeln!(out, "{}", version::line())?;
    for TestPart { name, state, found } in parts {
        writeln!(out, "{state:7} {name}: {}", clean_text(found.trim()))?;
    }
    if works {
        writeln!(out, "\nA whole run works here; it took {}.", duration(millis))?;
    }
    Ok(())
}
