//! The agent loop inside the sandbox: ask the model, run the tools that it calls, return the results, until it finishes.
//! It reads its task from standard input and reports on standard output. It has no key.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::wire::{
    ContentBlock, Message, MessageRole, ModelAnswer, ModelRequest, ToolCall, ToolResult, Wire, codec,
};
use model::{ClientError, ModelClient};
use serde_json::Value as Json;

use super::hooks::{HookReply, HookRequest};
use super::mcp_client::Servers;
use super::protocol::{AgentReport, AgentTask, AgentWire, LoopEnd};
use super::tool_outcome::ToolOutcome;
use super::{compaction, tools};
use crate::event::exit::Exit;
use crate::guard::hook_client;

/// The largest task.
const MAX_TASK: u64 = 64 << 20;

/// The longest answer.
const MAX_TOKENS: u64 = 8192;

/// A larger conversation loses its oldest results. This is about half of the context of today's models.
const MAX_CONVERSATION: usize = 400 << 10;

/// Pauses before a retry when the model is busy or cannot be reached.
const RETRIES: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// How often the agent reports that the model still answers.
const ACTIVE_EVERY: Duration = Duration::from_secs(1);

/// The hidden `__agent` command.
pub fn main() -> std::process::ExitCode {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_TASK).read_to_string(&mut text);
    let Some(task) = read.ok().and_then(|_| serde_json::from_str::<AgentTask>(&text).ok()) else {
        return Exit::Bug.into();
    };
    // The gateway holds the first request until this has arrived.
    let started = ask(&task, &HookRequest::Start).and_then(|_| Servers::load(&task.servers));
    let servers = match started {
        Ok(servers) => servers,
        Err(why) => {
            report(&AgentReport::LoopEnd {
                how: LoopEnd::Failed { why },
                turns: 0,
                conversation: Json::Null,
            });
            return Exit::Done.into();
        }
    };
    let (how, request) = run_conversation(&task, &servers);
    let turns = model::wire::turns(&request.messages) as u64;
    // Stored in one format for every model.
    report(&AgentReport::LoopEnd {
        how,
        turns,
        conversation: codec::write_request(Wire::Messages, &request),
    });
    Exit::Done.into()
}

fn report(report: &AgentReport) {
    let line = serde_json::to_string(report).unwrap_or_default();
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

/// Reports a message in the format of the kept conversation.
fn report_message(message: &Message) {
    let alone = ModelRequest { messages: vec![message.clone()], ..ModelRequest::default() };
    let message = codec::write_request(Wire::Messages, &alone)["messages"][0].take();
    report(&AgentReport::Message { message });
}

fn run_conversation(task: &AgentTask, servers: &Servers) -> (LoopEnd, ModelRequest) {
    let wire = match task.wire {
        AgentWire::Messages => Wire::Messages,
        AgentWire::Responses => Wire::Responses,
        AgentWire::Chat => Wire::Chat,
    };
    let client = ModelClient::new(task.gateway, wire);
    let mut request = first_request(task, servers);
    request.messages.last().into_iter().for_each(report_message);
    for _ in 0..task.max_turns {
        compaction::compact(&mut request.messages, MAX_CONVERSATION);
        let answer = match ask_model(&client, &request) {
            Ok(answer) => answer,
            Err(error) => return (LoopEnd::Failed { why: error.to_string() }, request),
        };
        let calls: Vec<ToolCall> = calls_of(&answer);
        let last_words: String = answer.blocks.iter().filter_map(ContentBlock::as_text).collect();
        let answered = Message { role: MessageRole::Assistant, blocks: answer.blocks };
        report_message(&answered);
        request.messages.push(answered);
        if calls.is_empty() {
            return (LoopEnd::Stopped { last_words }, request);
        }
        let (blocks, finished) = perform_all(task, servers, &calls);
        let results = Message { role: MessageRole::User, blocks };
        report_message(&results);
        request.messages.push(results);
        if finished {
            return (LoopEnd::Finished, request);
        }
    }
    (LoopEnd::Failed { why: format!("it did not finish within {} turns", task.max_turns) }, request)
}

/// Asks the model, and retries after temporary errors.
fn ask_model(client: &ModelClient, request: &ModelRequest) -> Result<ModelAnswer, ClientError> {
    let mut last = Instant::now();
    let mut on_delta = |_: &model::wire::Delta| {
        if last.elapsed() >= ACTIVE_EVERY {
            last = Instant::now();
            report(&AgentReport::ModelActive);
        }
    };
    for pause in RETRIES {
        match client.ask(request, &mut on_delta) {
            Err(error) if error.is_transient() => std::thread::sleep(pause),
            answered => return answered,
        }
    }
    client.ask(request, &mut on_delta)
}

/// The conversation so far with the new prompt, or a new one.
fn first_request(task: &AgentTask, servers: &Servers) -> ModelRequest {
    let restored = task
        .conversation
        .as_ref()
        .and_then(|state| codec::read_request(Wire::Messages, state.to_string().as_bytes()).ok());
    let mut messages = restored.map(|request| request.messages).unwrap_or_default();
    messages.push(Message::user(&task.prompt));
    ModelRequest {
        model: task.model.clone(),
        system: vec![task.system.clone()],
        documents: Vec::new(),
        messages,
        tools: tools::offered(
            |name| is_wanted(task.tools.as_deref(), &task.disallowed_tools, name),
            task.tools.iter().flatten().any(|name| name == tools::SKILL),
            servers.tools(),
            task.output_schema.as_ref(),
        ),
        max_tokens: Some(MAX_TOKENS),
        effort: task.effort.clone(),
        stream: true,
    }
}

/// `mcp__server` means all tools of that server. An empty list of tools means none of them.
fn is_wanted(tools: Option<&[String]>, disallowed: &[String], name: &str) -> bool {
    let named = |names: &[String]| {
        names.iter().any(|known| {
            known == name || (known.starts_with("mcp__") && name.starts_with(&format!("{known}__")))
        })
    };
    tools.is_none_or(named) && !named(disallowed)
}

fn calls_of(answer: &ModelAnswer) -> Vec<ToolCall> {
    answer
        .blocks
        .iter()
        .filter_map(|block| if let ContentBlock::ToolCall(call) = block { Some(call.clone()) } else { None })
        .collect()
}

/// Runs the calls of one answer in parallel; the results are in the order of the calls.
fn perform_all(task: &AgentTask, servers: &Servers, calls: &[ToolCall]) -> (Vec<ContentBlock>, bool) {
    let finished = AtomicBool::new(false);
    let one = |call: &ToolCall| ContentBlock::ToolResult(perform(task, servers, call, &finished));
    let blocks = std::thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| scope.spawn(move || one(call))).collect();
        running
            .into_iter()
            .zip(calls)
            .map(|(thread, call)| {
                thread.join().unwrap_or_else(|_| {
                    let parts = vec!["the tool failed".to_owned()];
                    ContentBlock::ToolResult(ToolResult { id: call.id.clone(), parts, is_error: true })
                })
            })
            .collect()
    });
    (blocks, finished.load(Ordering::SeqCst))
}

fn perform(task: &AgentTask, servers: &Servers, call: &ToolCall, finished: &AtomicBool) -> ToolResult {
    let summary = tools::summary(&call.input);
    report(&AgentReport::ToolStarted { call: call.id.clone(), tool: call.name.clone(), summary });
    let outcome = judged(task, call, || {
        if call.name == tools::FINISH {
            return finish(task, call, finished);
        }
        if !is_wanted(task.tools.as_deref(), &task.disallowed_tools, &call.name) {
            return ToolOutcome::error(format!("there is no tool `{}`", call.name));
        }
        servers.call(&call.name, &call.input).unwrap_or_else(|| tools::run(&call.name, &call.input))
    });
    let bytes = outcome.text.len() as u64;
    report(&AgentReport::ToolFinished { call: call.id.clone(), is_error: outcome.is_error, bytes });
    ToolResult { id: call.id.clone(), parts: vec![outcome.text], is_error: outcome.is_error }
}

/// Asks the guard before and after the call. Without its answer nothing runs and nothing is shown.
fn judged(task: &AgentTask, call: &ToolCall, run: impl FnOnce() -> ToolOutcome) -> ToolOutcome {
    let before =
        HookRequest::Before { id: call.id.clone(), tool: call.name.clone(), input: call.input.clone() };
    match ask(task, &before) {
        Ok(HookReply { deny: Some(reason), .. }) | Err(reason) => return ToolOutcome::error(reason),
        Ok(_) => {}
    }
    let ToolOutcome { text, is_error } = run();
    match ask(task, &HookRequest::After { id: call.id.clone(), text: text.clone(), is_error }) {
        Ok(HookReply { text: Some(cleaned), .. }) => ToolOutcome { text: cleaned, is_error },
        Ok(_) => ToolOutcome { text, is_error },
        Err(reason) => ToolOutcome::error(reason),
    }
}

fn ask(task: &AgentTask, request: &HookRequest) -> Result<HookReply, String> {
    let body = serde_json::to_vec(request).unwrap_or_default();
    let answer = task.guard.ask(Path::new(hook_client::SOCKET), &body);
    match answer.passes() {
        true if answer.text.is_empty() => Ok(HookReply::default()),
        true => serde_json::from_str(&answer.text)
            .map_err(|_| "fullsend: the guard's answer cannot be read".to_owned()),
        false => Err(answer.text),
    }
}

/// Writes the output file. The host checks it.
fn finish(task: &AgentTask, call: &ToolCall, finished: &AtomicBool) -> ToolOutcome {
    let output = call.input.get("output").unwrap_or(&call.input);
    let text = format!("{output:#}\n");
    match std::fs::write(&task.output_path, text) {
        Ok(()) => {
            finished.store(true, Ordering::SeqCst);
            ToolOutcome::ok("The result was saved.")
        }
        Err(error) => ToolOutcome::error(format!("{}: {error}", task.output_path)),
    }
}

#[cfg(test)]
mod tests {
    use super::is_wanted;

    #[test]
    fn an_empty_list_of_tools_means_none() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(is_wanted(None, &[], "Bash"));
        assert!(!is_wanted(Some(&[]), &[], "Bash"));
        assert!(is_wanted(Some(&list(&["Bash", "mcp__calc"])), &[], "mcp__calc__add"));
        assert!(!is_wanted(Some(&list(&["Bash"])), &list(&["Bash"]), "Bash"));
    }
}
