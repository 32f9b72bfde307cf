//! The host's side of the native runtime: builds the task, starts the loop inside, reads its reports.

use std::time::Instant;

use sandbox::{Command, Stdio};
use serde_json::{Value as Json, json};

use super::protocol::{AgentTask, End, Speaks};
use super::settings;
use super::stream::{self, Stream};
use crate::check::Checked;
use crate::event::log::Emitter;
use crate::runtime::attempt::{Attempt, Conversation, Ending, RuntimeError};
use crate::runtime::launch::{LaunchContext, Task};
use crate::runtime::process::{self, Ended};
use crate::runtime::state::StateFile;
use crate::runtime::{inside, options, prompt, skills};

/// Of one attempt, where nothing else bounds it.
const MOST_TURNS: u64 = 200;

/// The whole conversation, in the format of the Messages API.
const CONVERSATION: &str = "conversation.json";

/// Where neither the harness nor the agent names a model, by what the provider speaks.
const DEFAULT_MODELS: [(Speaks, &str); 2] =
    [(Speaks::Messages, "claude-sonnet-5"), (Speaks::Responses, "gpt-5.5")];

pub fn attempt(context: &LaunchContext<'_>, task: &Task, emit: &Emitter) -> Result<Attempt, RuntimeError> {
    let mut command = Command::new([inside::PROGRAM, "__agent"]);
    command.working_directory = context.repository.into();
    command.stdin = Stdio::Pipe;
    let words = serde_json::to_vec(&describe(context, task)).unwrap_or_default();
    let mut stream = Stream::default();
    let ended = process::run(context, task, Instant::now(), command, &words, &mut |line| {
        stream.line(line, task.iteration).into_iter().for_each(|event| emit.emit(event));
    })?;
    let ending = match ended {
        Ended::OutOfTime => Ending::Timeout,
        Ended::Interrupted => Ending::Interrupted,
        Ended::Failed { why } => Ending::Failed { why },
        Ended::ByItself { stderr } => match stream.end {
            Some(end) => return Ok(told(task, end)),
            None => Ending::Failed { why: format!("it ended without saying how. {stderr}") },
        },
    };
    Ok(cut_short(task, ending, &stream.said))
}

/// The transcript is kept for people. It is no conversation to go on with: calls in it may have no result.
fn cut_short(task: &Task, ending: Ending, said: &[Json]) -> Attempt {
    let turns = said.iter().filter(|message| message["role"] == "assistant").count() as u64;
    let contents = json!({ "messages": said }).to_string().into_bytes();
    let transcript = StateFile { path: format!("transcripts/{CONVERSATION}"), contents };
    let logs = if said.is_empty() { Vec::new() } else { vec![transcript] };
    Attempt { iteration: task.iteration, ending, conversation: None, logs, turns }
}

fn told(task: &Task, end: stream::Ended) -> Attempt {
    let ending = match end.how {
        End::Finished => Ending::Finished,
        End::Stopped { last_words } => Ending::Stopped { last_words },
        End::Failed { why } => Ending::Failed { why },
    };
    let contents = end.conversation.to_string().into_bytes();
    let file = StateFile { path: CONVERSATION.to_owned(), contents };
    let conversation = Some(Conversation { id: String::new(), files: vec![file] });
    Attempt { iteration: task.iteration, ending, conversation, logs: Vec::new(), turns: end.turns }
}

fn describe(context: &LaunchContext<'_>, task: &Task) -> AgentTask {
    let cleared = context.cleared;
    let (checked, harness) = (&cleared.checked, &cleared.checked.resolved.harness);
    let config = settings::CONFIG_DIRECTORY;
    let frontmatter = checked.agent.frontmatter.as_ref();
    let tools = frontmatter.and_then(|about| about.tools.as_ref()).map(|names| names.0.clone());
    let not = frontmatter.and_then(|about| about.disallowed_tools.as_ref()).map(|names| names.0.clone());
    let own_turns = frontmatter.and_then(|about| about.max_turns);
    let speaks = speaks(checked);
    let budget = harness.budget.as_ref().and_then(|budget| budget.turns.as_ref());
    AgentTask {
        gateway: inside::GATEWAY,
        guard: context.guard.hook_arguments(),
        speaks,
        model: options::model(checked).unwrap_or_else(|| default_model(speaks)).to_owned(),
        effort: options::effort(checked).map(|effort| effort.to_string()),
        system: format!("{}{}", cleared.agent_text, skills::listing(cleared, config)),
        prompt: prompt::prompt(cleared, task),
        conversation: task.conversation.as_ref().and_then(restored),
        tools: tools.unwrap_or_default(),
        disallowed_tools: not.unwrap_or_default(),
        servers: settings::servers_file(),
        output_path: format!("{}/{}", inside::OUTPUT, checked.hand_in().file),
        output_schema: checked.hand_in().schema.cloned(),
        max_turns: own_turns.or(budget.map(|turns| turns.get())).unwrap_or(MOST_TURNS),
    }
}

/// As the vendor of the provider that serves the model.
fn speaks(checked: &Checked) -> Speaks {
    let provider = checked.providers.iter().find(|file| file.inference_capable());
    match provider.map(|file| file.provider.kind.as_str()) {
        Some("openai") => Speaks::Responses,
        _ => Speaks::Messages,
    }
}

fn default_model(speaks: Speaks) -> &'static str {
    DEFAULT_MODELS.iter().find(|(wire, _)| *wire == speaks).map_or("", |(_, model)| *model)
}

fn restored(conversation: &Conversation) -> Option<Json> {
    let file = conversation.files.iter().find(|file| file.path == CONVERSATION)?;
    serde_json::from_slice(&file.contents).ok()
}
