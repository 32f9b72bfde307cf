//! The part of a run on the host, outside the sandbox: scripts, their environment, guard and credentials.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::script_output::{self, OnScriptOutput, ScriptOutput};
use super::steps::Steps;
use super::{RunDirectory, Stop, prescript};
use crate::cancel::Cancel;
use crate::check::Checked;
use crate::credentials::{self, CredentialError, Credentials, Learn};
use crate::event::RunEvent;
use crate::event::log::{Emitter, sha256};
use crate::guard::{self, Blocked, Guard, GuardError, GuardSetup};
use crate::inputs;
use crate::provision::gateway::Recording;
use crate::publish::Artifacts;
use crate::quarantine::Quarantined;
use crate::record::verify;
use crate::resolve::layers::LayerPath;
use crate::resolve::library::Library;
use crate::resolve::variables;
use crate::runtime;
use crate::scripts::{self, Script, ScriptExit};

const PREFLIGHT_TIME: Duration = Duration::from_secs(30);

/// How many characters of the validation script's output go into the feedback.
const MAX_FEEDBACK: usize = 16 << 10;

/// Shorter values are not masked: they occur in ordinary text.
const MIN_SECRET: usize = 8;

/// What the scripts of a run need.
pub(super) struct Host<'a> {
    pub(super) library: &'a Library,
    pub(super) repository: &'a Path,
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) directory: &'a RunDirectory,
    pub(super) script_output: Option<&'a OnScriptOutput>,
}

fn make_guard(
    checked: &Checked,
    value: &dyn Fn(&str) -> Option<String>,
    path: &str,
    run_directory: Option<&Path>,
    emit: &Emitter,
) -> Result<Guard, GuardError> {
    let allowed = guard::tool_allowlist(&checked.resolved.harness, value)?;
    let setup = GuardSetup {
        harness: &checked.resolved.harness,
        dialect: runtime::of(checked.resolved.harness.runtime.value).dialect,
        allowlist: allowed.as_deref(),
        waivers: guard::waivers(checked.resolved.organisation.as_deref()),
        today: checked.resolved.override_scope().today,
        path,
        weights: guard::weights_file::find(value),
        run_directory,
        tool_digests: checked.resolved.locked_tools.clone(),
        tools_are_locked: checked.resolved.lock.is_some(),
    };
    Guard::new(setup, emit)
}

/// Why the guard of a run would refuse the files of this harness. Errors that keep the guard from starting are not
/// reported here.
pub(crate) fn refused_files(
    checked: Checked,
    library: &Library,
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<Blocked> {
    let emit = Emitter::discarding().ok()?;
    let path = value("PATH").unwrap_or_default();
    let guard = make_guard(&checked, value, &path, None, &emit).ok()?;
    inputs::scan_harness(checked, library, &guard, &emit).err()
}

impl Host<'_> {
    /// The environment of a script: the documented base, then `required_env`, then `env.runner`. The last one wins.
    pub(super) fn script_environment(
        &self,
        checked: &Checked,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> BTreeMap<String, String> {
        let harness = &checked.resolved.harness;
        let mut all = scripts::base_environment(self.environment);
        all.extend(
            harness
                .required_env
                .iter()
                .filter_map(|name| Some((name.as_str().to_owned(), value(name.as_str())?))),
        );
        for map in [&harness.runner_env, &harness.env.runner] {
            all.extend(
                map.0.iter().filter_map(|(name, text)| Some((name.value.clone(), text.expand(value).ok()?))),
            );
        }
        let configuration = value(variables::CONFIGURATION_DIRECTORY);
        all.extend(configuration.map(|path| (variables::CONFIGURATION_DIRECTORY.to_owned(), path)));
        let schema = checked.schema.as_ref().and_then(|schema| self.library.layers.host_path(&schema.found));
        let schema = schema.map(|path| path.to_string_lossy().into_owned());
        all.extend(schema.map(|path| ("FULLSEND_OUTPUT_SCHEMA".to_owned(), path)));
        all.insert("FULLSEND_OUTPUT_FILE".to_owned(), harness.output_file.to_string());
        all.insert("FULLSEND_RUN_DIR".to_owned(), self.directory.path.to_string_lossy().into_owned());
        all.insert("TARGET_REPO_DIR".to_owned(), self.repository.to_string_lossy().into_owned());
        all
    }

    /// Registers the secrets in the scripts' environment, so that they are masked in the scripts' output.
    pub(super) fn add_known_secrets(environment: &BTreeMap<String, String>, guard: &Guard) {
        for (name, value) in environment {
            if redact::names_secret(name) && value.len() >= MIN_SECRET {
                drop(guard.add_known_value(name, value));
                continue;
            }
            for secret in redact::find_secrets(value) {
                drop(guard.add_known_value(name, &value[secret.range]));
            }
        }
    }

    /// The guard of this run, from the harness and what the organisation accepts.
    pub(super) fn guard(
        &self,
        checked: &Checked,
        value: &dyn Fn(&str) -> Option<String>,
        emit: &Emitter,
    ) -> Result<Guard, Stop> {
        let path = self.environment.get("PATH").map_or("", String::as_str);
        Ok(make_guard(checked, value, path, Some(&self.directory.path), emit)?)
    }

    /// Loads the run's credentials and makes each known to the guard. A replayed model needs none.
    pub(super) fn credentials(
        &self,
        checked: &Checked,
        recording: Option<&Recording>,
        value: &dyn Fn(&str) -> Option<String>,
        guard: &Guard,
    ) -> Result<Credentials, CredentialError> {
        let host = credentials::CredentialHost {
            environment: scripts::base_environment(self.environment),
            variables: value,
            working_directory: self.repository,
        };
        let guard = guard.clone();
        let learn: Learn = Arc::new(move |name, value| {
            guard.add_known_value(name, value).map_err(|_| credentials::TOO_SHORT.to_owned())
        });
        let replayed = matches!(recording, Some(Recording::Replay(_)));
        let needed = checked.providers.iter().filter(|file| !(replayed && file.inference_capable()));
        credentials::load(needed, &host, &learn)
    }

    /// Takes `Artifacts`, so that it cannot run without accepted output.
    pub(super) fn post_script(
        &self,
        found: &LayerPath,
        mut variables: BTreeMap<String, String>,
        artifacts: &Artifacts,
        guard: &Guard,
        steps: &Steps<'_>,
    ) -> Result<(), Stop> {
        // An unset variable would fail in a script with `set -u`.
        let text =
            |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        for (name, path) in [
            ("FULLSEND_VALIDATED_ITERATION_DIR", Some(artifacts.directory())),
            ("REPO_DIR", artifacts.repository()),
            ("FULLSEND_CHANGES", artifacts.patch()),
        ] {
            variables.insert(name.to_owned(), text(path));
        }
        let place = &self.directory.path;
        let ended = self.start("post_script", found, &variables, (place, place), guard, steps)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(Stop::script("post_script", ended.code(), &ended.output))
    }

    /// Runs a script to its end and saves its output, redacted. The two directories are the working directory and that of
    /// the log.
    fn start(
        &self,
        name: &str,
        found: &LayerPath,
        environment: &BTreeMap<String, String>,
        (working_directory, log): (&Path, &Path),
        guard: &Guard,
        steps: &Steps<'_>,
    ) -> Result<ScriptExit, Stop> {
        let program = self
            .library
            .layers
            .host_path(found)
            .ok_or_else(|| Stop::setup(format!("`{name}` is not on disk")))?;
        let environment = environment.clone();
        let script = Script {
            program: &program,
            arguments: &[],
            working_directory,
            environment,
            time: scripts::TIME_LIMIT,
            cancel: steps.cancel,
        };
        let mut ended = scripts::run(&script)?;
        let mut masks = script_output::masks(&ended.output);
        // A value that is too short to be masked would hide half of the log.
        masks.retain(|value| guard.add_known_value("add-mask", value).is_ok());
        ended.output = guard.redact(&ended.output).into_owned();
        if let Some(listener) = self.script_output {
            listener(&ScriptOutput { script: name, text: &ended.output, masks: &masks });
        }
        drop(std::fs::write(log.join(format!("{name}.log")), &ended.output));
        let duration_ms = u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX);
        steps.emit.emit(RunEvent::ScriptFinished {
            script: name.to_owned(),
            exit: ended.code(),
            duration_ms,
        });
        Ok(ended)
    }

    /// The pre-script may skip the run, and may pass values to the CI.
    pub(super) fn pre_script(
        &self,
        found: &LayerPath,
        environment: &BTreeMap<String, String>,
        guard: &Guard,
        steps: &Steps<'_>,
    ) -> Result<(), Stop> {
        let file = self.directory.path.join("prescript.out");
        std::fs::write(&file, "").map_err(|error| Stop::internal(format!("{}: {error}", file.display())))?;
        let mut environment = environment.clone();
        environment.insert("FULLSEND_PRESCRIPT_OUTPUT".to_owned(), file.to_string_lossy().into_owned());
        let places = (self.repository, self.directory.path.as_path());
        let ended = self.start("pre_script", found, &environment, places, guard, steps)?;
        let output = prescript::read(&file, ended.code(), &ended.output)?;
        prescript::write_to_ci(&output, self.environment)?;
        output.skip_or_continue()
    }

    /// Runs the harness's `preflight_check`.
    pub(super) fn preflight_check(
        &self,
        checked: &Checked,
        environment: &BTreeMap<String, String>,
        guard: &Guard,
        cancel: &Cancel,
    ) -> Result<(), Stop> {
        let Some(command) = &checked.resolved.harness.validation_loop.preflight_check else { return Ok(()) };
        let value = |name: &str| self.environment.get(name).cloned();
        let command = command.expand(value).map_err(|name| Stop::missing(format!("{name} is not set")))?;
        let script = Script {
            program: Path::new("/bin/sh"),
            arguments: &["-c".to_owned(), command],
            working_directory: self.repository,
            environment: environment.clone(),
            time: PREFLIGHT_TIME,
            cancel,
        };
        let ended = scripts::run(&script)?;
        if ended.status.success() {
            return Ok(());
        }
        let output = guard.redact(&ended.output);
        let last = output.lines().last().unwrap_or("it printed nothing");
        Err(Stop::missing(format!("`preflight_check` exited with {}: {last}", ended.code())))
    }

    /// The validation script sees the output as `output/` in its working directory. Its output becomes feedback, redacted.
    pub(super) fn validation_script(
        &self,
        checked: &Checked,
        output: &Quarantined,
        environment: &BTreeMap<String, String>,
        guard: &Guard,
        steps: &Steps<'_>,
    ) -> Result<Option<String>, Stop> {
        let Some(script) = &checked.scripts.validation else { return Ok(None) };
        let iteration = output.directory().with_file_name("validation");
        let prepared = std::fs::create_dir_all(&iteration)
            .and_then(|()| std::os::unix::fs::symlink(output.directory(), iteration.join("output")));
        prepared.map_err(|error| Stop::internal(format!("{}: {error}", iteration.display())))?;
        let before = digests(output);
        let log = output.directory().with_file_name("");
        let ended = self.start("validation", script, environment, (&iteration, &log), guard, steps);
        let _removed = std::fs::remove_dir_all(&iteration).is_ok();
        let ended = ended?;
        // The published output must be the one that passed the schema.
        if before != digests(output) {
            return Err(Stop::script(
                "validation",
                ended.code(),
                "it changed the output, which is read-only for it",
            ));
        }
        if ended.status.success() {
            return Ok(None);
        }
        let output: String = ended.output.chars().take(MAX_FEEDBACK).collect();
        Ok(Some(format!("the validation script exited with {} and printed:\n{output}", ended.code())))
    }
}

/// The digests of all files of an output.
fn digests(output: &Quarantined) -> Vec<(String, String)> {
    let mut names = Vec::new();
    verify::files_below(output.directory(), "", &mut names);
    names.sort();
    let digest = |name: String| {
        let bytes = std::fs::read(output.directory().join(name.trim_start_matches('/'))).unwrap_or_default();
        (name, sha256(&bytes))
    };
    names.into_iter().map(digest).collect()
}
