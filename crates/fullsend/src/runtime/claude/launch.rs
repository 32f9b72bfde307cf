//! Starts Claude Code inside and returns its attempt. The command line names every source of settings, agents and servers,
//! so that it looks for no other.

use std::time::Instant;

use model::wire::Wire;
use sandbox::{Command, Stdio};

use super::hosted;
use super::settings;
use super::stream::{ClaudeResult, ClaudeStream};
use crate::backend::CommandError;
use crate::check::Checked;
use crate::check::services::{self, ServedWires};
use crate::event::log::Emitter;
use crate::harness::names::Backend;
use crate::runtime::attempt::{Attempt, Conversation, Ending, RuntimeError};
use crate::runtime::launch::{AttemptRequest, LaunchContext};
use crate::runtime::process::{self, ProcessEnd};
use crate::runtime::state::{self, StateFile};
use crate::runtime::{options, output, paths, prompt, schema};

/// Its debug log.
pub const DEBUG_LOG: &str = "claude-debug.log";

/// Variables that choose another service, address or login than the gateway's.
pub const MODEL_VARIABLES: &[&str] = &[
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "ANTHROPIC_AWS_BASE_URL",
    "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
    "ANTHROPIC_GOOGLE_CLOUD_BASE_URL",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_FOUNDRY_AUTH_TOKEN",
    "CLAUDE_CODE_API_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_UNIX_SOCKET",
];

/// A larger schema does not fit on a command line. The host checks the output in any case.
const MAX_SCHEMA: usize = 100 << 10;

pub fn attempt(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    emit: &Emitter,
) -> Result<Attempt, RuntimeError> {
    let started = Instant::now();
    let session = prepare(context, request)?;
    let before = output::read(context)?;
    let mut command = Command::new(arguments(context, request, &session));
    command.working_directory = context.repository.into();
    command.environment = environment(context);
    command.stdin = Stdio::Pipe;
    let mut stream = ClaudeStream::default();
    let words = prompt::prompt(context.inputs, request);
    let ended = process::run(context, request, started, command, words.as_bytes(), &mut |line| {
        stream.line(line, request.iteration).into_iter().for_each(|event| emit.emit(event));
    })?;
    if !context.cancel.is_urgent() {
        context.sandbox.collect().map_err(|error| RuntimeError::Start(CommandError::Openshell(error)))?;
    }
    let ending = conclude(context, ended, stream.result.as_ref(), before.as_deref())?;
    let turns = stream.result.as_ref().map_or(0, |result| result.turns);
    let id = stream.session.unwrap_or(session);
    Ok(Attempt {
        iteration: request.iteration,
        ending,
        conversation: Some(keep(context, id)?),
        logs: logs(context)?,
        turns,
    })
}

/// Removes what an earlier attempt left, and puts back the conversation that the host kept.
fn prepare(context: &LaunchContext<'_>, request: &AttemptRequest) -> Result<String, RuntimeError> {
    let failed = |source| RuntimeError::State { what: "the conversation cannot be put back", source };
    let config = settings::CONFIG_DIRECTORY;
    state::empty(context.sandbox, config).map_err(failed)?;
    // This also removes everything there that is not mounted.
    context.sandbox.deliver().map_err(|error| RuntimeError::Start(CommandError::Openshell(error)))?;
    let Some(conversation) = &request.conversation else { return Ok(uuid::Uuid::new_v4().to_string()) };
    for file in &conversation.files {
        let path = format!("{config}/projects/{}", file.path);
        state::write(context.sandbox, &path, &file.contents).map_err(failed)?;
    }
    Ok(conversation.id.clone())
}

fn arguments(context: &LaunchContext<'_>, request: &AttemptRequest, session: &str) -> Vec<String> {
    let checked = context.inputs.checked();
    let about = checked.agent.frontmatter.as_ref();
    let program = context.program.map_or("claude", |program| program.path.as_str());
    let mut words: Vec<String> = vec![program.to_owned()];
    let mut add = |flag: &str, value: &str| words.extend([flag.to_owned(), value.to_owned()]);
    add("-p", "--verbose");
    add("--output-format", "stream-json");
    // Only our read-only mounts in the configuration directory: skills, and empty settings.
    add("--setting-sources", "user");
    if checked.resolved.harness.sandbox.backend.value == Backend::Openshell {
        add("--settings", &settings::hooks_file());
    }
    add("--agents", &settings::agents_file());
    add("--agent", &checked.agent.name);
    add("--mcp-config", &settings::servers_file());
    add("--strict-mcp-config", "--dangerously-skip-permissions");
    add("--debug-file", &format!("{}/{DEBUG_LOG}", settings::CONFIG_DIRECTORY));
    add(if request.conversation.is_some() { "--resume" } else { "--session-id" }, session);
    if let Some(model) = options::model(checked) {
        add("--model", model);
    }
    if let Some(effort) = options::effort(checked) {
        add("--effort", &effort.to_string());
    }
    if let Some(turns) = about.and_then(|about| about.max_turns) {
        add("--max-turns", &turns.to_string());
    }
    for plugin in &checked.plugins {
        add("--plugin-dir", &format!("{}/{}", paths::PLUGINS, plugin.name));
    }
    let schema = checked.result_document().schema.and_then(schema::plain).map(|schema| schema.to_string());
    if let Some(schema) = schema.filter(|schema| schema.len() <= MAX_SCHEMA) {
        add("--json-schema", &schema);
    }
    words
}

/// The key is a placeholder: the gateway has the real one. No telemetry and no updates.
fn environment(context: &LaunchContext<'_>) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let gateway = match context.sandbox.gateway_address() {
        Some(address) => format!("http://{address}"),
        None => format!("http://{}", paths::GATEWAY_NAME),
    };
    let all = [
        ("ANTHROPIC_BASE_URL", gateway.as_str()),
        ("ANTHROPIC_API_KEY", "held-by-fullsend"),
        ("CLAUDE_CONFIG_DIR", settings::CONFIG_DIRECTORY),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "4"),
    ];
    let hosted = hosted::variables(context.inputs.checked(), context.variables, &gateway);
    let cleared = MODEL_VARIABLES.iter().filter(|name| !hosted.iter().any(|(kept, _)| kept == *name));
    let cleared = cleared.map(|name| (*name, ""));
    let selected = hosted.iter().map(|(name, value)| (*name, value.as_str()));
    let models = only_model(context.inputs.checked());
    let models = models.into_iter().flat_map(|model| MODEL_NAMES.iter().map(move |name| (*name, model)));
    all.into_iter()
        .chain(cleared)
        .chain(selected)
        .chain(models)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Which models Claude Code uses for its families, also for its own small tasks.
const MODEL_NAMES: &[&str] = &[
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
];

/// The harness's model, where a service of another vendor has no family of Claude's.
fn only_model(checked: &Checked) -> Option<&str> {
    let provider = checked.providers.iter().find(|file| file.inference_capable())?;
    let is_translated =
        matches!(services::served_wires(provider, &[Wire::Messages]), ServedWires::Translated(_));
    options::model(checked).filter(|_| is_translated)
}

fn conclude(
    context: &LaunchContext<'_>,
    ended: ProcessEnd,
    result: Option<&ClaudeResult>,
    before: Option<&[u8]>,
) -> Result<Ending, RuntimeError> {
    let stderr = match ended {
        ProcessEnd::TimedOut => return Ok(Ending::Timeout),
        ProcessEnd::Interrupted => return Ok(Ending::Interrupted),
        ProcessEnd::Failed { why } => return Ok(Ending::Failed { why }),
        ProcessEnd::Exited { stderr } => stderr,
    };
    let Some(result) = result else {
        let why = if stderr.is_empty() { "the agent ended without a result".to_owned() } else { stderr };
        return Ok(Ending::Failed { why });
    };
    if result.output_exhausted {
        return Ok(Ending::Stopped { last_words: result.text.clone() });
    }
    if result.is_error {
        let why = format!("{} {}", result.text, result.reason).trim().to_owned();
        return Ok(Ending::Failed { why });
    }
    if let Some(output) = &result.output {
        output::structured(context, output)?;
        return Ok(Ending::Finished);
    }
    output::final_message(context, &result.text, before)
}

fn keep(context: &LaunchContext<'_>, id: String) -> Result<Conversation, RuntimeError> {
    let files = state::read(context.sandbox.root(), &format!("{}/projects", settings::CONFIG_DIRECTORY))
        .map_err(|source| RuntimeError::State { what: "the transcript cannot be read", source })?;
    Ok(Conversation { id, files })
}

fn logs(context: &LaunchContext<'_>) -> Result<Vec<StateFile>, RuntimeError> {
    let log =
        state::read_file(context.sandbox.root(), &format!("{}/{DEBUG_LOG}", settings::CONFIG_DIRECTORY))
            .map_err(|source| RuntimeError::State { what: "the debug log cannot be read", source })?;
    Ok(log.map(|contents| StateFile { path: DEBUG_LOG.to_owned(), contents }).into_iter().collect())
}
