//! What each format can say, in the other one.

use super::*;
use crate::wire::{ContentBlock, StopReason};
use serde_json::{Value, json};

fn chat(request: &Value) -> Result<Value, String> {
    let written = request_of(request, OutputLimit::MaxTokens)?;
    Ok(serde_json::from_slice(&written).unwrap())
}

fn request_of(request: &Value, limit: OutputLimit) -> Result<Vec<u8>, String> {
    super::request(Wire::Chat, request.to_string().as_bytes(), limit).map_err(|error| error.to_string())
}

#[test]
fn a_conversation_with_everything_in_it_is_carried() {
    let picture =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
    let request = json!({
        "model": "llama", "max_tokens": 900, "stream": true, "temperature": 0.5, "stop_sequences": ["END"],
        "system": [{"type": "text", "text": "Be good.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Be brief."}],
        "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 500},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "tools": [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "b", "name": "Read", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "text", "text": "and then"},
                {"type": "tool_result", "tool_use_id": "a", "content": "no such file", "is_error": true},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "seen"}, picture]},
            ]},
        ],
    });
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}});
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let expected = json!({
        "model": "llama", "max_tokens": 900, "stream": true, "stream_options": {"include_usage": true},
        "temperature": 0.5, "stop": ["END"], "reasoning_effort": "high",
        "tools": [{"type": "function", "function": {"name": "Bash", "description": "Runs.", "parameters": {"type": "object"}}}],
        "tool_choice": "required", "parallel_tool_calls": false,
        "messages": [
            {"role": "system", "content": "Be good.\n\nBe brief."},
            {"role": "user", "content": [{"type": "text", "text": "look"}, url]},
            {"role": "assistant", "content": "I look.",
             "tool_calls": [call("a", "Bash", "{\"command\":\"ls\"}"), call("b", "Read", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": "Error: no such file"},
            {"role": "tool", "tool_call_id": "b", "content": "seen\n[the next message shows what belongs to this result]"},
            {"role": "user", "content": [
                {"type": "text", "text": "This belongs to the result of the tool call b:"}, url, {"type": "text", "text": "and then"},
            ]},
        ],
    });
    assert_eq!(chat(&request).unwrap(), expected);
    let own = request_of(&request, OutputLimit::MaxCompletionTokens).unwrap();
    let own: Value = serde_json::from_slice(&own).unwrap();
    assert_eq!((&own["max_completion_tokens"], &own["max_tokens"]), (&json!(900), &Value::Null));
}

#[test]
fn what_the_format_cannot_carry_is_refused_by_name() {
    let with = |field: &str, value: Value| {
        let mut request = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        request[field] = value;
        chat(&request).unwrap_err()
    };
    let said = |block: Value| with("messages", json!([{"role": "user", "content": [block]}]));
    for (error, words) in [
        (with("top_k", json!(5)), "it has no `top_k`"),
        (with("output_config", json!({"effort": "max"})), "it has no effort `max`"),
        (
            with("tools", json!([{"type": "bash_20250124", "name": "bash"}])),
            "tool of the type `bash_20250124`",
        ),
        (
            with("context_management", json!({"edits": [{"type": "clear_tool_uses_1"}]})),
            "`clear_tool_uses_1`",
        ),
        (with("container", json!({})), "unknown field `container`"),
        (said(json!({"type": "tool_reference", "tool_name": "x"})), "it has no tool_reference"),
        (said(json!({"type": "server_tool_use"})), "unknown variant `server_tool_use`"),
    ] {
        assert!(error.starts_with("the request cannot be sent to /v1/chat/completions: "), "{error}");
        assert!(error.contains(words), "{error}");
    }
}

fn frames(chunks: &[Value]) -> String {
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    text
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({"id": "c1", "model": "llama", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// The answer that a client of Messages reads, with the stream cut into portions of this size.
fn streamed(text: &str, portion: usize) -> Result<crate::wire::ModelAnswer, crate::wire::AssembleError> {
    let mut translator = StreamTranslator::new();
    let mut decoder = crate::wire::SseDecoder::default();
    for bytes in text.as_bytes().chunks(portion) {
        decoder.push(&translator.push(bytes).unwrap()).unwrap();
    }
    let mut reader = codec::FrameReader::new(Wire::Messages);
    let mut assembler = crate::wire::assemble::AnswerAssembler::default();
    while let Some(frame) = decoder.next_frame() {
        for delta in reader.read(&frame).unwrap() {
            assembler.push(delta)?;
        }
    }
    assembler.finish()
}

#[test]
fn a_stream_keeps_words_thoughts_calls_and_usage() {
    let part = |index: u64, id: &str, name: &str, arguments: &str| {
        let call = json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
        chunk(&json!({ "tool_calls": [call] }), None)
    };
    let usage =
        json!({"prompt_tokens": 105, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}});
    // The calls alternate, one has no id, and the server says `stop` all the same.
    let text = frames(&[
        chunk(&json!({"role": "assistant", "content": ""}), None),
        chunk(&json!({"reasoning_content": "hm"}), None),
        chunk(&json!({"content": "I "}), None),
        chunk(&json!({"content": "look."}), None),
        part(0, "a", "Bash", "{\"comm"),
        part(1, "", "Read", "{}"),
        part(0, "", "", "and\":\"ls\"}"),
        chunk(&json!({}), Some("stop")),
        json!({"id": "c1", "model": "llama", "choices": [], "usage": usage}),
    ]);
    for portion in [1, 7, 100, 10_000] {
        let answer = streamed(&text, portion).unwrap();
        let call = |id: &str, name: &str, input: Value| {
            ContentBlock::ToolCall(crate::wire::ToolCall { id: id.into(), name: name.into(), input })
        };
        let expected = [
            ContentBlock::Thinking { text: "hm".into(), signature: String::new() },
            ContentBlock::Text("I look.".into()),
            call("a", "Bash", json!({"command": "ls"})),
            call("call_c1_2", "Read", json!({})),
        ];
        assert_eq!(answer.blocks, expected);
        assert_eq!(answer.stop, StopReason::ToolUse);
        assert_eq!((answer.usage.input, answer.usage.cache_read, answer.usage.output), (100, 5, 7));
    }
    let cut = frames(&[chunk(&json!({"content": "half"}), None)]);
    assert!(streamed(&cut, 50).is_err(), "an answer without its end is not whole");
}

#[test]
fn errors_keep_the_words_of_the_service() {
    let said = |status: u16, body: &Value| {
        let written = fault(Wire::Chat, Wire::Messages, status, body.to_string().as_bytes());
        let value: Value = serde_json::from_slice(&written).unwrap();
        (
            value["error"]["type"].as_str().unwrap().to_owned(),
            value["error"]["message"].as_str().unwrap().to_owned(),
        )
    };
    let error = |message: &str| json!({"error": {"message": message, "type": "x", "code": null}});
    assert_eq!(said(429, &error("slow down")), ("rate_limit_error".into(), "slow down".into()));
    assert_eq!(said(401, &error("bad key")), ("authentication_error".into(), "bad key".into()));
    let long = "This model's maximum context length is 8192 tokens.";
    assert_eq!(said(400, &error(long)).1, format!("prompt is too long: {long}"));
}

#[test]
fn a_whole_answer_is_translated_with_its_refusal() {
    let body = json!({
        "id": "c1", "model": "llama",
        "choices": [{"index": 0, "finish_reason": "content_filter",
                     "message": {"role": "assistant", "content": null, "reasoning": "hm", "refusal": "I cannot."}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    });
    let written = answer(Wire::Chat, Wire::Messages, body.to_string().as_bytes()).unwrap();
    let read = codec::read_answer(Wire::Messages, &written).unwrap();
    assert_eq!(read.stop, StopReason::Refusal);
    assert_eq!(read.blocks[1], ContentBlock::Text("I cannot.".into()));
    assert_eq!((read.usage.input, read.usage.output), (3, 2));
}
