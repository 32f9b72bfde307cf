//! Keeps a conversation within its size: removes the oldest tool results first, and never those of the last turns. What
//! the model and the user said stays.

use model::wire::{ContentBlock, Message};

/// The results in this many last messages stay.
const RECENT: usize = 6;

/// Shorter results stay.
const MIN_REMOVED: usize = 400;

/// If the conversation is larger than `most` bytes, removes old results until it is half of that.
pub fn compact(messages: &mut [Message], most: usize) {
    let mut total: usize = messages.iter().flat_map(|message| &message.blocks).map(size).sum();
    if total <= most {
        return;
    }
    let old = messages.len().saturating_sub(RECENT);
    let blocks = messages[..old].iter_mut().flat_map(|message| &mut message.blocks);
    for block in blocks {
        let before = size(block);
        let ContentBlock::ToolResult(result) = block else { continue };
        if total <= most / 2 || before < MIN_REMOVED {
            continue;
        }
        result.parts =
            vec![format!("[{before} bytes removed to save space. Call the tool again if you need them.]")];
        total = total.saturating_sub(before);
    }
}

fn size(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) | ContentBlock::Thinking { text, .. } => text.len(),
        ContentBlock::ToolCall(call) => call.input.to_string().len(),
        ContentBlock::ToolResult(result) => result.parts.iter().map(String::len).sum(),
        ContentBlock::Other(value) => value.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::wire::{MessageRole, ToolResult};

    fn result(bytes: usize) -> Message {
        let result = ToolResult { id: "a".to_owned(), parts: vec!["x".repeat(bytes)], is_error: false };
        Message { role: MessageRole::User, blocks: vec![ContentBlock::ToolResult(result)] }
    }

    fn sizes(messages: &[Message]) -> Vec<usize> {
        messages.iter().map(|message| size(&message.blocks[0])).collect()
    }

    #[test]
    fn the_oldest_results_go_first_and_the_last_stay() {
        let mut messages: Vec<Message> = std::iter::once(Message::user("do it".repeat(200)))
            .chain((0..12).map(|_| result(1000)))
            .collect();
        let before = messages.clone();
        compact(&mut messages, 20_000);
        assert_eq!(messages, before, "there is room");
        compact(&mut messages, 12_000);
        let after = sizes(&messages);
        assert_eq!(after[0], 1000, "words stay");
        assert!(after[1..7].iter().all(|bytes| *bytes < 100), "{after:?}");
        assert!(after[7..].iter().all(|bytes| *bytes == 1000), "{after:?}");
    }
}
