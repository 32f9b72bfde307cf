//! The scripted model end to end, without a socket.

use super::*;
use crate::wire::sse::{SseDecoder, SseFrame};
use crate::wire::{ContentBlock, Message, ModelAnswer, Tool};
use serde_json::{Value, json};

fn model(scenario: &Value) -> ScriptedModel {
    ScriptedModel::new(Scenario::parse("s.json", scenario.to_string().as_bytes()).unwrap())
}

fn request(tools: &[(&str, Value)]) -> ModelRequest {
    let tools = tools
        .iter()
        .map(|(name, schema)| Tool {
            name: (*name).to_owned(),
            description: String::new(),
            schema: schema.clone(),
        })
        .collect();
    ModelRequest {
        model: "m".into(),
        messages: vec![Message::user("go")],
        tools,
        stream: true,
        ..ModelRequest::default()
    }
}

fn ask(model: &ScriptedModel, request: &ModelRequest) -> Result<ModelAnswer, (u16, String)> {
    let ScriptedAnswer { status, emissions, .. } = model.answer(Wire::Messages, request, b"{}");
    let bytes: Vec<u8> = emissions
        .iter()
        .filter_map(|emission| match emission {
            Emission::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        })
        .flatten()
        .collect();
    if status != 200 {
        return Err((status, codec::read_fault(Wire::Messages, status, &bytes).message));
    }
    if !request.stream {
        return Ok(codec::read_answer(Wire::Messages, &bytes).unwrap());
    }
    let mut decoder = SseDecoder::default();
    let mut fold = AnswerAssembler::default();
    decoder.push(&bytes).unwrap();
    let mut reader = codec::FrameReader::new(Wire::Messages);
    let frames: Vec<SseFrame> = std::iter::from_fn(|| decoder.next_frame()).collect();
    for delta in frames.iter().flat_map(|frame| reader.read(frame).unwrap()) {
        fold.push(delta).map_err(|error| (200, error.to_string()))?;
    }
    fold.finish().map_err(|error| (200, error.to_string()))
}

fn call_of(answer: &ModelAnswer) -> (&str, &Value) {
    answer
        .blocks
        .iter()
        .find_map(|block| match block {
            ContentBlock::ToolCall(call) => Some((call.name.as_str(), &call.input)),
            _ => None,
        })
        .unwrap()
}

#[test]
fn the_shell_fits_the_tool_that_is_offered() {
    let model = model(&json!({"turns": [[{"text": "now"}, {"shell": "ls"}]]}));
    let string = json!({"properties": {"command": {"type": "string"}}, "required": ["command"]});
    let described = json!({"properties": {"command": {}}, "required": ["command", "description"]});
    let array = json!({"properties": {"command": {"type": "array"}}});
    let cmd = json!({"properties": {"cmd": {"type": "string"}}});
    for (name, schema, input) in [
        ("Bash", string, json!({"command": "ls"})),
        ("bash", described, json!({"command": "ls", "description": "scripted command"})),
        ("shell", array, json!({"command": ["bash", "-lc", "ls"]})),
        ("exec_command", cmd, json!({"cmd": "ls"})),
    ] {
        let answer = ask(&model, &request(&[("Read", json!({})), (name, schema)])).unwrap();
        assert_eq!(call_of(&answer), (name, &input));
        assert_eq!(answer.stop, StopReason::ToolUse);
    }
    let (status, message) = ask(&model, &request(&[("Read", json!({}))])).unwrap_err();
    assert_eq!(status, 400);
    assert!(message.contains("needs a shell tool, the request offers: [Read]"), "{message}");
}

#[test]
fn finish_uses_the_finish_tool_or_says_it() {
    let model = model(&json!({"turns": [[{"finish": {"label": "bug"}}]]}));
    let own = json!({"properties": {"label": {}}});
    let wrapping = json!({"properties": {"output": {}}});
    let answer = ask(&model, &request(&[("StructuredOutput", own)])).unwrap();
    assert_eq!(call_of(&answer), ("StructuredOutput", &json!({"label": "bug"})));
    let answer = ask(&model, &request(&[("Finish", wrapping)])).unwrap();
    assert_eq!(call_of(&answer), ("Finish", &json!({"output": {"label": "bug"}})));
    let answer = ask(&model, &request(&[("Read", json!({}))])).unwrap();
    assert_eq!(answer.blocks, [ContentBlock::Text(r#"{"label":"bug"}"#.to_owned())]);
}

#[test]
fn an_error_is_given_as_often_as_asked_and_then_the_turn_goes_on() {
    let model = model(&json!({"turns": [[{"error": 529, "times": 2}, {"text": "fine"}]]}));
    let request = request(&[]);
    assert_eq!(ask(&model, &request).unwrap_err().0, 529);
    assert_eq!(ask(&model, &request).unwrap_err().0, 529);
    assert_eq!(ask(&model, &request).unwrap().blocks, [ContentBlock::Text("fine".to_owned())]);
}

#[test]
fn an_error_after_content_comes_within_the_stream() {
    let model = model(&json!({"turns": [[{"text": "half"}, {"error": 529, "message": "tired"}]]}));
    let error = ask(&model, &request(&[])).unwrap_err();
    assert_eq!(error, (200, "overloaded_error: tired".to_owned()));
}

#[test]
fn a_cut_leaves_the_answer_without_its_end() {
    let model =
        model(&json!({"turns": [[{"sleep_ms": 5}, {"text": "half"}, {"cut": true}, {"text": "never"}]]}));
    let answer = model.answer(Wire::Messages, &request(&[]), b"");
    assert_eq!(answer.emissions.first(), Some(&Emission::Sleep(Duration::from_millis(5))));
    assert_eq!(answer.emissions.last(), Some(&Emission::Cut));
    assert!(ask(&model, &request(&[])).unwrap_err().1.contains("cut off"));
}

#[test]
fn usage_is_the_scenarios_and_an_unstreamed_answer_says_the_same() {
    let model =
        model(&json!({"turns": [[{"usage": {"input": 7, "output": 8, "cache_read": 9}}, {"text": "a"}]]}));
    let mut request = request(&[]);
    let streamed = ask(&model, &request).unwrap();
    assert_eq!(streamed.usage, TokenUsage { input: 7, output: 8, cache_read: 9, ..TokenUsage::default() });
    request.stream = false;
    assert_eq!(ask(&model, &request).unwrap(), streamed);
}

#[test]
fn a_request_beyond_the_scenario_fails_loudly_and_is_logged() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let model = model(&json!({"turns": [[{"text": "a"}]], "branches": []}))
        .with_log(move |received| seen.lock().unwrap().push(received.place.map(|place| place.to_string())));
    let mut request = request(&[]);
    ask(&model, &request).unwrap();
    request.messages.push(Message { role: crate::wire::MessageRole::Assistant, blocks: vec![] });
    let (status, message) = ask(&model, &request).unwrap_err();
    assert_eq!(status, 400);
    assert!(message.contains("s.json has no turns[1]"), "{message}");
    assert_eq!(*log.lock().unwrap(), [Some("turns[0]".to_owned()), None]);
}

#[test]
fn a_request_without_tools_gets_the_side_text_when_there_is_one() {
    let model = model(&json!({"turns": [[{"text": "main"}]], "side": "A title"}));
    assert_eq!(ask(&model, &request(&[])).unwrap().blocks, [ContentBlock::Text("A title".to_owned())]);
    let main = ask(&model, &request(&[("Bash", json!({}))])).unwrap();
    assert_eq!(main.blocks, [ContentBlock::Text("main".to_owned())]);
}
