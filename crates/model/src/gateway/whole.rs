//! Judges an answer that came whole. What a verdict does not change keeps the upstream's bytes.

use super::gate::Halt;
use super::judge::{Judge, Subject, Verdict};
use crate::wire::{Answer, Block, Stop, Wire, codec, rewrite};
use bytes::Bytes;
use std::collections::HashMap;

pub(super) fn judge_answer(judge: &Judge, wire: Wire, bytes: Bytes, answer: &Answer) -> Result<Bytes, Halt> {
    let mut rewrites = HashMap::new();
    let mut denied = HashMap::new();
    for (index, block) in answer.blocks.iter().enumerate() {
        match block {
            Block::Text(text) => match judge(&Subject::Text { text }) {
                Verdict::Pass => {}
                Verdict::Replace(with) => drop(rewrites.insert(text.clone(), with)),
                Verdict::Deny(reason) => {
                    drop(rewrites.insert(text.clone(), format!("[fullsend withheld this text: {reason}]")));
                }
                Verdict::Stop(reason) => return Err(Halt::Stop(reason)),
            },
            Block::ToolCall(call) => {
                match judge(&Subject::ToolCall { call_id: &call.id, tool: &call.name, input: &call.input }) {
                    Verdict::Pass => {}
                    Verdict::Replace(reason) | Verdict::Deny(reason) => {
                        let text = format!("[fullsend refused the call to {}: {reason}]", call.name);
                        denied.insert(index, text);
                    }
                    Verdict::Stop(reason) => return Err(Halt::Stop(reason)),
                }
            }
            Block::Thinking { .. } | Block::ToolResult(_) | Block::Other(_) => {}
        }
    }
    let bytes = if denied.is_empty() { bytes } else { without_calls(wire, answer, &mut denied) };
    Ok(if rewrites.is_empty() { bytes } else { rewrite::replace_strings(&bytes, &rewrites).into() })
}

fn without_calls(wire: Wire, answer: &Answer, denied: &mut HashMap<usize, String>) -> Bytes {
    let mut answer = answer.clone();
    for (index, block) in answer.blocks.iter_mut().enumerate() {
        if let Some(text) = denied.remove(&index) {
            *block = Block::Text(text);
        }
    }
    if answer.stop == Stop::ToolUse {
        answer.stop = Stop::natural(&answer.blocks);
    }
    codec::write_answer(wire, &answer).to_string().into()
}
