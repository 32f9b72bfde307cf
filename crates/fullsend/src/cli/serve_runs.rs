//! How `serve` starts a run: the same program, with the same layers, as a process of its own. A caller may set less
//! than the command line: it cannot replace a variable of the host.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::configuration::ConfigurationOptions;
use crate::dispatch::request::DispatchRequest;
use crate::harness::provider;
use crate::resolve::{resolve, variables};
use crate::scripts;
use crate::serve::{InputBody, NewRunBody, RunChild, RunStart};

/// How the directories with the files of runs begin; the id of the server's process is next.
const FILES: &str = "start-";

/// Where runs are started from.
pub struct RunStarter {
    pub layers: ConfigurationOptions,
    pub runs: PathBuf,
    /// Holds the files of running runs.
    pub directory: PathBuf,
    /// Variables of the server that no run gets.
    pub withheld: Vec<String>,
}

impl RunStarter {
    pub fn start(&self, start: &RunStart) -> Result<RunChild, String> {
        self.check(&start.body)?;
        let failed = |error: std::io::Error| format!("the run cannot be started: {error}");
        let files = tempfile::Builder::new()
            .prefix(&format!("{FILES}{}-", std::process::id()))
            .tempdir_in(&self.directory)
            .map_err(failed)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(self.arguments(start, files.path())?);
        for name in &self.withheld {
            command.env_remove(name);
        }
        let spawned = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        Ok(RunChild { child: spawned.map_err(failed)?, files })
    }

    /// Accepts only harnesses that `fullsend list` lists, by name, and only variables that the harness expects from a
    /// caller.
    fn check(&self, body: &NewRunBody) -> Result<(), String> {
        let name = &body.harness;
        let mut opened = self.layers.open().map_err(|failure| failure.message)?;
        let is_known = opened.library.layers.names("harness").contains(name);
        // Refuse a name that the command line would read as an option.
        if !is_known || name.starts_with('-') {
            return Err(format!("there is no harness `{name}`"));
        }
        if body.vars.is_empty() {
            return Ok(());
        }
        let resolved = resolve(&mut opened.library, name, &opened.choices, &mut Vec::new());
        let resolved = resolved
            .ok_or_else(|| format!("the harness `{name}` cannot be read: see `fullsend check {name}`"))?;
        let wanted = variables::settable(&resolved.harness);
        body.vars.keys().try_for_each(|variable| check_variable(variable, &wanted))
    }

    fn arguments(&self, start: &RunStart, files: &Path) -> Result<Vec<String>, String> {
        let NewRunBody { harness, prompt, vars, inputs, model, runtime, max_usd, timeout_minutes } =
            start.body.clone();
        let prompt_file = prompt.map(|text| write(files, "prompt", &text)).transpose()?;
        let request = DispatchRequest {
            harness: Some(harness),
            prompt: None,
            inputs: write_inputs(files, &inputs)?,
            vars,
            model,
            runtime,
            max_usd,
            timeout_minutes,
            repo: None,
        };
        let mut words = request.arguments();
        words.extend(["--quiet".to_owned(), "--output=none".to_owned()]);
        let ConfigurationOptions { repo, fullsend_dir, org_dir, config_ref, forge } = &self.layers;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let options = [
            ("run-id", Some(start.id.clone())),
            ("started-by", Some(start.by.clone())),
            ("output-dir", Some(self.runs.display().to_string())),
            ("prompt-file", path(&prompt_file)),
            ("repo", path(repo)),
            ("fullsend-dir", path(fullsend_dir)),
            ("org-dir", path(org_dir)),
            ("config-ref", config_ref.clone()),
            ("forge", forge.map(|forge| forge.to_string())),
        ];
        words.extend(options.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value?))));
        Ok(words)
    }
}

/// A caller may set variables that the harness expects, except variables that decide what runs on the host and
/// variables that the host has.
fn check_variable(name: &str, wanted: &BTreeSet<String>) -> Result<(), String> {
    let decides = ["FULLSEND_", "XDG_"].iter().any(|prefix| name.starts_with(prefix))
        || scripts::is_passed(name)
        || provider::is_reserved(name)
        || std::env::var_os(name).is_some();
    if decides {
        return Err(format!("the variable `{name}` cannot be set by a caller"));
    }
    if !wanted.contains(name) {
        let why = "it is not in `required_env` or `env`, or it names a file of the host";
        return Err(format!("the harness does not take the variable `{name}`: {why}"));
    }
    Ok(())
}

/// Removes the files of runs whose server was killed.
pub fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let server = name.strip_prefix(FILES).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if server.is_some_and(|server| !Path::new(&format!("/proc/{server}")).exists()) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

fn write_inputs(files: &Path, inputs: &[InputBody]) -> Result<Vec<PathBuf>, String> {
    let directory = files.join("inputs");
    std::fs::create_dir(&directory).map_err(|error| format!("the inputs cannot be stored: {error}"))?;
    inputs
        .iter()
        .map(|InputBody { name, content }| {
            let usual = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            let is_plain =
                name.len() <= 100 && !name.is_empty() && !name.starts_with('.') && name.chars().all(usual);
            if !is_plain {
                return Err(format!(
                    "`{name}` is not the name of an input: use letters, digits, `.`, `_` and `-`"
                ));
            }
            if directory.join(name).exists() {
                return Err(format!("two inputs are called `{name}`"));
            }
            write(&directory, name, content)
        })
        .collect()
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = directory.join(name);
    std::fs::write(&path, text).map_err(|error| format!("{name} cannot be stored: {error}"))?;
    Ok(path)
}
