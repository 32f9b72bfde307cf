//! The host's side of the native runtime: builds the task, starts the agent inside, reads its reports.

use std::time::Instant;

use model::wire::Wire;
use sandbox::{Command, Stdio};
use serde_json::{Value as Json, json};

use super::protocol::{AgentTask, AgentWire, LoopEnd};
use super::settings;
use super::stream::{self, AgentStream};
use crate::check::Checked;
use crate::check::services;
use crate::event::log::Emitter;
use crate::runtime::attempt::{Attempt, Conversation, Ending, RuntimeError};
use crate::runtime::launch::{AttemptRequest, LaunchContext};
use crate::runtime::process::{self, ProcessEnd};
use crate::runtime::state::StateFile;
use crate::runtime::{options, paths, prompt, skills};

/// Of one attempt, if nothing else bounds it.
const MOST_TURNS: u64 = 200;

/// The whole conversation, in the format of the Messages API.
const CONVERSATION: &str = "conversation.json";

/// If neither the harness nor the agent names a model, by the provider's wire format.
const DEFAULT_MODELS: [(AgentWire, &str); 3] = [
    (AgentWire::Messages, "claude-sonnet-5"),
    (AgentWire::Responses, "gpt-5.5"),
    (AgentWire::Chat, "gpt-5.5"),
];

pub fn attempt(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    emit: &Emitter,
) -> Result<Attempt, RuntimeError> {
    let mut command = Command::new([paths::PROGRAM, "__agent"]);
    command.working_directory = context.repository.into();
    command.stdin = Stdio::Pipe;
    let words = serde_json::to_vec(&describe(context, request)).unwrap_or_default();
    let mut stream = AgentStream::default();
    let ended = process::run(context, request, Instant::now(), command, &words, &mut |line| {
        stream.line(line, request.iteration).into_iter().for_each(|event| emit.emit(event));
    })?;
    let ending = match ended {
        ProcessEnd::TimedOut => Ending::Timeout,
        ProcessEnd::Interrupted => Ending::Interrupted,
        ProcessEnd::Failed { why } => Ending::Failed { why },
        ProcessEnd::Exited { stderr } => match stream.end {
            Some(end) => return Ok(reported(request, end)),
            None => Ending::Failed { why: format!("the agent ended without a report. {stderr}") },
        },
    };
    Ok(cut_short(request, ending, &stream.messages))
}

/// The transcript is kept for people. It cannot be continued: calls in it may have no result.
fn cut_short(request: &AttemptRequest, ending: Ending, messages: &[Json]) -> Attempt {
    let turns = messages.iter().filter(|message| message["role"] == "assistant").count() as u64;
    let contents = json!({ "messages": messages }).to_string().into_bytes();
    let transcript = StateFile { path: format!("transcripts/{CONVERSATION}"), contents };
    let logs = if messages.is_empty() { Vec::new() } else { vec![transcript] };
    Attempt { iteration: request.iteration, ending, conversation: None, logs, turns }
}

fn reported(request: &AttemptRequest, end: stream::AgentEnd) -> Attempt {
    let ending = match end.how {
        LoopEnd::Finished => Ending::Finished,
        LoopEnd::Stopped { last_words } => Ending::Stopped { last_words },
        LoopEnd::Failed { why } => Ending::Failed { why },
    };
    let contents = end.conversation.to_string().into_bytes();
    let file = StateFile { path: CONVERSATION.to_owned(), contents };
    let conversation = Some(Conversation { id: String::new(), files: vec![file] });
    Attempt { iteration: request.iteration, ending, conversation, logs: Vec::new(), turns: end.turns }
}

fn describe(context: &LaunchContext<'_>, request: &AttemptRequest) -> AgentTask {
    let cleared = context.cleared;
    let checked = cleared.checked();
    let harness = &checked.resolved.harness;
    let config = settings::CONFIG_DIRECTORY;
    let frontmatter = checked.agent.frontmatter.as_ref();
    let tools = frontmatter.and_then(|about| about.tools.as_ref()).map(|names| names.0.clone());
    let not = frontmatter.and_then(|about| about.disallowed_tools.as_ref()).map(|names| names.0.clone());
    let own_turns = frontmatter.and_then(|about| about.max_turns);
    let wire = wire(checked);
    let budget = harness.budget.as_ref().and_then(|budget| budget.turns.as_ref());
    AgentTask {
        gateway: paths::GATEWAY,
        guard: context.guard.hook_address(),
        wire,
        model: options::model(checked).unwrap_or_else(|| default_model(wire)).to_owned(),
        effort: options::effort(checked).map(|effort| effort.to_string()),
        system: format!("{}{}", cleared.agent_text(), skills::listing(cleared, config)),
        prompt: prompt::prompt(cleared, request),
        conversation: request.conversation.as_ref().and_then(restored),
        tools: tools.unwrap_or_default(),
        disallowed_tools: not.unwrap_or_default(),
        servers: settings::servers_file(),
        output_path: format!("{}/{}", paths::OUTPUT, checked.hand_in().file),
        output_schema: checked.hand_in().schema.cloned(),
        max_turns: own_turns.or(budget.map(|turns| turns.get())).unwrap_or(MOST_TURNS),
    }
}

/// The wire format of the provider that serves the model.
fn wire(checked: &Checked) -> AgentWire {
    let provider = checked.providers.iter().find(|file| file.inference_capable());
    let wires = provider.map(services::wires).unwrap_or_default();
    let is_openai = provider.is_some_and(|file| file.provider.kind.as_str() == "openai");
    match wires.first() {
        Some(Wire::Chat) => AgentWire::Chat,
        Some(Wire::Responses) => AgentWire::Responses,
        // The scripted model takes all; the provider's type says which one it plays.
        _ if is_openai => AgentWire::Responses,
        _ => AgentWire::Messages,
    }
}

fn default_model(wire: AgentWire) -> &'static str {
    DEFAULT_MODELS.iter().find(|(known, _)| *known == wire).map_or("", |(_, model)| *model)
}

fn restored(conversation: &Conversation) -> Option<Json> {
    let file = conversation.files.iter().find(|file| file.path == CONVERSATION)?;
    serde_json::from_slice(&file.contents).ok()
}
