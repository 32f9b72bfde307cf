//! What was recorded is replayed without a model, in any order; what was not fails loudly; and no secret is kept.

use super::*;
use crate::scripted::{Scenario, ScriptedModel};
use crate::upstream::request::{Operation, UpstreamRequest};
use crate::upstream::{self, Upstream};
use crate::wire::assemble::AnswerAssembler;
use crate::wire::codec::{self, FrameReader};
use crate::wire::sse::SseDecoder;
use crate::wire::{ContentBlock, Message, MessageRole, ModelRequest, ToolCall, ToolResult, Wire};
use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::json;

const SECRET: &str = "hunter2-rainbow";

fn redact() -> Redact {
    Arc::new(|text| text.replace(SECRET, "[gone]"))
}

fn scripted() -> Upstream {
    let text = r#"{"turns": [[{"text":"one"}],[{"text":"two with hunter2-rainbow"}]]}"#;
    Upstream::scripted(ScriptedModel::new(Scenario::parse("s.json", text.as_bytes()).unwrap()))
}

fn says(role: MessageRole, text: &str) -> Message {
    Message { role, blocks: vec![ContentBlock::Text(text.to_owned())] }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let body = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": []});
    let mut request = codec::read_request(Wire::Messages, body.to_string().as_bytes()).unwrap();
    request.messages = messages;
    request
}

async fn ask(
    upstream: &Upstream,
    wire: Wire,
    request: &ModelRequest,
) -> Result<String, upstream::UpstreamError> {
    let body = Bytes::from(codec::write_request(wire, request).to_string());
    let headers = HeaderMap::new();
    let mut reply = upstream
        .send(UpstreamRequest {
            wire,
            operation: Operation::Answer,
            request,
            body: &body,
            headers: &headers,
            query: None,
        })
        .await?;
    let mut decoder = SseDecoder::default();
    let mut reader = FrameReader::new(wire);
    let mut fold = AnswerAssembler::default();
    while let Some(portion) = reply.body.next().await {
        decoder.push(&portion?).unwrap();
    }
    while let Some(frame) = decoder.next_frame() {
        reader.read(&frame).unwrap().into_iter().for_each(|delta| fold.push(delta).unwrap());
    }
    Ok(fold.finish().unwrap().blocks.iter().filter_map(ContentBlock::as_text).collect())
}

#[tokio::test]
async fn what_was_recorded_is_replayed_in_every_format() {
    for wire in Wire::ALL {
        let place = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&place.path().join("r"), redact()).unwrap();
        let recording = Upstream::recorded(scripted(), recorder);
        let first = request(vec![says(MessageRole::User, "fix it, at 10:42")]);
        let second = request(vec![
            says(MessageRole::User, "fix it, at 10:42"),
            says(MessageRole::Assistant, "one"),
            says(MessageRole::User, "go on"),
        ]);
        let one = ask(&recording, wire, &first).await.unwrap();
        let two = ask(&recording, wire, &second).await.unwrap();
        assert_eq!((one.as_str(), two.as_str()), ("one", "two with hunter2-rainbow"));

        let replay = Upstream::replayed(Replay::load(&place.path().join("r"), redact()).unwrap());
        // Another time of day, and the second before the first.
        let later = request(vec![
            says(MessageRole::User, "fix it, at 11:05"),
            says(MessageRole::Assistant, "one"),
            says(MessageRole::User, "go on"),
        ]);
        assert_eq!(ask(&replay, wire, &later).await.unwrap(), "two with [gone]", "{wire:?}");
        assert_eq!(ask(&replay, wire, &first).await.unwrap(), one);
        assert_eq!(ask(&replay, wire, &first).await.unwrap(), one, "a retry gets the same");

        let other = request(vec![says(MessageRole::User, "break it")]);
        let miss = ask(&replay, wire, &other).await.unwrap_err().to_string();
        assert!(miss.contains("has no answer to turn 1") && miss.contains("2 exchanges"), "{miss}");
        for file in std::fs::read_dir(place.path().join("r")).unwrap() {
            assert!(!std::fs::read_to_string(file.unwrap().path()).unwrap().contains(SECRET));
        }
    }
}

#[test]
fn results_do_not_choose_the_answer_and_calls_do() {
    let after = |command: &str, text: &str| {
        let call = ToolCall { id: "c".into(), name: "Bash".into(), input: json!({"command": command}) };
        let result = ToolResult { id: "c".into(), parts: vec![text.to_owned()], is_error: false };
        request(vec![
            says(MessageRole::User, "go"),
            Message { role: MessageRole::Assistant, blocks: vec![ContentBlock::ToolCall(call)] },
            Message { role: MessageRole::User, blocks: vec![ContentBlock::ToolResult(result)] },
        ])
    };
    let digest = |request: &ModelRequest| history::digest(Wire::Messages, request, &redact());
    assert_eq!(digest(&after("ls", "took 3 s")), digest(&after("ls", "took 4 s")));
    assert_ne!(digest(&after("ls", "")), digest(&after("rm", "")));
}

#[test]
fn directories_that_cannot_be_right_are_refused() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("00001.json"), "{}").unwrap();
    assert!(matches!(Recorder::create(place.path(), redact()).err(), Some(RecordingError::NotEmpty { .. })));
    assert!(matches!(Replay::load(place.path(), redact()).err(), Some(RecordingError::Parse { .. })));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Replay::load(empty.path(), redact()).err(), Some(RecordingError::Empty { .. })));
    let missing = Replay::load(&empty.path().join("none"), redact()).err();
    assert!(matches!(missing, Some(RecordingError::Directory { .. })));
}
