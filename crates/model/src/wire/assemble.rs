//! Folds the deltas of a streamed answer into one whole answer, and unfolds a whole answer into deltas.

use super::{ContentBlock, Delta, ModelAnswer, StopReason, TokenUsage, ToolCall, fault::Fault};
use serde_json::Value;
use std::fmt;

/// More blocks than any answer has; a stream that opens more is broken.
const MAX_BLOCKS: usize = 4096;

#[derive(Debug, Default)]
pub struct AnswerAssembler {
    answer: ModelAnswer,
    parts: Vec<OpenBlock>,
    ended: bool,
}

#[derive(Debug)]
enum OpenBlock {
    Empty,
    Text(String),
    Thinking { text: String, signature: String },
    ToolCall { id: String, name: String, json: String },
    Other(Value),
}

#[derive(Debug, PartialEq, Eq)]
pub enum AssembleError {
    /// The stream itself reported an error.
    Fault(Fault),
    /// The stream ended without its end marker.
    Cut,
    TooManyBlocks,
    /// The model's tool input is not JSON.
    ToolInput {
        tool: String,
        reason: String,
    },
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Cut => f.write_str("the answer was cut off before its end"),
            Self::TooManyBlocks => write!(f, "the answer has more than {MAX_BLOCKS} blocks"),
            Self::ToolInput { tool, reason } => {
                write!(f, "the input of the call to {tool} is not JSON: {reason}")
            }
        }
    }
}

impl std::error::Error for AssembleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fault(fault) => Some(fault),
            Self::Cut | Self::TooManyBlocks | Self::ToolInput { .. } => None,
        }
    }
}

impl AnswerAssembler {
    pub fn push(&mut self, delta: Delta) -> Result<(), AssembleError> {
        match delta {
            Delta::Start { id, model, usage } => {
                self.answer.id = id;
                self.answer.model = model;
                self.answer.usage.raise(&usage);
            }
            Delta::Text { block, text } => match self.part(block)? {
                OpenBlock::Text(all) => all.push_str(&text),
                part => *part = OpenBlock::Text(text),
            },
            Delta::Thinking { block, text } => self.thinking(block, &text, "")?,
            Delta::Signature { block, signature } => self.thinking(block, "", &signature)?,
            Delta::ToolCall { block, id, name } => {
                *self.part(block)? = OpenBlock::ToolCall { id, name, json: String::new() };
            }
            Delta::ToolInput { block, json } => {
                if let OpenBlock::ToolCall { json: all, .. } = self.part(block)? {
                    all.push_str(&json);
                }
            }
            Delta::Other { block, value } => *self.part(block)? = OpenBlock::Other(value),
            Delta::BlockEnd { .. } => {}
            Delta::Usage(usage) => self.answer.usage.raise(&usage),
            Delta::Finish { stop, usage } => {
                self.answer.stop = stop;
                self.answer.usage.raise(&usage);
            }
            Delta::End => self.ended = true,
            Delta::Error(fault) => return Err(AssembleError::Fault(fault)),
        }
        Ok(())
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The tool call of a block, once its block has ended.
    pub fn tool_call(&self, block: usize) -> Option<Result<ToolCall, AssembleError>> {
        match self.parts.get(block) {
            Some(OpenBlock::ToolCall { id, name, json }) => Some(tool_call(id, name, json)),
            _ => None,
        }
    }

    pub fn finish(self) -> Result<ModelAnswer, AssembleError> {
        if !self.ended {
            return Err(AssembleError::Cut);
        }
        let mut answer = self.answer;
        for part in self.parts {
            answer.blocks.push(match part {
                OpenBlock::Empty => continue,
                OpenBlock::Text(text) => ContentBlock::Text(text),
                OpenBlock::Thinking { text, signature } => ContentBlock::Thinking { text, signature },
                OpenBlock::ToolCall { id, name, json } => {
                    ContentBlock::ToolCall(tool_call(&id, &name, &json)?)
                }
                OpenBlock::Other(value) => ContentBlock::Other(value),
            });
        }
        Ok(answer)
    }

    fn part(&mut self, block: usize) -> Result<&mut OpenBlock, AssembleError> {
        if block >= MAX_BLOCKS {
            return Err(AssembleError::TooManyBlocks);
        }
        if self.parts.len() <= block {
            self.parts.resize_with(block + 1, || OpenBlock::Empty);
        }
        Ok(&mut self.parts[block])
    }

    fn thinking(&mut self, block: usize, more: &str, sign: &str) -> Result<(), AssembleError> {
        let part = self.part(block)?;
        if !matches!(part, OpenBlock::Thinking { .. }) {
            *part = OpenBlock::Thinking { text: String::new(), signature: String::new() };
        }
        if let OpenBlock::Thinking { text, signature } = part {
            text.push_str(more);
            signature.push_str(sign);
        }
        Ok(())
    }
}

fn tool_call(id: &str, name: &str, json: &str) -> Result<ToolCall, AssembleError> {
    let input = if json.trim().is_empty() {
        Value::Object(serde_json::Map::new())
    } else {
        serde_json::from_str(json)
            .map_err(|error| AssembleError::ToolInput { tool: name.to_owned(), reason: error.to_string() })?
    };
    Ok(ToolCall { id: id.to_owned(), name: name.to_owned(), input })
}

/// Text goes out in small portions, as vendors send it, so that all later stages are tested with chunk boundaries.
const PORTION_CHARS: usize = 24;

pub fn answer_deltas(answer: &ModelAnswer) -> Vec<Delta> {
    let ModelAnswer { id, model, blocks, stop, usage } = answer;
    let start = TokenUsage { output: usage.output.min(1), ..*usage };
    let mut deltas = vec![Delta::Start { id: id.clone(), model: model.clone(), usage: start }];
    for (block, content) in blocks.iter().enumerate() {
        block_deltas(block, content, &mut deltas);
        deltas.push(Delta::BlockEnd { block });
    }
    deltas.push(Delta::Finish { stop: stop.clone(), usage: *usage });
    deltas.push(Delta::End);
    deltas
}

pub fn block_deltas(block: usize, content: &ContentBlock, deltas: &mut Vec<Delta>) {
    match content {
        ContentBlock::Text(text) => {
            deltas.extend(portions(text).into_iter().map(|text| Delta::Text { block, text }));
        }
        ContentBlock::Thinking { text, signature } => {
            deltas.extend(portions(text).into_iter().map(|text| Delta::Thinking { block, text }));
            deltas.push(Delta::Signature { block, signature: signature.clone() });
        }
        ContentBlock::ToolCall(ToolCall { id, name, input }) => {
            deltas.push(Delta::ToolCall { block, id: id.clone(), name: name.clone() });
            let json = input.to_string();
            deltas.extend(portions(&json).into_iter().map(|json| Delta::ToolInput { block, json }));
        }
        ContentBlock::Other(value) => deltas.push(Delta::Other { block, value: value.clone() }),
        ContentBlock::ToolResult(_) => {}
    }
}

fn portions(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (index, character) in text.chars().enumerate() {
        if index % PORTION_CHARS == 0 {
            out.push(String::new());
        }
        if let Some(last) = out.last_mut() {
            last.push(character);
        }
    }
    if out.is_empty() {
        out.push(String::new());
    }
    out
}

impl StopReason {
    /// The stop reason of an answer with these blocks, if there was no other reason.
    pub fn natural(blocks: &[ContentBlock]) -> Self {
        let calls = blocks.iter().any(|block| matches!(block, ContentBlock::ToolCall(_)));
        if calls { Self::ToolUse } else { Self::EndTurn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> ModelAnswer {
        let blocks = vec![
            ContentBlock::Thinking { text: "hm".repeat(40), signature: "sig".to_owned() },
            ContentBlock::Text("é".repeat(70)),
            ContentBlock::ToolCall(ToolCall {
                id: "c1".into(),
                name: "Bash".into(),
                input: json!({"command": "ls"}),
            }),
        ];
        let usage = TokenUsage { input: 5, output: 9, cache_read: 2, cache_write: 1, cache_write_hour: 3 };
        ModelAnswer { id: "m1".into(), model: "m".into(), stop: StopReason::natural(&blocks), blocks, usage }
    }

    #[test]
    fn folding_undoes_unfolding() {
        let mut fold = AnswerAssembler::default();
        for delta in answer_deltas(&sample()) {
            fold.push(delta).unwrap();
        }
        assert_eq!(fold.finish(), Ok(sample()));
    }

    #[test]
    fn a_stream_without_its_end_is_cut() {
        let mut fold = AnswerAssembler::default();
        for delta in answer_deltas(&sample()).into_iter().filter(|delta| *delta != Delta::End) {
            fold.push(delta).unwrap();
        }
        assert_eq!(fold.finish(), Err(AssembleError::Cut));
    }

    #[test]
    fn a_far_block_is_refused() {
        let delta = Delta::Text { block: usize::MAX, text: String::new() };
        assert_eq!(AnswerAssembler::default().push(delta), Err(AssembleError::TooManyBlocks));
    }
}
