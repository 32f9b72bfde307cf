//! Pipelines for harnesses, as text: one job for each harness, with the variables that it needs and no others. The harness's
//! `trigger` decides while the pipeline runs; the pipeline contains only the event types it can react to. This module reads no
//! environment and writes no file.

mod github;
mod gitlab;
mod tekton;

use std::collections::{BTreeMap, BTreeSet};

use trigger::{Trigger, event_variables, github_subscriptions};

use crate::check::Checked;
use crate::harness::names::ForgeName;
use crate::harness::provider;
use crate::harness::reference::LocalPath;
use crate::harness::template::Template;
use crate::resolve::library::Library;
use crate::resolve::variables::{CONFIGURATION_DIRECTORY, templates};

/// A system that runs pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CiSystem {
    Github,
    Gitlab,
    Tekton,
}

/// The jobs of a pipeline.
pub struct Pipeline {
    pub jobs: Vec<Job>,
    /// The forge whose events start the jobs.
    pub forge: ForgeName,
    /// Whether events of people without write access start jobs.
    pub allow_non_writers: bool,
}

/// One harness in a pipeline.
pub struct Job {
    pub harness: String,
    /// Absent: a person starts it.
    pub trigger: Option<Trigger>,
    pub timeout_minutes: u64,
    pub variables: BTreeMap<String, VariableKind>,
}

/// Where the value of a variable comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// The event: `fullsend run --event` sets it.
    Event,
    /// A secret of the CI.
    Secret,
    /// A CI secret that is a file: the variable is the file's path.
    File,
    /// A setting of the CI that anybody may see.
    Setting,
}

/// Minutes that a job has beside those of the agent: to install, to fetch, and for the scripts.
const EXTRA_MINUTES: u64 = 15;

/// A variable whose name contains one of these is a secret.
const SECRET_PARTS: &[&str] = &["TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "PRIVATE"];

/// A variable whose name has one of these words is a secret.
const SECRET_WORDS: &[&str] = &["PAT", "PWD", "AUTH", "DSN", "CERT"];

/// Variables that every job has.
const SET_BY_SYSTEM: &[&str] = &["HOME", "PATH", "CI_JOB_TOKEN"];
/// Prefixes of variables that the CI sets by itself. Secrets with such a prefix must still be passed.
const SET_BY_CI: &[&str] = &["GITHUB_", "RUNNER_", "CI_"];

impl CiSystem {
    /// The path of the pipeline's file in the repository.
    pub fn path(self) -> &'static str {
        match self {
            Self::Github => ".github/workflows/fullsend.yml",
            Self::Gitlab => ".gitlab/fullsend.yml",
            Self::Tekton => ".tekton/fullsend.yaml",
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Tekton => "tekton",
        }
    }
}

impl Pipeline {
    pub fn render(&self, system: CiSystem) -> String {
        match system {
            CiSystem::Github => github::render(self),
            CiSystem::Gitlab => gitlab::render(self),
            CiSystem::Tekton => tekton::render(self),
        }
    }

    /// The first lines: which command wrote the file, and how to check it.
    fn heading(&self, system: CiSystem) -> String {
        let word = system.word();
        format!(
            "# Written by `fullsend ci render {word} --write`; `fullsend ci render {word} --check` says whether it is up to date.\n\
             # The `trigger` of each harness in .fullsend decides which events start it. docs/ci.md explains this file.\n"
        )
    }

    /// The option of `fullsend trigger test` that ignores people without write access.
    fn writers_option(&self) -> &'static str {
        if self.allow_non_writers { "" } else { " --by-writers" }
    }

    /// The events of GitHub, with their types, that can start a job.
    fn subscriptions(&self) -> BTreeMap<&'static str, Vec<&'static str>> {
        let triggers: Vec<&Trigger> = self.jobs.iter().filter_map(|job| job.trigger.as_ref()).collect();
        github_subscriptions(&triggers)
    }

    /// The names of all variables of a kind, sorted.
    fn names(&self, kind: VariableKind) -> Vec<&str> {
        let all: BTreeSet<&str> = self.jobs.iter().flat_map(|job| job.names(kind)).collect();
        all.into_iter().collect()
    }
}

impl Job {
    pub fn new(checked: &Checked, library: &Library) -> Self {
        let harness = &checked.resolved.harness;
        let mut variables = BTreeMap::new();
        let mut add = |name: &str, kind: Option<VariableKind>| {
            let is_set_by_ci =
                SET_BY_CI.iter().any(|set| name.starts_with(set)) && kind_of(name) != VariableKind::Secret;
            if name != CONFIGURATION_DIRECTORY && !SET_BY_SYSTEM.contains(&name) && !is_set_by_ci {
                let known = variables.entry(name.to_owned()).or_insert_with(|| kind_of(name));
                *known = kind.unwrap_or(*known);
            }
        };
        harness.required_env.iter().for_each(|name| add(name.as_str(), None));
        for (_, _, template) in templates(harness) {
            template.variables().for_each(|name| add(name, None));
        }
        for file in &checked.providers {
            let settings = file.provider.config.iter().flat_map(|(_, value)| value.variables());
            settings.for_each(|name| add(name, None));
            let secrets = provider::credentials(&file.provider).flat_map(|(_, value)| value.variables());
            secrets.for_each(|name| add(name, Some(VariableKind::Secret)));
        }
        for file in &harness.host_files.0 {
            let is_whole = |name: &&str| file.src.raw() == format!("${{{name}}}");
            let path = file.src.variables().find(is_whole).filter(|_| file.optional != Some(true));
            path.into_iter().for_each(|name| add(name, Some(VariableKind::File)));
            if file.expand == Some(true) {
                variables_in_file(file.src.raw(), library).iter().for_each(|name| add(name, None));
            }
        }
        let trigger = harness.trigger.as_ref().and_then(|text| Trigger::compile(&text.value).ok());
        let timeout_minutes = harness.timeout_minutes.value.get() + EXTRA_MINUTES;
        Self { harness: checked.resolved.name.clone(), trigger, timeout_minutes, variables }
    }

    /// Its name where only lower-case letters, digits and `-` are allowed.
    fn resource_name(&self) -> String {
        format!("fullsend-{}", self.harness.to_ascii_lowercase().replace('_', "-").trim_end_matches('-'))
    }

    fn names(&self, wanted: VariableKind) -> impl Iterator<Item = &str> {
        self.variables.iter().filter(move |(_, kind)| **kind == wanted).map(|(name, _)| name.as_str())
    }
}

fn kind_of(name: &str) -> VariableKind {
    if event_variables().any(|known| known == name) {
        VariableKind::Event
    } else if SECRET_PARTS.iter().any(|part| name.contains(part))
        || name.split('_').any(|word| SECRET_WORDS.contains(&word))
    {
        VariableKind::Secret
    } else {
        VariableKind::Setting
    }
}

/// The variables in the contents of a file of the configuration. A file that cannot be read has none: `check` says why.
fn variables_in_file(path: &str, library: &Library) -> Vec<String> {
    let found = LocalPath::parse(path).ok().and_then(|path| library.layers.find(&path));
    let text = found.and_then(|found| library.layers.layer(&found).read(&found.path).ok());
    let template = text.and_then(|text| Template::parse(&text).ok());
    template.map(|template| template.variables().map(str::to_owned).collect()).unwrap_or_default()
}

/// Each line with spaces before it.
fn indent(text: &str, spaces: usize) -> String {
    let prefix = " ".repeat(spaces);
    text.lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{prefix}{line}\n") })
        .collect()
}
