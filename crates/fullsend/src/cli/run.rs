//! `fullsend run`: runs one harness.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;
use trigger::{TriggerEvent, event_variables, is_free_text};
use yaml::Diagnostic;

use super::changed_files::changed_files;
use super::ci_outputs;
use super::configuration::{Configuration, ConfigurationOptions, variable, xdg_directory};
use super::env_file;
use super::executor;
use super::exit::{Exit, Failure};
use super::lock_options::LockOptions;
use super::original_options::OriginalOptions;
use super::policy;
use super::progress::Progress;
use super::pull_options::PullOptions;
use super::run_options::{RunOptions, ask_harness};
use super::run_result::{ResultForm, ResultOptions};
use crate::cancel::Cancel;
use crate::event::Envelope;
use crate::event::clock::Moment;
use crate::event::log;
use crate::harness::Harness;
use crate::preflight::{PreflightContext, preflight};
use crate::provision::gateway::Recording;
use crate::record::store::{self, Retention};
use crate::record::{self, files};
use crate::render::closing::{self, RunFiles};
use crate::render::diagnostics::clean_text;
use crate::render::dry_run;
use crate::resolve::variables::{Strictness, kept_by_host};
use crate::resolve::{Choices, Resolved};
use crate::run::extra_files::ExtraFiles;
use crate::run::workspace::{SAVED_WORKSPACE, SaveWorkspace};
use crate::run::{self, Outcome, Request, StartedBy};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Harness to run
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    pull: PullOptions,
    #[command(flatten)]
    lock: LockOptions,
    #[command(flatten)]
    original: OriginalOptions,
    /// Store runs in this directory [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Print the events to standard output, one JSON object per line, instead of the result
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    result: ResultOptions,
    /// Print only errors
    #[arg(long, short)]
    quiet: bool,
    /// Record every exchange with the model in this directory, redacted
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Replay a recording instead of asking a model; a request that is not in it ends the run
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
    /// Save a copy of the agent's workspace for `fullsend enter`
    #[arg(long, value_enum, default_value_t = KeepWhen::Never, value_name = "WHEN")]
    keep: KeepWhen,
    /// Sign the record with this ed25519 key (PKCS#8 PEM), or with `exec:COMMAND` [default: FULLSEND_SIGN_KEY]
    #[arg(long, value_name = "KEY")]
    sign: Option<String>,
    /// Print what would run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// The operator of `serve` who starts the run
    #[arg(long, value_name = "NAME", hide = true, requires = "run_id")]
    started_by: Option<String>,
    /// The id of the run, which the operator knows already
    #[arg(long, value_name = "ID", hide = true, requires = "started_by")]
    run_id: Option<uuid::Uuid>,
    #[command(flatten)]
    place: ConfigurationOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KeepWhen {
    OnFailure,
    Always,
    Never,
}

impl From<KeepWhen> for SaveWorkspace {
    fn from(when: KeepWhen) -> Self {
        match when {
            KeepWhen::OnFailure => Self::OnFailure,
            KeepWhen::Always => Self::Always,
            KeepWhen::Never => Self::Never,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let named = arguments.options.harness(&arguments.names)?;
    let event = arguments.options.read_event()?;
    let inputs = arguments.options.read(event.as_ref())?;
    let mut opened = arguments.place.open()?;
    let name = named.unwrap_or_else(|| ask_harness(&opened));
    arguments.add_choices(&mut opened.choices);
    let environment = arguments.environment(event.as_ref())?;
    let mut problems = Vec::new();
    let Some(checked) = prepare(&mut opened, arguments, &environment, name, &mut problems) else {
        super::check::show(&opened.library.sources, &problems);
        return Ok(super::check::verdict(&problems));
    };
    if !arguments.quiet {
        super::check::show(&opened.library.sources, &problems);
        arguments.original.warnings().iter().for_each(|line| super::write_stderr(line));
    }
    if arguments.options.has_event() {
        refuse_text_of_event(&checked.resolved.harness)?;
    }
    if arguments.dry_run {
        write!(std::io::stdout().lock(), "{}", dry_run::steps(&checked))?;
        super::write_stderr(&format!(
            "dry run: nothing was started; `fullsend explain {name}` shows every value\n"
        ));
        return Ok(Exit::Done);
    }
    let runs = arguments.output_dir.clone().map_or_else(runs_directory, Ok)?;
    let retention = retention()?;
    let signer = super::signing::signer(arguments.sign.as_deref(), &environment)?.map(Arc::new);
    let executor = executor::start(2)?;
    for problem in run::sweep::sweep(&runs).problems {
        super::write_stderr(&format!("warning: cannot clean up an earlier run: {problem}\n"));
    }
    log_exceptions(&checked.resolved, &opened.choices, &runs)?;
    forbid_core_dumps()?;
    let progress = Progress::choose(arguments.json, arguments.quiet);
    let choices = opened.choices.clone();
    let output_file = checked.resolved.harness.output_file.value.clone();
    let request = Request {
        checked,
        repository_name: opened.choices.repo.clone(),
        repository: opened.repository.clone(),
        library: opened.library,
        runs: runs.clone(),
        environment,
        executor: executor.handle().clone(),
        save_workspace: arguments.save_workspace(),
        model_retry_timeout: None,
        session_spent: None,
        context: inputs.context,
        conversation: None,
        extra_files: ExtraFiles { mounts: inputs.mounts, ..ExtraFiles::default() },
        confirmer: None,
        started_by: arguments.started_by(),
        signer,
        variables: BTreeMap::new(),
        recording: recording(arguments),
        listener: progress.listener(),
        script_output: progress.script_output(),
    };
    let cancel = Cancel::default();
    super::signals::watch(executor.handle(), &cancel)?;
    let outcome = run::run(request, &cancel);
    let result = outcome.artifacts.as_ref().map(|artifacts| artifacts.directory().join(output_file.as_str()));
    progress.finish(outcome.directory.as_deref(), result.as_deref());
    store::retain(&runs, retention);
    if let Some(file) = &result {
        let form = if named.is_none() { ResultForm::Text } else { ResultForm::Json };
        arguments.result.print(file, form, arguments.json)?;
    }
    progress.close(&closing_lines(&outcome, &choices, &arguments.place));
    if !arguments.quiet {
        mention_audited(&outcome);
    }
    super::telemetry::send(outcome.directory.as_deref());
    conclude(&outcome, arguments);
    ci_outputs::write(&outcome, output_file.as_str())?;
    Ok(outcome.exit())
}

impl Arguments {
    /// The host's environment with the variables of the event, of files and of the command line; the later wins. With an event
    /// all its variables are set, so that a harness can name one that this event does not have.
    fn environment(&self, event: Option<&TriggerEvent>) -> Result<BTreeMap<String, String>, Failure> {
        let mut all = environment();
        if self.options.has_event() {
            for name in event_variables() {
                all.entry(name.to_owned()).or_default();
            }
        }
        let of_event = event.map(TriggerEvent::variables).unwrap_or_default();
        all.extend(of_event.into_iter().map(|(name, value)| (name.to_owned(), value)));
        all.extend(env_file::read_all(&self.original.env_file)?);
        all.extend(self.options.variables().iter().cloned());
        Ok(all)
    }

    /// Adds the options to the choices. An option replaces the same field from the environment.
    fn add_choices(&self, choices: &mut Choices) {
        let mut values = self.options.values();
        values.extend(self.original.values());
        choices.command_line.retain(|old| values.iter().all(|new| new.field != old.field));
        choices.command_line.extend(values);
        choices.variables = self.options.variable_names();
        choices.pull = self.pull.mode();
        self.lock.choose(choices);
    }

    fn started_by(&self) -> Option<StartedBy> {
        let run_id = self.run_id?.to_string();
        Some(StartedBy { operator: self.started_by.clone()?, run_id })
    }

    fn save_workspace(&self) -> SaveWorkspace {
        if self.original.keep_sandbox { SaveWorkspace::Always } else { self.keep.into() }
    }
}

/// Text from a forge may be the value of a variable, but never a part of a command or of a path of the host.
fn refuse_text_of_event(harness: &Harness) -> Result<(), Failure> {
    let kept = kept_by_host(harness);
    match kept.iter().find(|name| is_free_text(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::new(
            Exit::Invalid,
            format!("{name} is text that anybody may have written, and the harness puts it into a command, a path, an image or a header"),
        )
        .help(format!("pass it as `env.runner.{name}: ${{{name}}}`, and read it in a script"))),
    }
}

/// Every command that reads credentials calls this first.
pub(super) fn forbid_core_dumps() -> Result<(), Failure> {
    crate::credentials::forbid_core_dumps().map_err(|error| {
        Failure::new(Exit::SandboxUnavailable, format!("cannot turn off core dumps: {error}"))
    })
}

/// The checks of `fullsend check`, with the variables that a run needs.
fn prepare(
    opened: &mut Configuration,
    arguments: &Arguments,
    environment: &BTreeMap<String, String>,
    name: &str,
    problems: &mut Vec<Diagnostic>,
) -> Option<crate::check::Checked> {
    let recording = recording(arguments);
    let context = PreflightContext {
        environment: &|name| environment.get(name).cloned(),
        strictness: Strictness::Required,
        repository: &opened.repository,
        recording: recording.as_ref(),
    };
    preflight(&mut opened.library, name, &opened.choices, &context, problems)
}

fn recording(arguments: &Arguments) -> Option<Recording> {
    let record = arguments.record.clone().map(Recording::Record);
    record.or_else(|| arguments.replay.clone().map(Recording::Replay))
}

/// Requests that passed only because their endpoint audits.
fn mention_audited(outcome: &Outcome) {
    let record = outcome.directory.as_deref().and_then(|directory| run::rebuild_record(directory).ok());
    let count = record.and_then(|record| record.egress.get("audited").copied()).unwrap_or_default();
    if count > 0 {
        let requests = if count == 1 { "1 request".to_owned() } else { format!("{count} requests") };
        super::write_stderr(&format!(
            "audited: {requests} passed that `enforcement: enforce` would refuse; `fullsend runs show` lists them\n"
        ));
    }
}

/// The last line says how the run ended.
fn conclude(outcome: &Outcome, arguments: &Arguments) {
    let word = outcome.kind().as_str();
    let directory = outcome.directory.as_ref().map(|path| path.display().to_string());
    if outcome.exit() == Exit::Done && !arguments.quiet {
        super::write_stderr(&format!("{word}: {}\n", directory.unwrap_or_default()));
    } else if outcome.exit() != Exit::Done {
        let record = directory.map(|directory| format!("record: {directory}\n")).unwrap_or_default();
        super::write_stderr(&format!("{record}fullsend: {word}: {}\n", clean_text(&outcome.reason)));
    }
}

/// The summary at the end, from the run's directory.
fn closing_lines(outcome: &Outcome, choices: &Choices, place: &ConfigurationOptions) -> Vec<String> {
    let Some(directory) = &outcome.directory else { return Vec::new() };
    let Ok(events) = log::read(&directory.join("events.jsonl")) else { return Vec::new() };
    let can_enter = directory.join(SAVED_WORKSPACE).is_dir();
    let mut kept = files::kept(directory);
    kept.extend(can_enter.then(|| SAVED_WORKSPACE.to_owned()));
    let advice = advice(&events, choices, place).unwrap_or_default();
    let left = RunFiles { changed: changed_files(directory), kept, can_enter, advice };
    closing::lines(&events, &record::fold(&events), &left)
}

/// What would have allowed the refused requests of the run; empty if that is unknown.
fn advice(
    events: &[Envelope],
    choices: &Choices,
    place: &ConfigurationOptions,
) -> Option<Vec<(String, String)>> {
    if policy::advice::refused(events).0.is_empty() {
        return None;
    }
    let mut opened = place.open().ok()?;
    opened.choices = choices.clone();
    let checked = policy::advice::checked(&mut opened, events, &mut Vec::new())?;
    let advice = policy::advice::advise(&mut opened.library, &checked, events);
    Some(advice.parts().into_iter().map(|(file, lines)| (file.to_owned(), lines)).collect())
}

/// Appends every use of an exception to `audit.jsonl`, beside the runs.
fn log_exceptions(resolved: &Resolved, choices: &Choices, runs: &Path) -> Result<(), Failure> {
    if resolved.exceptions.is_empty() {
        return Ok(());
    }
    let path = runs.with_file_name("audit.jsonl");
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(path.parent().unwrap_or(runs)).map_err(failed)?;
    let mut file = std::fs::File::options().create(true).append(true).open(&path).map_err(failed)?;
    for exception in &resolved.exceptions {
        let line = json!({
            "time": Moment::now().rfc3339(), "harness": resolved.name, "repository": choices.repo,
            "field": exception.field, "what": exception.what, "reason": exception.reason, "until": exception.until,
        });
        writeln!(file, "{line}").map_err(failed)?;
    }
    Ok(())
}

pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The bounds on stored runs: the built-in ones, or those of the environment.
fn retention() -> Result<Retention, Failure> {
    let number = |name: &str| {
        match variable(name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
            Failure::new(Exit::Usage, format!("`{text}` is not a valid {name}: it must be a whole number"))
                .help("FULLSEND_KEEP_RUNS is a number of runs, FULLSEND_KEEP_MB of mebibytes; the oldest runs are removed first")
        }),
    }
    };
    let usual = Retention::default();
    let runs = number("FULLSEND_KEEP_RUNS")?.and_then(|most| usize::try_from(most).ok());
    let bytes = number("FULLSEND_KEEP_MB")?.map(|most| most.saturating_mul(1 << 20));
    Ok(Retention { runs: runs.unwrap_or(usual.runs), bytes: bytes.unwrap_or(usual.bytes) })
}

pub fn runs_directory() -> Result<PathBuf, Failure> {
    let state = xdg_directory("XDG_STATE_HOME");
    let state = state.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map(|state| state.join("fullsend/runs")).ok_or_else(|| {
        Failure::new(Exit::Missing, "neither XDG_STATE_HOME nor HOME is set")
            .help("name a directory with --output-dir")
    })
}
