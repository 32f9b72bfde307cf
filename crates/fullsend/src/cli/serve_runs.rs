//! How `serve` starts a run: the same program, with the same layers, as a process of its own. What a caller may set is less than
//! what the command line may: no variable of the host is replaced.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::configuration::ConfigurationOptions;
use crate::dispatch::request::DispatchRequest;
use crate::harness::provider;
use crate::scripts;
use crate::serve::{InputBody, NewRunBody, RunChild, RunStart};

/// Where runs are started from.
pub struct RunStarter {
    pub layers: ConfigurationOptions,
    pub runs: PathBuf,
    /// Holds the files of runs that go on.
    pub directory: PathBuf,
    /// Variables of the server that no run gets.
    pub withheld: Vec<String>,
}

impl RunStarter {
    pub fn start(&self, start: &RunStart) -> Result<RunChild, String> {
        self.check_harness(&start.body.harness)?;
        start.body.vars.keys().try_for_each(|name| check_variable(name))?;
        let failed = |error: std::io::Error| format!("the run cannot be started: {error}");
        let files = tempfile::Builder::new().prefix("start-").tempdir_in(&self.directory).map_err(failed)?;
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

    /// Only what `fullsend list` lists, by its name.
    fn check_harness(&self, name: &str) -> Result<(), String> {
        let opened = self.layers.open().map_err(|failure| failure.message)?;
        let is_known = opened.library.layers.names("harness").iter().any(|known| known == name);
        // A name that the command line would read as an option is not a name.
        if is_known && !name.starts_with('-') {
            return Ok(());
        }
        Err(format!("there is no harness `{name}`"))
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

/// A caller sets variables of its own. Those that decide what runs on the host, and those that the host has, stay as they are.
fn check_variable(name: &str) -> Result<(), String> {
    let decides = name.starts_with("FULLSEND_") || scripts::is_passed(name) || provider::is_reserved(name);
    if decides || std::env::var_os(name).is_some() {
        return Err(format!("the variable `{name}` cannot be set by a caller"));
    }
    Ok(())
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
