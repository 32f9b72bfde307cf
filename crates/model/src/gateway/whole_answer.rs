//! Inspects an answer that is not streamed. Parts that no verdict changes keep the upstream's bytes.

use super::inspect::{Inspect, Inspected, Verdict};
use super::stream_filter::FilterStop;
use crate::wire::{ContentBlock, ModelAnswer, StopReason, Wire, codec, rewrite};
use bytes::Bytes;
use std::collections::HashMap;

pub(super) fn inspect_answer(
    inspect: &Inspect,
    wire: Wire,
    bytes: Bytes,
    answer: &ModelAnswer,
) -> Result<Bytes, FilterStop> {
    let mut rewrites = HashMap::new();
    let mut denied = HashMap::new();
    for (index, block) in answer.blocks.iter().enumerate() {
        match block {
            ContentBlock::Text(text) => match inspect(&Inspected::Text { text }) {
                Verdict::Pass => {}
                Verdict::Replace(with) => drop(rewrites.insert(text.clone(), with)),
                Verdict::Deny(reason) => {
                    drop(rewrites.insert(
                        text.clone(),
                        format!("[fullsend withheld this text: {reason}. Continue the task without it.]"),
                    ));
                }
                Verdict::Stop(reason) => return Err(FilterStop::Stop(reason)),
            },
            ContentBlock::ToolCall(call) => {
                match inspect(&Inspected::ToolCall {
                    call_id: &call.id,
                    tool: &call.name,
                    input: &call.input,
                }) {
                    Verdict::Pass => {}
                    Verdict::Replace(reason) | Verdict::Deny(reason) => {
                        let text = format!("[fullsend denied the call to {}: {reason}]", call.name);
                        denied.insert(index, text);
                    }
                    Verdict::Stop(reason) => return Err(FilterStop::Stop(reason)),
                }
            }
            ContentBlock::Thinking { .. } | ContentBlock::ToolResult(_) | ContentBlock::Other(_) => {}
        }
    }
    let bytes = if denied.is_empty() { bytes } else { without_calls(wire, answer, &mut denied) };
    Ok(if rewrites.is_empty() { bytes } else { rewrite::replace_strings(&bytes, &rewrites).into() })
}

fn without_calls(wire: Wire, answer: &ModelAnswer, denied: &mut HashMap<usize, String>) -> Bytes {
    let mut answer = answer.clone();
    for (index, block) in answer.blocks.iter_mut().enumerate() {
        if let Some(text) = denied.remove(&index) {
            *block = ContentBlock::Text(text);
        }
    }
    if answer.stop == StopReason::ToolUse {
        answer.stop = StopReason::natural(&answer.blocks);
    }
    codec::write_answer(wire, &answer).to_string().into()
}
