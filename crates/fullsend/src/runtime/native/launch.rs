//! The host's side of the native runtime: builds the task, starts the agent inside, reads its reports.

use std::time::Instant;

use model::wire::Wire;
use sandbox::{Command, Stdio};
use serde_json::{Value as Json, json};

use super::protocol::{AgentTask, AgentWire, LoopEnd};
use super::stream::{self, AgentStream};
use super::{settings, tools};
use crate::check::Checked;
use crate::event::log::Emitter;
use crate::harness::frontmatter::Names;
use crate::runtime::attempt::{Attempt, Conversation, Ending, RuntimeError};
use crate::runtime::launch::{AttemptRequest, LaunchContext};
use crate::runtime::process::{self, ProcessEnd};
use crate::runtime::state::StateFile;
use crate::runtime::{default_model, options, paths, prompt, skills};

/// The default limit of turns of one attempt.
const DEFAULT_MAX_TURNS: u64 = 200;

/// The whole conversation, in the format of the Messages API.
const CONVERSATION: &str = "conversation.json";

/// The model and the wire format of a harness's provider, for a request outside a run.
pub fn model_of(checked: &Checked) -> (String, Wire) {
    (default_model::name(checked).replace("[1m]", ""), default_model::wire(checked))
}

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
    let inputs = context.inputs;
    let checked = inputs.checked();
    let harness = &checked.resolved.harness;
    let config = settings::CONFIG_DIRECTORY;
    let frontmatter = checked.agent.frontmatter.as_ref();
    let plain = |names: &Names| -> Vec<String> {
        names.0.iter().map(|name| tools::without_pattern(name).to_owned()).collect()
    };
    let wanted = frontmatter.and_then(|about| about.tools.as_ref()).map(|names| plain(&names.value));
    let not = frontmatter.and_then(|about| about.disallowed_tools.as_ref()).map(|names| plain(&names.value));
    let own_turns = frontmatter.and_then(|about| about.max_turns);
    let budget = harness.budget.as_ref().and_then(|budget| budget.turns.as_ref());
    AgentTask {
        gateway: context.sandbox.gateway_address().unwrap_or(paths::GATEWAY),
        guard: context.guard.hook_address(),
        wire: agent_wire(default_model::wire(checked)),
        model: default_model::name(checked),
        effort: options::effort(checked).map(|effort| effort.to_string()),
        system: format!("{}{}", inputs.agent_text(), skills::listing(inputs, config)),
        prompt: prompt::prompt(inputs, request),
        conversation: request.conversation.as_ref().and_then(restored),
        tools: wanted,
        disallowed_tools: not.unwrap_or_default(),
        servers: settings::servers_file(),
        output_path: format!("{}/{}", paths::OUTPUT, checked.result_document().file),
        output_schema: checked.result_document().schema.cloned(),
        // One more than the budget, so that the gateway ends the run with the outcome of a budget.
        max_turns: own_turns.or(budget.map(|turns| turns.get() + 1)).unwrap_or(DEFAULT_MAX_TURNS),
    }
}

fn agent_wire(wire: Wire) -> AgentWire {
    match wire {
        Wire::Messages => AgentWire::Messages,
        Wire::Responses => AgentWire::Responses,
        Wire::Chat => AgentWire::Chat,
    }
}

fn restored(conversation: &Conversation) -> Option<Json> {
    let file = conversation.files.iter().find(|file| file.path == CONVERSATION)?;
    serde_json::from_slice(&file.contents).ok()
}
