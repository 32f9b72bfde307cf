//! Makes a judge from a harness: toggles, known values, tool allowlist, waivers, programs of the host. A setting that
//! cannot be fulfilled is an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redact::{Canary, Severity};
use scan::{Day, LearnedScanner, OriginThresholds, Scanner, ScoredUnit, Toggles, Waiver};
use shell::{Allowlist, Isolation};
use yaml::Spanned;

use super::dialect::HookDialect;
use super::judge::Judge;
use super::known_values::{KnownValues, Patterns};
use super::learned_model;
use super::tirith::Tirith;
use super::weights_file::{self, WeightsSearch};
use crate::event::RunEvent;
use crate::event::finding::FindingFamily;
use crate::harness::Harness;
use crate::harness::config::Config;
use crate::harness::names::Threshold;
use crate::harness::security::{self, FailMode, FailOn, RuleAction, Security};

/// The variable that holds the tool allowlist.
const ALLOWLIST: &str = "FULLSEND_TOOL_ALLOWLIST";

/// The end of a waiver that has none.
const LAST_DAY: &str = "9999-12-31";

/// What a guard is made from.
pub struct GuardSetup<'a> {
    pub harness: &'a Harness,
    /// How the hooks of the run's runtime ask.
    pub dialect: &'static HookDialect,
    /// The value of `FULLSEND_TOOL_ALLOWLIST`.
    pub allowlist: Option<&'a str>,
    pub waivers: Vec<Waiver>,
    /// YYYY-MM-DD.
    pub today: &'a str,
    /// The host's `PATH`, to find scanner programs.
    pub path: &'a str,
    /// The weights file of the learned scanner on this host, for a harness that names none.
    pub weights: WeightsSearch,
    /// Where originals of withheld texts are kept.
    pub run_directory: Option<&'a Path>,
    /// The tools of MCP servers in `fullsend.lock`, with their digests.
    pub tool_digests: Vec<(String, String)>,
    /// Whether another tool, or a changed one, stops the run.
    pub tools_are_locked: bool,
}

/// A guard that cannot be set up as the harness asks.
#[derive(Debug)]
pub enum GuardError {
    Canary(redact::ValueTooShort),
    NoAllowlist,
    /// The harness sets the tool allowlist from a variable that is not set.
    AllowlistUnset {
        map: &'static str,
        variable: String,
    },
    /// The learned scanner is required, and its weights file is in none of these places.
    NoModel(Vec<PathBuf>),
    /// The weights file that the harness names is not there.
    NoWeights(String),
}

impl std::fmt::Display for GuardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Canary(error) => error.fmt(f),
            Self::NoAllowlist => f.write_str(
                "`tool_allowlist_pretool` is on and FULLSEND_TOOL_ALLOWLIST names no tool: set it to names separated by commas",
            ),
            Self::AllowlistUnset { map, variable } => {
                write!(f, "{ALLOWLIST} in `env.{map}`: {variable} is not set")
            }
            Self::NoModel(places) => {
                let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
                let places = if places.is_empty() { "nowhere".to_owned() } else { places.join(", ") };
                write!(f, "`llm_guard.required` is set, and the weights file of the learned scanner is not on this host (looked for: {places}): install it there, or name it in `llm_guard.model`")
            }
            Self::NoWeights(path) => {
                write!(f, "`llm_guard.model`: there is no file {path}; name the weights file of the learned scanner")
            }
        }
    }
}

impl std::error::Error for GuardError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Canary(error) => Some(error),
            _ => None,
        }
    }
}

impl GuardSetup<'_> {
    /// A random canary token, if the run uses one.
    pub(super) fn canary(&self) -> Option<String> {
        let hooks = &self.harness.security.sandbox_hooks;
        let looked_for = hooks.canary_pretool.value || hooks.canary_posttool.value;
        looked_for.then(|| format!("fs{}", uuid::Uuid::new_v4().simple()))
    }

    pub(super) fn judge(self, canary: Option<&str>) -> Result<Judge, GuardError> {
        let security = &self.harness.security;
        let known = Arc::new(KnownValues::new(Patterns {
            results: security.sandbox_hooks.secret_redact_posttool.value,
            written: security.host_scanners.secret_redactor.value,
        }));
        if let Some(token) = canary {
            known.add("canary", token).map_err(GuardError::Canary)?;
        }
        let tirith = &security.sandbox_hooks.tirith;
        Ok(Judge {
            scanner: Scanner::new(toggles(security)),
            learned: learned(security, self.weights)?,
            known,
            fail_mode: security.fail_mode.value,
            fail_on: severity(tirith.fail_on.value),
            canary: canary.and_then(|token| Canary::new(token).ok()).map(Arc::new),
            allowlist: tools_allowed(security, self.allowlist)?,
            rules_off: rules_off(security),
            waivers: rules_that_report(security).chain(self.waivers).collect(),
            today: Day::parse(self.today),
            tirith: Tirith::find(self.path).filter(|_| tirith.enabled.value),
            isolation: isolation(self.harness),
        })
    }
}

impl Judge {
    /// A judge without a run, for texts that a person or a CI job gives.
    pub fn built_in(toggles: Toggles, path: &str) -> Self {
        Self {
            scanner: Scanner::new(toggles),
            learned: LearnedScanner::default(),
            known: Arc::new(KnownValues::new(Patterns {
                results: toggles.secret_redact_posttool,
                written: toggles.secret_redactor,
            })),
            fail_mode: FailMode::Closed,
            fail_on: Severity::High,
            canary: None,
            allowlist: None,
            rules_off: Vec::new(),
            waivers: Vec::new(),
            today: None,
            tirith: Tirith::find(path).filter(|_| toggles.tirith),
            isolation: Isolation::None,
        }
    }
}

/// Options of a judge without a run.
impl Judge {
    #[must_use]
    pub fn with_allowlist(self, list: Allowlist) -> Self {
        Self { allowlist: Some(list), ..self }
    }

    /// The learned scanner with this weights file. The model finds its own windows in the text.
    #[must_use]
    pub fn with_model(self, path: &Path, threshold: f32) -> Self {
        let model = Some(learned_model::model(path.to_owned()));
        let toggles = Toggles { llm_guard: true, ..*self.scanner.toggles() };
        let learned = LearnedScanner { model, threshold, ..LearnedScanner::default() };
        Self { learned, scanner: Scanner::new(toggles), ..self }
    }

    #[must_use]
    pub fn with_canary(self, canary: Canary) -> Self {
        Self { canary: Some(Arc::new(canary)), ..self }
    }

    /// An organisation's waivers, as of today (YYYY-MM-DD).
    #[must_use]
    pub fn with_waivers(self, waivers: Vec<Waiver>, today: &str) -> Self {
        Self { waivers, today: Day::parse(today), ..self }
    }

    /// Commands that run in a sandbox of ours.
    #[must_use]
    pub fn with_isolation(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    #[must_use]
    pub fn with_fail_on(self, fail_on: Severity) -> Self {
        Self { fail_on, ..self }
    }
}

/// What every run reports about its guard.
pub(super) fn setup_events(judge: &Judge) -> Vec<RunEvent> {
    let toggles = judge.scanner.toggles();
    let mut events = Vec::new();
    if toggles.tirith {
        let by = match &judge.tirith {
            Some(_) => "the built-in rules and the program tirith",
            None => "the built-in rules; the program tirith is not on this host",
        };
        events.push(RunEvent::Scanner { family: FindingFamily::Commands, by: by.to_owned() });
    }
    if judge.learned.model.is_some() {
        let by = format!("the learned scanner, from a score of {}", judge.learned.threshold);
        events.push(RunEvent::Scanner { family: FindingFamily::LlmGuard, by });
    }
    events
}

/// The organisation's waivers. Invalid ones were reported when their file was read.
pub fn waivers(organisation: Option<&Config>) -> Vec<Waiver> {
    let entries = organisation.map_or(&[][..], |config| &config.suppressions[..]);
    let made = entries.iter().map(|entry| {
        let path = entry.path.as_ref().map_or("**", |path| path.value.as_str());
        Waiver::new(&entry.rule, path, &entry.reason, &entry.until)
    });
    made.filter_map(Result::ok).collect()
}

/// The rules that the harness turns off.
fn rules_off(security: &Security) -> Vec<String> {
    let off = security.rules.iter().filter(|(_, setting)| setting.action.value == RuleAction::Off);
    off.map(|(name, _)| name.value.clone()).collect()
}

/// A rule that only reports gets a waiver for every place, without an end.
fn rules_that_report(security: &Security) -> impl Iterator<Item = Waiver> {
    let reporting = security.rules.iter().filter(|(_, setting)| setting.action.value == RuleAction::Report);
    reporting.filter_map(|(name, setting)| Waiver::new(name, "**", setting.reason.as_ref()?, LAST_DAY).ok())
}

/// If the harness accepts a weaker sandbox, commands are judged as without a sandbox.
fn isolation(harness: &Harness) -> Isolation {
    if harness.sandbox.accept_weaker.is_empty() { Isolation::Sandbox } else { Isolation::None }
}

fn severity(fail_on: FailOn) -> Severity {
    match fail_on {
        FailOn::Critical => Severity::Critical,
        FailOn::High => Severity::High,
        FailOn::Medium => Severity::Medium,
    }
}

/// Weights that the harness names must exist. The installed ones may be missing, unless the scanner is required.
pub fn learned(security: &Security, installed: WeightsSearch) -> Result<LearnedScanner, GuardError> {
    let wanted = &security.host_scanners.llm_guard;
    let match_type = match wanted.match_type.value {
        security::MatchType::Sentence => ScoredUnit::Sentence,
        security::MatchType::Full => ScoredUnit::Full,
    };
    #[expect(clippy::cast_possible_truncation, reason = "a threshold needs no more digits")]
    let number = |threshold: &Spanned<Threshold>| threshold.get() as f32;
    let by_origin = OriginThresholds {
        instruction: wanted.threshold_instruction.as_ref().map(number),
        tool: wanted.threshold_tool.as_ref().map(number),
        issue: wanted.threshold_issue.as_ref().map(number),
    };
    let path = match &wanted.model {
        _ if !is_learned_wanted(security) => None,
        Some(named) if !Path::new(&named.value).is_file() => {
            return Err(GuardError::NoWeights(named.value.clone()));
        }
        Some(named) => Some(PathBuf::from(&named.value)),
        None if wanted.required.value && installed.found.is_none() => {
            return Err(GuardError::NoModel(installed.places));
        }
        None => installed.found,
    };
    let model = path.map(learned_model::model);
    Ok(LearnedScanner { model, threshold: number(&wanted.threshold), by_origin, match_type })
}

fn is_learned_wanted(security: &Security) -> bool {
    let wanted = &security.host_scanners.llm_guard;
    wanted.enabled.value || wanted.required.value
}

/// The tool allowlist that the agent or the scripts would see, else the host's own. A variable that the harness sets and
/// that is not set on the host is an error: the host's own list must not take its place.
pub fn tool_allowlist(
    harness: &Harness,
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, GuardError> {
    if harness.security.sandbox_hooks.tool_allowlist_pretool.enabled.value {
        for (map, variables) in [("sandbox", &harness.env.sandbox), ("runner", &harness.env.runner)] {
            if let Some((_, text)) = variables.0.iter().find(|(name, _)| name.value == ALLOWLIST) {
                let unset = |name: &str| GuardError::AllowlistUnset { map, variable: name.to_owned() };
                return text.expand(value).map(Some).map_err(unset);
            }
        }
    }
    Ok(value(ALLOWLIST))
}

/// Whether a guard can be set up as the harness asks.
pub fn check(harness: &Harness, value: &dyn Fn(&str) -> Option<String>) -> Result<(), GuardError> {
    learned(&harness.security, weights_file::find(value))?;
    let allowlist = tool_allowlist(harness, value)?;
    tools_allowed(&harness.security, allowlist.as_deref()).map(drop)
}

/// An empty allowlist is an error; it does not allow everything.
fn tools_allowed(security: &Security, list: Option<&str>) -> Result<Option<Allowlist>, GuardError> {
    if !security.sandbox_hooks.tool_allowlist_pretool.enabled.value {
        return Ok(None);
    }
    Allowlist::parse(list.unwrap_or_default()).map(Some).map_err(|_| GuardError::NoAllowlist)
}

/// The scanners' toggles, from the harness.
pub fn toggles(security: &Security) -> Toggles {
    let host = &security.host_scanners;
    let hooks = &security.sandbox_hooks;
    Toggles {
        unicode_normalizer: host.unicode_normalizer.value,
        context_injection: host.context_injection.value,
        ssrf_validator: host.ssrf_validator.value,
        secret_redactor: host.secret_redactor.value,
        llm_guard: is_learned_wanted(security),
        tirith: hooks.tirith.enabled.value,
        ssrf_pretool: hooks.ssrf_pretool.value,
        secret_redact_posttool: hooks.secret_redact_posttool.value,
        unicode_posttool: hooks.unicode_posttool.value,
        context_suppress_posttool: hooks.context_suppress_posttool.value,
        canary_pretool: hooks.canary_pretool.value,
        canary_posttool: hooks.canary_posttool.value,
        tool_allowlist_pretool: hooks.tool_allowlist_pretool.enabled.value,
    }
}
