//! The loop inside the sandbox: ask the model, run the tools it calls, give the results back, until it finishes.
//! It reads its task from standard input and reports on standard output; it has no key and no other way out.

use std::io::{Read, Write};

use egress::client::Client;
use egress::wire::{Answer as Spoken, Block, Message, Request, Role, ToolCall, ToolResult, Wire, codec};
use serde_json::Value as Json;

use super::protocol::{AgentReport, AgentTask, End};
use super::tools;
use crate::guard::client;
use crate::guard::dialect::native::{Answer, Question};

/// The most that a task may be.
const MAX_TASK: u64 = 64 << 20;

/// The hidden `__agent` command.
pub fn main() -> std::process::ExitCode {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_TASK).read_to_string(&mut text);
    let task: AgentTask = match read
        .map_err(|e| e.to_string())
        .and_then(|_| serde_json::from_str(&text).map_err(|e| e.to_string()))
    {
        Ok(task) => task,
        Err(_) => return std::process::ExitCode::from(70),
    };
    // The door waits for this before it lets the first request pass.
    if let Err(why) = ask(&task, &Question::Start) {
        report(&AgentReport::End { how: End::Failed { why }, turns: 0, conversation: Json::Null });
        return std::process::ExitCode::SUCCESS;
    }
    let (how, request) = converse(&task);
    let turns = egress::wire::turns(&request.messages) as u64;
    report(&AgentReport::End { how, turns, conversation: codec::write_request(Wire::Messages, &request) });
    std::process::ExitCode::SUCCESS
}

fn report(report: &AgentReport) {
    let line = serde_json::to_string(report).unwrap_or_default();
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

fn converse(task: &AgentTask) -> (End, Request) {
    let client = Client::new(task.door, Wire::Messages);
    let mut request = begin(task);
    for _ in 0..task.max_turns {
        let answer = match client.ask(&request, &mut |_| {}) {
            Ok(answer) => answer,
            Err(error) => return (End::Failed { why: error.to_string() }, request),
        };
        let calls: Vec<ToolCall> = calls_of(&answer);
        let last_words: String = answer.blocks.iter().filter_map(text_of).collect();
        request.messages.push(Message { role: Role::Assistant, blocks: answer.blocks });
        if calls.is_empty() {
            return (End::Stopped { last_words }, request);
        }
        let mut finished = false;
        let blocks = calls.iter().map(|call| Block::ToolResult(perform(task, call, &mut finished))).collect();
        request.messages.push(Message { role: Role::User, blocks });
        if finished {
            return (End::Finished, request);
        }
    }
    (End::Failed { why: format!("it did not finish within {} turns", task.max_turns) }, request)
}

/// The conversation so far with the new words of the user, or a new one.
fn begin(task: &AgentTask) -> Request {
    let restored = task
        .conversation
        .as_ref()
        .and_then(|state| codec::read_request(Wire::Messages, state.to_string().as_bytes()).ok());
    let mut messages = restored.map(|request| request.messages).unwrap_or_default();
    messages.push(Message::user(&task.prompt));
    Request {
        model: task.model.clone(),
        system: task.system.clone(),
        messages,
        tools: tools::offered(&task.tools, task.output_schema.as_ref()),
        max_tokens: Some(8192),
        effort: None,
        stream: true,
    }
}

fn calls_of(answer: &Spoken) -> Vec<ToolCall> {
    answer
        .blocks
        .iter()
        .filter_map(|block| if let Block::ToolCall(call) = block { Some(call.clone()) } else { None })
        .collect()
}

fn text_of(block: &Block) -> Option<&str> {
    if let Block::Text(text) = block { Some(text) } else { None }
}

fn perform(task: &AgentTask, call: &ToolCall, finished: &mut bool) -> ToolResult {
    let summary = tools::summary(&call.name, &call.input);
    report(&AgentReport::ToolStarted { call: call.id.clone(), tool: call.name.clone(), summary });
    let outcome = judged(task, call, || {
        if call.name == tools::FINISH {
            finish(task, call, finished)
        } else {
            tools::run(&call.name, &call.input)
        }
    });
    let bytes = outcome.text.len() as u64;
    report(&AgentReport::ToolFinished { call: call.id.clone(), is_error: outcome.is_error, bytes });
    ToolResult { id: call.id.clone(), parts: vec![outcome.text], is_error: outcome.is_error }
}

/// The guard before the call, the guard after it. Without its answer nothing runs and nothing is shown.
fn judged(task: &AgentTask, call: &ToolCall, run: impl FnOnce() -> tools::Outcome) -> tools::Outcome {
    let (id, tool, input) = (call.id.clone(), call.name.clone(), call.input.clone());
    match ask(task, &Question::Before { id, tool, input }) {
        Ok(Answer { deny: Some(reason), .. }) | Err(reason) => return tools::Outcome::error(reason),
        Ok(_) => {}
    }
    let tools::Outcome { text, is_error } = run();
    match ask(task, &Question::After { id: call.id.clone(), text: text.clone(), is_error }) {
        Ok(Answer { text: Some(cleaned), .. }) => tools::Outcome { text: cleaned, is_error },
        Ok(_) => tools::Outcome { text, is_error },
        Err(reason) => tools::Outcome::error(reason),
    }
}

fn ask(task: &AgentTask, question: &Question) -> Result<Answer, String> {
    let [runtime, how, token] = &task.guard;
    let body = serde_json::to_vec(question).unwrap_or_default();
    match client::ask(runtime, token, &body) {
        Ok(answer) if answer.code == 0 => Ok(serde_json::from_str(&answer.text).unwrap_or_default()),
        Ok(refusal) => Err(refusal.text),
        Err(_) if how == "open" => Ok(Answer::default()),
        Err(error) => Err(format!("fullsend: the guard did not answer: {error}")),
    }
}

/// Writes the output file. Whether it is good is decided on the host.
fn finish(task: &AgentTask, call: &ToolCall, finished: &mut bool) -> tools::Outcome {
    let output = call.input.get("output").unwrap_or(&call.input);
    let text = format!("{output:#}\n");
    match std::fs::write(&task.output_path, text) {
        Ok(()) => {
            *finished = true;
            tools::Outcome { text: "The result was handed in.".to_owned(), is_error: false }
        }
        Err(error) => tools::Outcome::error(format!("{}: {error}", task.output_path)),
    }
}
