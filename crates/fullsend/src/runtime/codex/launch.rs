//! Starts Codex inside and returns its attempt. Its configuration is in files that we mount; the command line holds what
//! differs from run to run.

use std::time::Instant;

use sandbox::{Command, Stdio};

use super::settings;
use super::stream::CodexStream;
use crate::event::log::Emitter;
use crate::runtime::attempt::{Attempt, Conversation, Ending, RuntimeError};
use crate::runtime::launch::{AttemptRequest, LaunchContext};
use crate::runtime::process::{self, ProcessEnd};
use crate::runtime::state;
use crate::runtime::{options, output, prompt, schema};

/// A model that calls tools one by one, each with its hooks. Newer models call tools from code that they write; then no
/// hook can be matched with a call of the model.
const DEFAULT_MODEL: &str = "gpt-5.5";

pub fn attempt(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    emit: &Emitter,
) -> Result<Attempt, RuntimeError> {
    let started = Instant::now();
    prepare(context, request)?;
    let before = output::read(context)?;
    let mut command = Command::new(arguments(context, request));
    command.working_directory = context.repository.into();
    command.environment = environment();
    command.stdin = Stdio::Pipe;
    let mut stream = CodexStream::default();
    let words = prompt::prompt(context.inputs, request);
    let ended = process::run(context, request, started, command, words.as_bytes(), &mut |line| {
        stream.line(line, request.iteration).into_iter().for_each(|event| emit.emit(event));
    })?;
    let ending = conclude(context, ended, &stream, before.as_deref())?;
    let conversation = keep(context, request, &stream)?;
    Ok(Attempt { iteration: request.iteration, ending, conversation, logs: Vec::new(), turns: stream.turns })
}

/// Removes what an earlier attempt left, and puts back the conversation that the host kept.
fn prepare(context: &LaunchContext<'_>, request: &AttemptRequest) -> Result<(), RuntimeError> {
    let failed = |source| RuntimeError::State { what: "the conversation cannot be put back", source };
    let config = settings::CONFIG_DIRECTORY;
    state::empty(context.sandbox, config).map_err(failed)?;
    for file in request.conversation.iter().flat_map(|conversation| &conversation.files) {
        let path = format!("{config}/sessions/{}", file.path);
        state::write(context.sandbox, &path, &file.contents).map_err(failed)?;
    }
    Ok(())
}

fn arguments(context: &LaunchContext<'_>, request: &AttemptRequest) -> Vec<String> {
    let checked = context.inputs.checked();
    let program = context.program.map_or("codex", |program| program.path.as_str());
    let mut words: Vec<String> = vec![program.to_owned(), "exec".to_owned()];
    if let Some(conversation) = &request.conversation {
        words.extend(["resume".to_owned(), conversation.id.clone()]);
    }
    let flags =
        ["--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--ignore-rules"];
    words.extend(flags.map(str::to_owned));
    words.extend(["-m".to_owned(), options::model(checked).unwrap_or(DEFAULT_MODEL).to_owned()]);
    if let Some(effort) = options::effort(checked) {
        words.extend(["-c".to_owned(), format!("model_reasoning_effort=\"{}\"", effort.value)]);
    }
    if checked.result_document().schema.is_some_and(|schema| schema::strict(schema).is_some()) {
        words.extend(["--output-schema".to_owned(), settings::schema_file()]);
    }
    words.push("-".to_owned());
    words
}

/// The key is a placeholder: the gateway has the real one.
fn environment() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    [("CODEX_HOME", settings::CONFIG_DIRECTORY), (settings::KEY, "held-by-fullsend")]
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn conclude(
    context: &LaunchContext<'_>,
    ended: ProcessEnd,
    stream: &CodexStream,
    before: Option<&[u8]>,
) -> Result<Ending, RuntimeError> {
    let stderr = match ended {
        ProcessEnd::TimedOut => return Ok(Ending::Timeout),
        ProcessEnd::Interrupted => return Ok(Ending::Interrupted),
        ProcessEnd::Failed { why } => return Ok(Ending::Failed { why }),
        ProcessEnd::Exited { stderr } => stderr,
    };
    match &stream.failure {
        Some(why) => Ok(Ending::Failed { why: why.clone() }),
        None if stream.completed => output::final_message(context, &stream.last_words, before),
        None if stderr.is_empty() => {
            Ok(Ending::Failed { why: "the agent ended without a result".to_owned() })
        }
        None => Ok(Ending::Failed { why: stderr }),
    }
}

fn keep(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    stream: &CodexStream,
) -> Result<Option<Conversation>, RuntimeError> {
    let earlier = request.conversation.as_ref().map(|conversation| conversation.id.clone());
    let Some(id) = stream.thread.clone().or(earlier) else { return Ok(None) };
    let directory = format!("{}/sessions", settings::CONFIG_DIRECTORY);
    let files = state::read(context.sandbox.root(), &directory)
        .map_err(|source| RuntimeError::State { what: "the transcript cannot be read", source })?;
    Ok(Some(Conversation { id, files }))
}
