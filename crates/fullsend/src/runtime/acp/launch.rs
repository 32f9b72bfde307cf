//! Starts the agent inside, talks to it until its turn ends, and returns its attempt. A retry starts a new conversation:
//! agents keep theirs in formats of their own.

use std::cell::RefCell;
use std::sync::mpsc;
use std::time::Instant;

use sandbox::{Command, Stdio};

use super::agent;
use super::client::SessionSetup;
use super::driver::{Driver, TalkEnd};
use super::messages::TurnEnd;
use crate::event::log::Emitter;
use crate::runtime::attempt::{Attempt, Ending, RuntimeError};
use crate::runtime::launch::{AttemptRequest, LaunchContext};
use crate::runtime::process::{self, Dialogue, ProcessEnd};
use crate::runtime::{output, prompt, state};

pub fn attempt(
    context: &LaunchContext<'_>,
    request: &AttemptRequest,
    emit: &Emitter,
) -> Result<Attempt, RuntimeError> {
    let started = Instant::now();
    let failed = |source| RuntimeError::State { what: "the agent's files cannot be removed", source };
    state::empty(context.sandbox, agent::CONFIG_DIRECTORY).map_err(failed)?;
    let before = output::read(context)?;
    let chosen = agent::chosen(&context.inputs.checked().resolved.harness);
    let mut command = Command::new(chosen.arguments(context));
    command.working_directory = context.repository.into();
    command.environment = chosen.environment();
    command.stdin = Stdio::Pipe;
    let setup = SessionSetup {
        directory: context.repository.to_owned(),
        servers: agent::servers(context)?,
        prompt: chosen.prompt(context, prompt::prompt(context.inputs, request)),
    };
    let (sender, messages) = mpsc::channel();
    let driver = RefCell::new(Driver::start(setup, sender, context.guard, emit, request.iteration));
    let dialogue = Dialogue {
        messages,
        is_over: &|| driver.borrow().is_over(),
        has_ended: &|| driver.borrow().has_ended(),
        cancel: &|| driver.borrow_mut().cancel(),
    };
    let ended = process::talk(context, request, started, command, dialogue, &mut |line| {
        driver.borrow_mut().line(line);
    })?;
    let driver = driver.into_inner();
    let ending = conclude(context, ended, &driver, before.as_deref())?;
    let turns = driver.turns;
    let logs = driver.into_transcript().into_logs();
    Ok(Attempt { iteration: request.iteration, ending, conversation: None, logs, turns })
}

fn conclude(
    context: &LaunchContext<'_>,
    ended: ProcessEnd,
    driver: &Driver<'_>,
    before: Option<&[u8]>,
) -> Result<Ending, RuntimeError> {
    let stderr = match ended {
        ProcessEnd::TimedOut => return Ok(Ending::Timeout),
        ProcessEnd::Interrupted => return Ok(Ending::Interrupted),
        ProcessEnd::Failed { why } => return Ok(Ending::Failed { why }),
        ProcessEnd::Exited { stderr } => stderr,
    };
    let words = driver.last_words();
    let failed = |why: String| Ok(Ending::Failed { why });
    match &driver.end {
        Some(TalkEnd::Turn(TurnEnd::Done)) => output::final_message(context, words, before),
        Some(TalkEnd::Turn(TurnEnd::Exhausted)) => Ok(Ending::Stopped { last_words: words.to_owned() }),
        Some(TalkEnd::Turn(TurnEnd::Refused)) => failed(format!("the agent refused the task. {words}")),
        Some(TalkEnd::Turn(TurnEnd::Cancelled)) => failed("the agent cancelled its turn".to_owned()),
        Some(TalkEnd::Turn(TurnEnd::Unknown(reason))) => {
            failed(format!("the agent ended its turn with the unknown reason `{reason}`"))
        }
        Some(TalkEnd::Failed(why)) => failed(format!("{why}. {stderr}").trim_end_matches(". ").to_owned()),
        None if stderr.is_empty() => failed("the agent ended before its turn did".to_owned()),
        None => failed(stderr),
    }
}
