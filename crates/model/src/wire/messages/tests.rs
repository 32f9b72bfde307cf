//! Round trips through the Messages format, and documents as real clients and the vendor write them.

use super::read::read_usage;
use super::*;
use crate::wire::assemble::{AnswerAssembler, answer_deltas};
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::sse::SseFrame;
use crate::wire::{
    ContentBlock, Delta, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool,
    ToolCall, ToolResult,
};
use serde_json::{Value, json};

fn call() -> ContentBlock {
    ContentBlock::ToolCall(ToolCall {
        id: "toolu_1".into(),
        name: "Bash".into(),
        input: json!({"command": "ls"}),
    })
}

#[test]
fn a_request_survives_the_round_trip() {
    let result = ToolResult { id: "toolu_1".into(), parts: vec!["a".into(), "b".into()], is_error: true };
    let other = json!({"type": "redacted_thinking", "data": "xyz"});
    let request = ModelRequest {
        model: "m".into(),
        system: vec!["be brief".into()],
        documents: Vec::new(),
        messages: vec![
            Message::user("go"),
            Message {
                role: MessageRole::Assistant,
                blocks: vec![
                    ContentBlock::Thinking { text: "hm".into(), signature: "s".into() },
                    ContentBlock::Other(other),
                    call(),
                ],
            },
            Message { role: MessageRole::User, blocks: vec![ContentBlock::ToolResult(result)] },
        ],
        tools: vec![Tool {
            name: "Bash".into(),
            description: "runs".into(),
            schema: json!({"type": "object"}),
        }],
        max_tokens: Some(77),
        effort: Some("low".into()),
        stream: true,
    };
    let bytes = write_request(&request).to_string();
    assert_eq!(read_request(bytes.as_bytes()).unwrap(), request);
}

#[test]
fn a_request_of_another_client_is_read_with_its_unknown_fields() {
    let body = json!({
        "model": "m", "max_tokens": 32000, "stream": true, "metadata": {"user_id": "u"}, "thinking": {"type": "adaptive"},
        "system": [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "two"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image", "source": {}}]},
            {"role": "system", "content": "note"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {"p": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "plain"}]},
        ],
        "tools": [{"name": "Read", "input_schema": {"type": "object"}}, {"type": "web_search_20250305", "name": "web"}],
    });
    let request = read_request(body.to_string().as_bytes()).unwrap();
    assert_eq!(request.system, ["one", "two"]);
    assert_eq!(request.messages[1].role, MessageRole::System);
    assert_eq!(request.turns(), 1);
    assert_eq!(request.tool_results().next().unwrap().parts, ["plain"]);
    assert_eq!(request.tools[1].name, "web");
}

#[test]
fn wrong_documents_are_refused_with_a_reason() {
    for (body, reason) in [
        ("", "EOF"),
        ("[]", "invalid"),
        (r#"{"messages":[]}"#, "missing field `model`"),
        (r#"{"model":"m"}"#, "missing field `messages`"),
        (r#"{"model":"m","messages":[{"role":"robot","content":""}]}"#, "unknown role \"robot\""),
    ] {
        let error = read_request(body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{body}: {error}");
    }
}

fn answer() -> ModelAnswer {
    let blocks = vec![ContentBlock::Text("Grüße".into()), call()];
    let usage = TokenUsage { input: 10, output: 20, cache_read: 30, cache_write: 40, cache_write_hour: 50 };
    ModelAnswer { id: "msg_1".into(), model: "m".into(), blocks, stop: StopReason::ToolUse, usage }
}

#[test]
fn an_answer_survives_both_ways_of_delivery() {
    let whole = write_answer(&answer()).to_string();
    assert_eq!(read_answer(whole.as_bytes()).unwrap(), answer());

    let mut writer = MessagesWriter::default();
    let mut fold = AnswerAssembler::default();
    for frame in answer_deltas(&answer()).iter().flat_map(|delta| writer.write(delta)) {
        for delta in read_frame(&frame).unwrap() {
            fold.push(delta).unwrap();
        }
    }
    assert_eq!(fold.finish().unwrap(), answer());
}

#[test]
fn a_block_opens_once_and_closes() {
    let mut writer = MessagesWriter::default();
    let frames: Vec<SseFrame> =
        answer_deltas(&answer()).iter().flat_map(|delta| writer.write(delta)).collect();
    let kinds: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    let opened = kinds.iter().filter(|kind| **kind == "content_block_start").count();
    let closed = kinds.iter().filter(|kind| **kind == "content_block_stop").count();
    assert_eq!((opened, closed), (2, 2));
    assert_eq!((kinds.first(), kinds.last()), (Some(&"message_start"), Some(&"message_stop")));
}

#[test]
fn frames_of_no_meaning_say_nothing_and_broken_ones_are_errors() {
    let read = |data: &str| read_frame(&SseFrame::new("x", data));
    assert_eq!(read(r#"{"type":"ping"}"#).unwrap(), vec![]);
    assert_eq!(read(r#"{"type":"from_the_future","index":3}"#).unwrap(), vec![]);
    assert!(read("{").is_err());
    let fault = Fault::new(FaultKind::Overloaded, "busy");
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    assert_eq!(read(&error.to_string()).unwrap(), vec![Delta::Error(fault.clone())]);
    assert_eq!(write_fault(&fault), error);
}

#[test]
fn usage_that_reports_no_split_counts_as_the_short_cache() {
    let usage =
        read_usage(&json!({"input_tokens": 1, "cache_creation_input_tokens": 9, "output_tokens": null}));
    assert_eq!(usage, TokenUsage { input: 1, cache_write: 9, ..TokenUsage::default() });
    assert_eq!(read_usage(&Value::Null), TokenUsage::default());
}
