//! `run.json`: the record of a run. It is folded from the events and from nothing else, so that it can be made again after
//! a crash.

pub mod configuration;
pub mod conversation;
pub mod costs;
pub mod dsse;
mod egress;
pub mod files;
pub mod page;
pub mod provenance;
pub mod statement;
pub mod store;
pub mod verify;

use std::collections::BTreeMap;
use std::path::Path;

use ::egress::event::EgressEvent;
use model::ModelEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::clock::Moment;
use crate::event::outcome::OutcomeKind;
use crate::event::{
    AgentEnding, EnforcementStatus, Envelope, FindingEvent, InputKind, RunEvent, SkillFetchEvent, Step,
    Violation,
};

/// The version of the record's format.
pub const VERSION: u32 = 1;

/// The record of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    pub v: u32,
    pub run_id: String,
    pub harness: String,
    pub runtime: String,
    /// The runtime's program; absent for `native`.
    #[serde(default)]
    pub program: Option<ProgramRecord>,
    /// As requested; `usage` names the models that answered.
    pub model: String,
    pub repository: String,
    /// The name of its directory on the host.
    #[serde(default)]
    pub repository_directory: String,
    /// The commit of the repository; empty if it has none.
    pub commit: String,
    pub branch: String,
    pub fullsend: String,
    pub started: String,
    pub finished: Option<String>,
    /// Absent while the run goes on, and after a crash until `fullsend sweep`.
    pub outcome: Option<OutcomeKind>,
    pub exit_code: Option<u8>,
    pub reason: Option<String>,
    /// Digests of all inputs, by kind and name.
    pub inputs: Vec<InputDigest>,
    /// Skills of the repository that a skill of the harness with the same name replaced.
    #[serde(default)]
    pub shadowed_skills: Vec<ShadowedSkill>,
    /// Skills that the agent asked for while it ran.
    #[serde(default)]
    pub skill_fetches: Vec<SkillFetchEvent>,
    pub steps: Vec<StepRecord>,
    pub attempts: Vec<AttemptRecord>,
    /// The schema of the accepted output, or `built-in`.
    pub schema: Option<String>,
    pub scripts: Vec<ScriptRecord>,
    /// Tokens and money by model.
    pub usage: BTreeMap<String, ModelUsage>,
    /// Connections out of the sandbox, by decision.
    pub egress: BTreeMap<String, u64>,
    /// Findings by severity. Waived ones are counted in `suppressed_findings`.
    pub findings: BTreeMap<String, u64>,
    #[serde(default)]
    pub suppressed_findings: u64,
    /// Scanners that failed, and why.
    #[serde(default)]
    pub broken_scanners: Vec<String>,
    /// Which scanner served a family of rules.
    #[serde(default)]
    pub scanners: BTreeMap<String, String>,
    /// The label that CI sets so that a person reviews this run.
    #[serde(default)]
    pub review_label: Option<String>,
    /// Which parts of the sandbox are enforced.
    pub sandbox: Vec<SandboxPartRecord>,
    pub proofs: Vec<ProofRecord>,
    pub toggles: Vec<Toggle>,
    pub exceptions: Vec<ExceptionRecord>,
    /// What the command line set.
    #[serde(default)]
    pub overrides: Vec<OverrideRecord>,
    pub artifacts: Vec<Artifact>,
    /// Events that happened too often to be written, by kind. `egress` includes them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counted_events: BTreeMap<String, u64>,
    /// The digest of the last event.
    pub chain_head: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputDigest {
    pub kind: InputKind,
    pub name: String,
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRecord {
    pub version: String,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShadowedSkill {
    pub skill: String,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    pub step: Step,
    pub started: String,
    pub duration_ms: Option<u64>,
    pub ok: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptRecord {
    pub script: String,
    pub exit: i32,
    pub duration_ms: u64,
}

/// One attempt of the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptRecord {
    pub iteration: u32,
    pub ending: Option<AgentEnding>,
    pub turns: u64,
    pub tool_calls: u64,
    /// Calls that the guard denied.
    pub denied_calls: u64,
    /// Tool results that came back without the guard's verdict.
    pub unseen_calls: Vec<String>,
    pub violations: Vec<Violation>,
    pub accepted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelUsage {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// Dollars; absent where the model has no price.
    pub usd: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPartRecord {
    pub part: String,
    pub status: EnforcementStatus,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofRecord {
    pub name: String,
    pub held: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Toggle {
    pub field: String,
    pub value: String,
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExceptionRecord {
    pub field: String,
    pub what: String,
    pub reason: String,
    pub until: String,
}

/// A field of the harness, or a variable, that the command line set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverrideRecord {
    pub field: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    pub path: String,
    pub sha256: String,
    pub bytes: u64,
}

impl Record {
    /// From the start to the end, in milliseconds. `None` while the run goes on.
    pub fn duration_ms(&self) -> Option<u64> {
        let millis = |text: &str| {
            let fraction = text.get(20..23).and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0);
            Some(Moment::parse(text)?.millis() + fraction)
        };
        Some(millis(self.finished.as_deref()?)?.saturating_sub(millis(&self.started)?))
    }

    /// Dollars over all models that have a price. `None` if no model with a price answered.
    pub fn usd(&self) -> Option<f64> {
        let mut priced = self.usage.values().filter_map(|used| used.usd).peekable();
        priced.peek()?;
        Some(priced.sum())
    }
}

/// The record of the events so far.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Record {
    let mut record = Record { v: VERSION, ..Record::default() };
    for envelope in events {
        apply(&mut record, envelope);
        record.chain_head.clone_from(&envelope.hash);
    }
    record
}

fn apply(record: &mut Record, envelope: &Envelope) {
    match envelope.event.clone() {
        RunEvent::RunStarted {
            run_id,
            harness,
            runtime,
            model,
            repository,
            repository_directory,
            fullsend,
        } => {
            *record = Record {
                run_id,
                harness,
                runtime,
                model,
                repository,
                repository_directory,
                fullsend,
                started: envelope.time.clone(),
                ..std::mem::take(record)
            };
        }
        RunEvent::Repository { commit, branch } => (record.commit, record.branch) = (commit, branch),
        RunEvent::Input { kind, name, sha256 } => record.inputs.push(InputDigest { kind, name, sha256 }),
        RunEvent::Program { version, place } => record.program = Some(ProgramRecord { version, place }),
        RunEvent::SkillShadowed { skill, place } => {
            record.shadowed_skills.push(ShadowedSkill { skill, place });
        }
        RunEvent::SkillFetch(fetch) => record.skill_fetches.push(fetch),
        RunEvent::Toggle { field, value, place } => record.toggles.push(Toggle { field, value, place }),
        RunEvent::Exception { field, what, reason, until } => {
            record.exceptions.push(ExceptionRecord { field, what, reason, until });
        }
        RunEvent::Override { field, value } => record.overrides.push(OverrideRecord { field, value }),
        RunEvent::StepStarted { step } => start_step(record, step, &envelope.time),
        RunEvent::StepFinished { step, duration_ms, ok } => finish_step(record, step, duration_ms, ok),
        RunEvent::Finding(FindingEvent { waiver: Some(_), .. }) => record.suppressed_findings += 1,
        RunEvent::Finding(finding) => {
            *record.findings.entry(finding.severity.as_str().to_owned()).or_default() += 1;
        }
        RunEvent::ScannerFailed { scanner, reason, .. } => {
            record.broken_scanners.push(format!("{scanner}: {reason}"));
        }
        RunEvent::Scanner { family, by } => drop(record.scanners.insert(family.as_str().to_owned(), by)),
        RunEvent::ReviewRequested { label } => record.review_label = Some(label),
        RunEvent::SandboxPart { part, status, reason } => {
            record.sandbox.push(SandboxPartRecord { part, status, reason });
        }
        RunEvent::Proof { name, held, .. } => record.proofs.push(ProofRecord { name, held }),
        RunEvent::Model { event } => count_usage(record, &event),
        RunEvent::Egress { event } => count_egress(record, &event),
        RunEvent::EventsCounted { kind, count } => count_unwritten(record, kind, count),
        RunEvent::Artifact { path, sha256, bytes } => record.artifacts.push(Artifact { path, sha256, bytes }),
        RunEvent::RunFinished { outcome, exit_code, reason } => {
            finish(record, &envelope.time, outcome, exit_code, reason);
        }
        RunEvent::ScriptFinished { script, exit, duration_ms } => {
            record.scripts.push(ScriptRecord { script, exit, duration_ms });
        }
        RunEvent::ApiServer { .. }
        | RunEvent::OperatorAction { .. }
        | RunEvent::ImagePull { .. }
        | RunEvent::AgentText { .. }
        | RunEvent::ToolFinished { .. }
        | RunEvent::Lasting { .. }
        | RunEvent::WorkspaceSaved { .. } => {}
        RunEvent::AgentStarted { iteration } => {
            record.attempts.push(AttemptRecord { iteration, ..AttemptRecord::default() });
        }
        RunEvent::ToolStarted { .. } => with_attempt(record, |attempt| attempt.tool_calls += 1),
        RunEvent::ToolDenied { .. } => with_attempt(record, |attempt| attempt.denied_calls += 1),
        RunEvent::HookMissing { reason, .. } => {
            with_attempt(record, |attempt| attempt.unseen_calls.push(reason));
        }
        RunEvent::AgentFinished { ending, turns, .. } => with_attempt(record, |attempt| {
            attempt.ending = Some(ending);
            attempt.turns = turns;
        }),
        RunEvent::OutputRejected { violations, .. } => {
            with_attempt(record, |attempt| attempt.violations = violations);
        }
        RunEvent::OutputAccepted { schema, .. } => {
            record.schema = Some(schema);
            with_attempt(record, |attempt| attempt.accepted = true);
        }
    }
}

fn finish(record: &mut Record, time: &str, outcome: OutcomeKind, exit_code: u8, reason: String) {
    record.finished = Some(time.to_owned());
    record.outcome = Some(outcome);
    record.exit_code = Some(exit_code);
    record.reason = Some(reason);
}

fn with_attempt(record: &mut Record, change: impl FnOnce(&mut AttemptRecord)) {
    if let Some(attempt) = record.attempts.last_mut() {
        change(attempt);
    }
}

fn start_step(record: &mut Record, step: Step, time: &str) {
    record.steps.push(StepRecord { step, started: time.to_owned(), duration_ms: None, ok: None });
}

fn finish_step(record: &mut Record, step: Step, duration_ms: u64, ok: bool) {
    if let Some(open) = record.steps.iter_mut().rev().find(|known| known.step == step && known.ok.is_none()) {
        (open.duration_ms, open.ok) = (Some(duration_ms), Some(ok));
    }
}

fn count_usage(record: &mut Record, event: &ModelEvent) {
    let ModelEvent::ModelAnswer { model, usage, cost, .. } = event else { return };
    // A failed request costs nothing, so it does not show whether the model has a price.
    if cost.is_none() && usage.total() == 0 {
        return;
    }
    let used = record.usage.entry(model.clone()).or_default();
    used.requests += 1;
    used.input += usage.input;
    used.output += usage.output;
    used.cache_read += usage.cache_read;
    used.cache_write += usage.cache_write + usage.cache_write_hour;
    used.usd = cost.map(|cost| used.usd.unwrap_or(0.0) + cost.0 as f64 / 1e9);
}

fn count_egress(record: &mut Record, event: &EgressEvent) {
    if let EgressEvent::Connection(connection) = event {
        *record.egress.entry(connection.decision.as_str().to_owned()).or_default() += 1;
    }
}

/// `count` is the number in the whole run.
fn count_unwritten(record: &mut Record, kind: String, count: u64) {
    let before = record.counted_events.get(&kind).copied().unwrap_or(0);
    if let Some(decision) = kind.strip_prefix("egress_") {
        *record.egress.entry(decision.to_owned()).or_default() += count.saturating_sub(before);
    }
    record.counted_events.insert(kind, count);
}

/// Writes `findings.jsonl` and `egress.jsonl`, the parts of the log that tools search.
pub fn project(directory: &Path, events: &[Envelope]) -> std::io::Result<()> {
    let is_finding =
        |event: &RunEvent| matches!(event, RunEvent::Finding(_) | RunEvent::ScannerFailed { .. });
    let findings = events.iter().filter(|envelope| is_finding(&envelope.event));
    let lines: String = findings
        .map(|envelope| format!("{}\n", serde_json::to_string(envelope).unwrap_or_default()))
        .collect();
    std::fs::write(directory.join("findings.jsonl"), lines)?;
    egress::write(directory, events)
}

/// Writes `run.json` by one rename, so that a reader sees the old file or the new one.
pub fn write(directory: &Path, record: &Record) -> std::io::Result<()> {
    let text = format!("{:#}\n", serde_json::to_value(record).unwrap_or_default());
    let temporary = directory.join(".run.json.new");
    std::fs::write(&temporary, text)?;
    std::fs::rename(temporary, directory.join("run.json"))
}
