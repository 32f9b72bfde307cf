//! Every format against the same conversations.

use super::assemble::{AnswerAssembler, answer_deltas};
use super::codec::{self, FrameReader, FrameWriter};
use super::fault::{Fault, FaultKind};
use super::{
    ContentBlock, Delta, Message, MessageRole, ModelAnswer, ModelRequest, StopReason, TokenUsage, Tool,
    ToolCall, ToolResult, Wire,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolCall(ToolCall { id: id.into(), name: "Bash".into(), input })
}

fn request() -> ModelRequest {
    let results = ["c1", "c2"].map(|id| {
        ContentBlock::ToolResult(ToolResult {
            id: id.into(),
            parts: vec![format!("of {id}")],
            is_error: false,
        })
    });
    ModelRequest {
        model: "m".into(),
        system: vec!["be brief".into()],
        documents: Vec::new(),
        messages: vec![
            Message::user("go"),
            Message {
                role: MessageRole::Assistant,
                blocks: vec![
                    ContentBlock::Text("now".into()),
                    call("c1", json!({"command": "ls"})),
                    call("c2", json!({})),
                ],
            },
            Message { role: MessageRole::User, blocks: results.to_vec() },
            Message { role: MessageRole::Assistant, blocks: vec![ContentBlock::Text("done".into())] },
            Message::user("more"),
        ],
        tools: vec![Tool {
            name: "Bash".into(),
            description: "runs".into(),
            schema: json!({"type": "object"}),
        }],
        max_tokens: Some(77),
        effort: Some("low".into()),
        stream: true,
    }
}

#[test]
fn requests_survive_every_format() {
    for wire in Wire::ALL {
        let body = codec::write_request(wire, &request()).to_string();
        assert_eq!(codec::read_request(wire, body.as_bytes()).unwrap(), request(), "{wire:?}");
        assert_eq!(request().turns(), 2);
    }
}

fn answers() -> impl Strategy<Value = ModelAnswer> {
    let input =
        prop_oneof![Just(json!({})), Just(json!({"command": "ls \"x\" é"})), Just(json!({"n": [1, 2]}))];
    let block = prop_oneof![
        "[a-zé \n\"]{1,60}".prop_map(ContentBlock::Text),
        input.prop_map(|input| call("c", input))
    ];
    (proptest::collection::vec(block, 0..4), any::<bool>(), 0u64..1000, 0u64..1000).prop_map(
        |(blocks, cut, used, cached)| {
            // Chat has one text for an answer, in front of its calls.
            let said: String = blocks.iter().filter_map(ContentBlock::as_text).collect();
            let mut all: Vec<ContentBlock> =
                (!said.is_empty()).then_some(ContentBlock::Text(said)).into_iter().collect();
            let calls =
                blocks.into_iter().filter(|block| matches!(block, ContentBlock::ToolCall(_))).enumerate();
            all.extend(calls.map(|(number, block)| match block {
                ContentBlock::ToolCall(call) => {
                    ContentBlock::ToolCall(ToolCall { id: format!("c{number}"), ..call })
                }
                other => other,
            }));
            let stop = if cut { StopReason::MaxTokens } else { StopReason::natural(&all) };
            let usage = TokenUsage {
                input: used,
                output: used + 1,
                cache_read: cached,
                cache_write: 3,
                cache_write_hour: 0,
            };
            ModelAnswer { id: "a1".into(), model: "m".into(), blocks: all, stop, usage }
        },
    )
}

fn through_stream(wire: Wire, answer: &ModelAnswer) -> ModelAnswer {
    let mut writer = FrameWriter::new(wire);
    let mut reader = FrameReader::new(wire);
    let mut fold = AnswerAssembler::default();
    for frame in answer_deltas(answer).iter().flat_map(|delta| writer.write(delta)) {
        for delta in reader.read(&frame).unwrap() {
            fold.push(delta).unwrap();
        }
    }
    fold.finish().unwrap()
}

proptest! {
    #[test]
    fn answers_survive_every_format_in_both_deliveries(answer in answers()) {
        for wire in Wire::ALL {
            let whole = codec::write_answer(wire, &answer).to_string();
            prop_assert_eq!(&codec::read_answer(wire, whole.as_bytes()).unwrap(), &answer, "{:?} whole", wire);
            prop_assert_eq!(&through_stream(wire, &answer), &answer, "{:?} streamed", wire);
        }
    }

    #[test]
    fn any_document_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        for wire in Wire::ALL {
            drop(codec::read_request(wire, &bytes));
            drop(codec::read_answer(wire, &bytes));
            drop(codec::read_fault(wire, 500, &bytes));
        }
    }
}

#[test]
fn faults_keep_their_kind_in_every_format() {
    for wire in Wire::ALL {
        for kind in
            [FaultKind::RateLimit, FaultKind::Overloaded, FaultKind::InvalidRequest, FaultKind::Permission]
        {
            let fault = Fault::new(kind, "a reason");
            let body = codec::write_fault(wire, &fault).to_string();
            assert_eq!(
                codec::read_fault(wire, codec::fault_status(wire, &fault), body.as_bytes()),
                fault,
                "{wire:?}"
            );
            let frames = FrameWriter::new(wire).write(&Delta::Error(fault.clone()));
            let read = FrameReader::new(wire).read(&frames[0]).unwrap();
            assert_eq!(read.last(), Some(&Delta::Error(fault)), "{wire:?}");
        }
    }
}

#[test]
fn free_text_calls_of_the_responses_format_survive() {
    let patch = "*** Begin Patch\n+\"x\"\n";
    let blocks = vec![ContentBlock::ToolCall(ToolCall {
        id: "c".into(),
        name: "apply_patch".into(),
        input: json!(patch),
    })];
    let answer = ModelAnswer {
        id: "a".into(),
        model: "m".into(),
        stop: StopReason::ToolUse,
        blocks,
        usage: TokenUsage::default(),
    };
    assert_eq!(through_stream(Wire::Responses, &answer), answer);
    let whole = codec::write_answer(Wire::Responses, &answer);
    assert_eq!(whole["output"][0]["type"], "custom_tool_call");
}

#[test]
fn items_as_a_real_client_sends_them_are_read() {
    let body = json!({
        "model": "gpt-x", "instructions": "sys", "stream": true, "store": false, "parallel_tool_calls": true,
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "dev"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "c1"},
            {"type": "custom_tool_call", "name": "apply_patch", "input": "patch", "call_id": "c2"},
            {"type": "function_call_output", "call_id": "c1", "output": "plain"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "ok"}]},
        ],
        "tools": [
            {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
            {"type": "namespace", "name": "mcp__lab", "description": "of a stranger", "tools": [{"type": "function", "name": "ping"}]},
            {"type": "web_search"},
        ],
    });
    let request = codec::read_request(Wire::Responses, body.to_string().as_bytes()).unwrap();
    assert_eq!(request.turns(), 1);
    assert_eq!(request.messages[2].blocks.len(), 3);
    let results: Vec<&str> = request.tool_results().map(|result| result.parts[0].as_str()).collect();
    assert_eq!(results, ["plain", "ok"]);
    let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["exec_command", "mcp__lab__ping", "web_search"]);
    assert_eq!(request.documents, ["of a stranger"]);
    let call = json!({"type": "function_call", "namespace": "mcp__lab", "name": "ping", "arguments": "{}", "call_id": "c3"});
    let answer = json!({"id": "r", "model": "m", "status": "completed", "output": [call]}).to_string();
    let answer = codec::read_answer(Wire::Responses, answer.as_bytes()).unwrap();
    let expected = ToolCall { id: "c3".into(), name: "mcp__lab__ping".into(), input: json!({}) };
    assert_eq!(answer.blocks, [ContentBlock::ToolCall(expected)], "as its hook will know it");
}

#[test]
fn a_stream_is_asked_for_its_usage_without_touching_the_rest() {
    let ask =
        |body: &str| super::chat::ask_for_usage(body.as_bytes()).map(|out| String::from_utf8(out).unwrap());
    let asked = ask(r#" {"stream":true, "b":1}"#).unwrap();
    assert_eq!(asked, r#" {"stream_options":{"include_usage":true},"stream":true, "b":1}"#);
    assert_eq!(ask(&asked), None);
    assert_eq!(ask(r#"{"stream":false}"#), None);
    let forced: Value =
        serde_json::from_str(&ask(r#"{"stream":true,"stream_options":{"include_usage":false}}"#).unwrap())
            .unwrap();
    assert_eq!(forced["stream_options"]["include_usage"], true);
}

#[test]
fn a_second_choice_and_a_call_in_the_old_form_are_refused() {
    let choice = |index: u64| json!({"index": index, "message": {"content": "x"}, "delta": {"content": "x"}});
    let old = json!({"index": 0, "message": {"function_call": {"name": "f"}}, "delta": {"function_call": {"name": "f"}}});
    for choices in [json!([choice(0), choice(1)]), json!([choice(1)]), json!([old])] {
        let body = json!({"id": "a", "model": "m", "choices": choices}).to_string();
        let whole = codec::read_answer(Wire::Chat, body.as_bytes());
        assert!(whole.is_err() || choices == json!([choice(1)]), "{choices}");
        let mut reader = FrameReader::new(Wire::Chat);
        assert!(reader.read(&super::sse::SseFrame::new("", body)).is_err(), "{choices}");
    }
}

#[test]
fn a_conversation_that_is_too_long_is_told_from_other_errors() {
    let check = |status: u16, body: Value, expected: bool| {
        assert_eq!(codec::is_too_long(status, body.to_string().as_bytes()), expected, "{body}");
    };
    let anthropic = |message: &str| json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    check(400, anthropic("prompt is too long: 210000 tokens > 200000 maximum"), true);
    check(
        400,
        anthropic("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
        true,
    );
    check(400, anthropic("max_tokens: must be positive"), false);
    check(429, anthropic("prompt is too long"), false);
    check(400, json!({"error": {"code": "context_length_exceeded", "message": "Your input"}}), true);
    check(400, json!({"message": "Input is too long for requested model."}), true);
    check(400, json!("not an object"), false);
}
