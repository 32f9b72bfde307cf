//! The options of `fullsend run` that need no harness file: a prompt, input files, variables, and values that replace
//! those of the harness for one run. Each is recorded, and the organisation's pins apply to each.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use sandbox::{Mount, MountKind};
use trigger::TriggerEvent;

use super::configuration::{Configuration, variable};
use super::event_file;
use super::exit::{Exit, Failure};
use crate::harness::names::RuntimeName;
use crate::harness::reference::LocalPath;
use crate::resolve::command_line::CommandLineValue;
use crate::resolve::layers::LayerKind;
use crate::runtime::paths;

/// The built-in harness for a prompt alone.
const ASK: &str = "ask";
const ASK_OPENAI: &str = "ask-openai";

/// The most bytes of one input, and of a prompt.
const MAX_INPUT: u64 = 16 << 20;
const MAX_PROMPT: u64 = 1 << 20;

/// The input that is the event, as `serve` names it.
const EVENT_FILE: &str = "event.json";

#[derive(Args, Debug)]
pub struct RunOptions {
    /// Give the agent this prompt; without a harness, run the built-in read-only `ask`
    #[arg(long, short, value_name = "TEXT")]
    prompt: Option<String>,
    /// Read the prompt from this file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Give the agent this file to read; `-` is standard input
    #[arg(long, value_name = "FILE")]
    input: Vec<PathBuf>,
    /// Set a variable for `${NAME}` in the harness; can be repeated
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = parse_variable)]
    variables: Vec<(String, String)>,
    /// Give the agent this event of a forge, and set its variables, such as ISSUE_NUMBER
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// The kind of the event: the value of the header `X-GitHub-Event` or `X-Gitlab-Event`
    #[arg(long, value_name = "KIND", requires = "event")]
    event_kind: Option<String>,
    /// Use this model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Use this runtime: native, claude or codex
    #[arg(long, value_parser = super::init::parse_runtime)]
    runtime: Option<RuntimeName>,
    /// Use this policy file from a configuration layer, such as policies/build.yaml
    #[arg(long, value_name = "PATH")]
    policy: Option<String>,
    /// Limit model cost to this many US dollars
    #[arg(long, value_name = "DOLLARS")]
    max_usd: Option<f64>,
    /// Stop the agent after this many minutes
    #[arg(long, value_name = "MINUTES")]
    timeout: Option<u64>,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(usual) {
        return Err(format!("`{name}` is not the name of a variable"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// What the options mean for a run.
pub struct RunInputs {
    /// The caller's words for the agent.
    pub context: Option<String>,
    pub mounts: Vec<Mount>,
}

impl RunOptions {
    /// The harness that is named; `None` for a prompt alone.
    pub fn harness<'a>(&self, names: &'a [String]) -> Result<Option<&'a str>, Failure> {
        match names {
            [name] => Ok(Some(name)),
            [] if self.prompt.is_some() || self.prompt_file.is_some() => Ok(None),
            [] => Err(Failure::new(Exit::Usage, "a run needs a harness or a prompt").help(
                "`fullsend list` lists the harnesses; `fullsend run -p \"why does the test fail?\"` asks without one",
            )),
            _ => Err(Failure::new(
                Exit::Usage,
                format!("a run takes one harness, and {} were given", names.len()),
            )
            .help(format!(
                "run them one after another: {}",
                names.iter().map(|name| format!("fullsend run {name}")).collect::<Vec<_>>().join("; ")
            ))),
        }
    }

    /// The values for the harness.
    pub fn values(&self) -> Vec<CommandLineValue> {
        let text =
            |field, value: &Option<String>| value.as_ref().map(|value| CommandLineValue::text(field, value));
        let number = |field, value: Option<String>| value.map(|value| CommandLineValue { field, value });
        let mut values = Vec::new();
        values.extend(text("model", &self.model));
        values.extend(text("runtime", &self.runtime.map(|runtime| runtime.to_string())));
        values.extend(text("policy", &self.policy));
        values.extend(number("budget.usd", self.max_usd.map(|usd| usd.to_string())));
        values.extend(number("timeout_minutes", self.timeout.map(|minutes| minutes.to_string())));
        values
    }

    /// The variables of the command line.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// The names of the variables that were set.
    pub fn variable_names(&self) -> Vec<String> {
        self.variables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The event that the run is about. `None`: there is none, or triggers do not support its kind.
    pub fn read_event(&self) -> Result<Option<TriggerEvent>, Failure> {
        let Some(path) = &self.event else { return Ok(None) };
        event_file::read(path, self.event_kind.as_deref())
    }

    /// Whether an event was given, of any kind.
    pub fn has_event(&self) -> bool {
        self.event.is_some()
    }

    /// Reads the prompt and the inputs. The event is one of them.
    pub fn read(&self, event: Option<&TriggerEvent>) -> Result<RunInputs, Failure> {
        let prompt = match (&self.prompt, &self.prompt_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(as_text(path, read(path, MAX_PROMPT)?)?),
            (None, None) => None,
        };
        let mut contents_by_name: Vec<(String, Vec<u8>)> = Vec::new();
        contents_by_name
            .extend(event.map(|event| (EVENT_FILE.to_owned(), format!("{:#}\n", event.json()).into_bytes())));
        let mut mounts: Vec<Mount> = Vec::new();
        let mut listed = Vec::new();
        for path in &self.input {
            let contents = read(path, MAX_INPUT)?;
            let name = match path.file_name().filter(|_| path != Path::new("-")) {
                Some(name) => name.to_string_lossy().into_owned(),
                None => "stdin".to_owned(),
            };
            contents_by_name.push((name, contents));
        }
        for (name, contents) in contents_by_name {
            let target = PathBuf::from(format!("{}/{name}", paths::INPUT));
            if mounts.iter().any(|mount| mount.target == target) {
                return Err(
                    Failure::new(Exit::Usage, format!("two inputs are called `{name}`")).help("rename one")
                );
            }
            listed.push(format!("- {} ({} bytes)", target.display(), contents.len()));
            mounts.push(Mount { target, kind: MountKind::File { contents, mode: 0o444 } });
        }
        let asked = prompt.map(|text| format!("The user asks:\n\n{}", text.trim()));
        let files = (!listed.is_empty()).then(|| format!("Input files, to read:\n{}", listed.join("\n")));
        let context = [asked, files].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        Ok(RunInputs { context: Some(context).filter(|text| !text.is_empty()), mounts })
    }
}

/// `ask`, or its variant for OpenAI where only that key is set and no layer names the model's provider.
pub fn ask_harness(opened: &Configuration) -> &'static str {
    let only_openai = variable("ANTHROPIC_API_KEY").is_none() && variable("OPENAI_API_KEY").is_some();
    if only_openai && !has_own_provider(opened) { ASK_OPENAI } else { ASK }
}

/// Whether a layer of the user's names the model's provider.
fn has_own_provider(opened: &Configuration) -> bool {
    let path = LocalPath::parse("providers/model.yaml").ok();
    let found = path.and_then(|path| opened.library.layers.find(&path));
    found.is_some_and(|found| found.layer != LayerKind::Builtin)
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::new(Exit::Missing, format!("cannot read {}: {why}", path.display()));
    let mut bytes = Vec::new();
    let stream: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| failed(error.to_string()))?)
    };
    stream.take(most + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > most {
        return Err(failed(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

fn as_text(path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes)
        .map_err(|_| Failure::new(Exit::Usage, format!("the prompt in {} is not UTF-8 text", path.display())))
}

#[cfg(test)]
mod tests {
    use super::parse_variable;

    #[test]
    fn variables_have_names_that_templates_can_use() {
        assert_eq!(parse_variable("ISSUE=a=b"), Ok(("ISSUE".to_owned(), "a=b".to_owned())));
        for wrong in ["ISSUE", "=x", "1A=x", "A B=x", "A-B=x"] {
            assert!(parse_variable(wrong).is_err(), "{wrong}");
        }
    }
}
