//! Turns the actions of one turn into the steps of an answer, adapted to the tools that the request offers.

use super::scenario::{Action, Content};
use crate::wire::assemble::block_deltas;
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::{ContentBlock, Delta, ModelRequest, StopReason, TokenUsage, Tool, ToolCall};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum PlayStep {
    Delta(Delta),
    Sleep(Duration),
    Cut,
}

/// The names of shell tools in known clients, in order of preference.
const SHELL_TOOLS: &[&str] = &["Bash", "bash", "exec_command", "shell", "shell_command", "run_shell_command"];

const FINISH_TOOLS: &[&str] = &["finish", "finish_with_output", "structuredoutput", "structured_output"];

pub(super) struct PlayContext<'a> {
    pub(super) request: &'a ModelRequest,
    pub(super) request_bytes: usize,
    /// The same for a repeated request, different otherwise: the answer's ids are made from it.
    pub(super) digest: u64,
    /// How many times the same request was answered before.
    pub(super) attempt: u32,
}

/// `Err` is an error instead of an answer.
pub(super) fn play(acts: &[Action], context: &PlayContext<'_>) -> Result<Vec<PlayStep>, Fault> {
    let mut steps = Vec::new();
    let mut blocks: Vec<ContentBlock> = Vec::new();
    let mut stop = None;
    let mut usage = None;
    for act in acts {
        match act {
            Action::Usage(given) => usage = Some(*given),
            Action::MaxTokens => stop = Some(StopReason::MaxTokens),
            Action::Sleep { ms } => steps.push(PlayStep::Sleep(Duration::from_millis(*ms))),
            Action::Cut => steps.push(PlayStep::Cut),
            Action::Error { status, message, times } => {
                if context.attempt < *times {
                    let fault = scripted_fault(*status, message.as_deref());
                    if blocks.is_empty() {
                        return Err(fault);
                    }
                    steps.push(PlayStep::Delta(Delta::Error(fault)));
                    return Ok(with_start(steps, context, usage.unwrap_or_default()));
                }
            }
            Action::Say(content) => {
                let block = block_of(content, context, blocks.len())?;
                let mut deltas = Vec::new();
                block_deltas(blocks.len(), &block, &mut deltas);
                deltas.push(Delta::BlockEnd { block: blocks.len() });
                steps.extend(deltas.into_iter().map(PlayStep::Delta));
                blocks.push(block);
            }
        }
    }
    let usage = usage.unwrap_or_else(|| estimate(context.request_bytes, &blocks));
    let stop = stop.unwrap_or_else(|| StopReason::natural(&blocks));
    let mut steps = with_start(steps, context, usage);
    steps.push(PlayStep::Delta(Delta::Finish { stop, usage }));
    steps.push(PlayStep::Delta(Delta::End));
    Ok(steps)
}

/// The start comes before the first content; a pause before any content delays the start.
fn with_start(mut steps: Vec<PlayStep>, context: &PlayContext<'_>, usage: TokenUsage) -> Vec<PlayStep> {
    let first = steps.iter().position(|step| !matches!(step, PlayStep::Sleep(_))).unwrap_or(steps.len());
    let start = Delta::Start {
        id: format!("msg_{:016x}", context.digest),
        model: context.request.model.clone(),
        usage: TokenUsage { output: 0, ..usage },
    };
    steps.insert(first, PlayStep::Delta(start));
    steps
}

fn scripted_fault(status: u16, message: Option<&str>) -> Fault {
    let message =
        message.map_or_else(|| format!("the scenario answers with HTTP {status} here"), str::to_owned);
    Fault::new(FaultKind::from_status(status), message)
}

fn block_of(content: &Content, context: &PlayContext<'_>, index: usize) -> Result<ContentBlock, Fault> {
    let id = format!("toolu_{:016x}{index:02}", context.digest);
    let call =
        |name: &str, input: Value| ContentBlock::ToolCall(ToolCall { id, name: name.to_owned(), input });
    let tools = &context.request.tools;
    Ok(match content {
        Content::Text(text) => ContentBlock::Text(text.clone()),
        Content::Thinking(text) => {
            ContentBlock::Thinking { text: text.clone(), signature: "scripted".to_owned() }
        }
        Content::Tool { name, input } if input.is_null() => call(name, json!({})),
        Content::Tool { name, input } => call(name, input.clone()),
        Content::Shell(command) => {
            let tool = offered(tools, SHELL_TOOLS).ok_or_else(|| no_tool("a shell tool", tools))?;
            call(&tool.name, shell_input(tool, command))
        }
        Content::Finish(value) => match offered(tools, FINISH_TOOLS) {
            Some(tool) => call(&tool.name, finish_input(tool, value)),
            None => ContentBlock::Text(value.to_string()),
        },
    })
}

fn offered<'a>(tools: &'a [Tool], names: &[&str]) -> Option<&'a Tool> {
    let exact = names.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name));
    let folded = || tools.iter().find(|tool| names.contains(&tool.name.to_lowercase().as_str()));
    exact.or_else(folded)
}

fn no_tool(wanted: &str, tools: &[Tool]) -> Fault {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let message = format!("the scenario needs {wanted}, the request offers: [{}]", names.join(", "));
    Fault::new(FaultKind::InvalidRequest, message)
}

/// Shell tools differ in the name and the kind of their argument; their schema says which.
fn shell_input(tool: &Tool, command: &str) -> Value {
    let properties = &tool.schema["properties"];
    let mut input = if properties.get("cmd").is_some() {
        json!({ "cmd": command })
    } else if properties["command"]["type"] == "array" {
        json!({"command": ["bash", "-lc", command]})
    } else {
        json!({ "command": command })
    };
    let required = tool.schema["required"].as_array();
    if required.is_some_and(|names| names.iter().any(|name| name == "description")) {
        input["description"] = json!("scripted command");
    }
    input
}

/// A finish tool takes the output itself, or one argument that holds it.
fn finish_input(tool: &Tool, value: &Value) -> Value {
    let only_output = tool.schema["properties"]
        .as_object()
        .is_some_and(|properties| properties.len() == 1 && properties.contains_key("output"));
    let already = value.as_object().is_some_and(|object| object.len() == 1 && object.contains_key("output"));
    if only_output && !already { json!({ "output": value }) } else { value.clone() }
}

/// About four bytes per token, where the scenario gives no usage.
fn estimate(request_bytes: usize, blocks: &[ContentBlock]) -> TokenUsage {
    let written: usize = blocks
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) | ContentBlock::Thinking { text, .. } => text.len(),
            ContentBlock::ToolCall(call) => call.name.len() + call.input.to_string().len(),
            ContentBlock::ToolResult(_) | ContentBlock::Other(_) => 0,
        })
        .sum();
    TokenUsage {
        input: (request_bytes / 4) as u64,
        output: (written / 4 + 1) as u64,
        ..TokenUsage::default()
    }
}
