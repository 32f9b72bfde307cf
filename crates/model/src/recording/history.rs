//! A digest of the conversation in a request: prompts, answers and tool calls, but not tool results, which differ from run to
//! run. In prompts, words with digits (times, ids) count as equal.

use super::Redact;
use crate::wire::{ContentBlock, MessageRole, ModelRequest, Wire};
use ring::digest::{Context, SHA256};

pub(super) fn digest(wire: Wire, request: &ModelRequest, redact: &Redact) -> String {
    let mut context = Context::new(&SHA256);
    let mut add = |kind: &str, text: &str| {
        for part in [kind, text] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
    };
    add("wire", wire.name());
    for message in &request.messages {
        for block in &message.blocks {
            match (message.role, block) {
                (MessageRole::Assistant, ContentBlock::Text(text)) => add("said", &redact(text)),
                (_, ContentBlock::ToolCall(call)) => {
                    add("called", &call.name);
                    add("with", &redact(&call.input.to_string()));
                }
                (_, ContentBlock::ToolResult(_)) => add("result", ""),
                (MessageRole::User, ContentBlock::Text(text)) => add("asked", &lasting(&redact(text))),
                _ => {}
            }
        }
    }
    data_encoding::HEXLOWER.encode(context.finish().as_ref())
}

/// The text without what runtimes change from run to run.
fn lasting(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    // Runtimes put the date, the state of the repository and more here.
    while let Some((before, after)) = rest.split_once("<system-reminder>") {
        out.push_str(before);
        rest = after.split_once("</system-reminder>").map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    let word = |word: &str| {
        if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() }
    };
    let words: Vec<String> = out.split(|c: char| !c.is_alphanumeric()).map(word).collect();
    words.join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::lasting;

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        let one =
            "Fix it.\n<system-reminder>Today is Monday</system-reminder> See run 0198f2a1-7c, at 10:42.";
        let two = "Fix it.\n<system-reminder>Today is Friday</system-reminder> See run 99aa1234-1b, at 9:01.";
        assert_eq!(lasting(one), lasting(two));
        assert_ne!(lasting("Fix it."), lasting("Break it."));
        assert_eq!(lasting("a <system-reminder> never ends"), "a");
    }
}
