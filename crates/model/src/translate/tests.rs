//! Translation of each part of a format into the other one.

use super::*;
use crate::wire::{AssembleError, ContentBlock, StopReason};
use serde_json::{Value, json};

fn chat(request: &Value) -> Result<Value, String> {
    let written = request_of(request, OutputLimit::MaxTokens)?;
    Ok(serde_json::from_slice(&written).unwrap())
}

fn request_of(request: &Value, limit: OutputLimit) -> Result<Vec<u8>, String> {
    let translated = super::request(Wire::Messages, request.to_string().as_bytes(), limit);
    translated.map(|translated| translated.body).map_err(|error| error.to_string())
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
            {"role": "tool", "tool_call_id": "b", "content": "seen\n[more content of this result is in the next message]"},
            {"role": "user", "content": [
                {"type": "text", "text": "More content of the result of the tool call b:"}, url, {"type": "text", "text": "and then"},
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

/// The translation back to a client of Messages, which does not depend on the request.
fn to_messages() -> AnswerTranslation {
    AnswerTranslation { to: Wire::Messages, tools: CalledTools::default() }
}

/// The answer that a client reads, with the stream cut into portions of this size.
fn streamed(answers: AnswerTranslation, text: &str, portion: usize) -> Result<ModelAnswer, AssembleError> {
    let wire = answers.to;
    let mut translator = answers.stream();
    let mut decoder = crate::wire::SseDecoder::default();
    for bytes in text.as_bytes().chunks(portion) {
        decoder.push(&translator.push(bytes).unwrap()).unwrap();
    }
    let mut reader = codec::FrameReader::new(wire);
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
        let answer = streamed(to_messages(), &text, portion).unwrap();
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
    assert!(streamed(to_messages(), &cut, 50).is_err(), "an answer without its end is not whole");
}

#[test]
fn errors_keep_the_words_of_the_service() {
    let said = |status: u16, body: &Value| {
        let written = to_messages().fault(status, body.to_string().as_bytes());
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
    let written = to_messages().answer(body.to_string().as_bytes()).unwrap();
    let read = codec::read_answer(Wire::Messages, &written).unwrap();
    assert_eq!(read.stop, StopReason::Refusal);
    assert_eq!(read.blocks[1], ContentBlock::Text("I cannot.".into()));
    assert_eq!((read.usage.input, read.usage.output), (3, 2));
}

fn responses(request: &Value) -> Result<(Value, AnswerTranslation), String> {
    let body = request.to_string();
    let translated = super::request(Wire::Responses, body.as_bytes(), OutputLimit::MaxTokens);
    let TranslatedRequest { body, answers } = translated.map_err(|error| error.to_string())?;
    Ok((serde_json::from_slice(&body).unwrap(), answers))
}

#[test]
fn a_conversation_of_codex_is_carried() {
    let ping = json!({"type": "function", "name": "ping", "description": "Pings.", "parameters": {"type": "object"}, "strict": false});
    let request = json!({
        "model": "qwen", "instructions": "Be good.", "stream": true, "store": false, "parallel_tool_calls": true,
        "tool_choice": "auto", "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "out", "schema": {"type": "object"}, "strict": true}},
        "tools": [
            {"type": "custom", "name": "apply_patch", "description": "Patches.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "namespace", "name": "mcp__lab", "description": "The lab.", "tools": [ping]},
        ],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": null},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "a", "namespace": "mcp__lab", "name": "ping", "arguments": "{\"n\": 1}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "pong"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBO"}]},
            {"type": "custom_tool_call_output", "call_id": "b", "output": "done"},
        ],
    });
    let (chat, _) = responses(&request).unwrap();
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let expected = json!([
        {"role": "system", "content": "Be good.\n\nBe brief."},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "I look.",
         "tool_calls": [call("a", "mcp__lab__ping", "{\"n\": 1}"), call("b", "apply_patch", "{\"input\":\"*** Begin\"}")]},
        {"role": "tool", "tool_call_id": "a", "content": "pong\n[more content of this result is in the next message]"},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {"role": "user", "content": [
            {"type": "text", "text": "More content of the result of the tool call a:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
        ]},
    ]);
    assert_eq!(chat["messages"], expected);
    let function = &chat["tools"][1]["function"];
    assert_eq!(
        (&function["name"], &function["description"]),
        (&json!("mcp__lab__ping"), &json!("The lab.\n\nPings."))
    );
    assert!(chat["tools"][0]["function"]["description"].as_str().unwrap().ends_with("start: x"));
    assert_eq!((&chat["verbosity"], &chat["reasoning_effort"]), (&json!("low"), &json!("low")));
    assert_eq!(chat["response_format"]["json_schema"]["name"], "out");
    for (tool, words) in [
        (json!({"type": "tool_search", "execution": "client"}), "unknown variant `tool_search`"),
        (json!({"type": "local_shell"}), "unknown variant `local_shell`"),
    ] {
        let mut request = request.clone();
        request["tools"] = json!([tool]);
        let refused = responses(&request).map(drop).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn codex_reads_its_own_names_of_tools() {
    let tools = json!([
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "mcp__lab", "tools": [{"type": "function", "name": "ping"}]},
    ]);
    let request = json!({"model": "qwen", "input": "go", "tools": tools});
    let part = |index: u64, name: &str, arguments: &str| {
        let call = json!({"index": index, "id": format!("c{index}"), "function": {"name": name, "arguments": arguments}});
        chunk(&json!({ "tool_calls": [call] }), None)
    };
    let text = frames(&[
        chunk(&json!({"reasoning": "hm"}), None),
        chunk(&json!({"content": "I look."}), None),
        part(0, "apply_patch", "{\"input\":\"*** Begin\"}"),
        part(1, "mcp__lab__ping", "{\"n\":1}"),
        chunk(&json!({}), Some("tool_calls")),
        json!({"id": "c1", "model": "qwen", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}),
    ]);
    let (_, answers) = responses(&request).unwrap();
    let written = String::from_utf8(answers.stream().push(text.as_bytes()).unwrap()).unwrap();
    let completed = written.split("data: ").last().unwrap();
    let completed: Value = serde_json::from_str(completed.trim()).unwrap();
    let output = completed["response"]["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "custom_tool_call", "function_call"], "{completed}");
    assert_eq!(output[2]["input"], "*** Begin");
    assert_eq!((&output[3]["namespace"], &output[3]["name"]), (&json!("mcp__lab"), &json!("ping")));
    let (_, answers) = responses(&request).unwrap();
    let answer = streamed(answers, &text, 11).unwrap();
    assert_eq!((answer.usage.input, answer.usage.output, answer.stop), (9, 3, StopReason::ToolUse));
    assert!(matches!(&answer.blocks[3], ContentBlock::ToolCall(call) if call.name == "mcp__lab__ping"));
}

#[test]
fn held_back_call_is_inspected_billed_and_bounded() {
    let part = |arguments: &str| {
        let call = json!({"index": 0, "id": "a", "function": {"name": "Write", "arguments": arguments}});
        format!("data: {}\n\n", chunk(&json!({ "tool_calls": [call] }), None))
    };
    for wire in [Wire::Messages, Wire::Responses] {
        let answers = AnswerTranslation { to: wire, tools: CalledTools::default() };
        let mut stream = answers.stream();
        stream.push(part("{").as_bytes()).unwrap();
        assert!(!stream.push(part("x").as_bytes()).unwrap().is_empty(), "who waits sees that it goes on");
        let failed = stream.push(b"data: {\"error\": {\"message\": \"the node died\"}}\n\n").unwrap();
        let mut decoder = crate::wire::SseDecoder::default();
        decoder.push(&failed).unwrap();
        let mut reader = codec::FrameReader::new(wire);
        let deltas: Vec<crate::wire::Delta> = std::iter::from_fn(|| decoder.next_frame())
            .flat_map(|frame| reader.read(&frame).unwrap())
            .collect();
        let has_output = deltas.iter().any(|delta| matches!(delta, crate::wire::Delta::Text { .. }));
        assert!(has_output && matches!(deltas.last(), Some(crate::wire::Delta::Error(_))), "{deltas:?}");
    }
    let mut stream = to_messages().stream();
    let large = part(&"x".repeat(8 << 20));
    assert!((0..5).any(|_| stream.push(large.as_bytes()).is_err()), "what is held has a bound");
}
