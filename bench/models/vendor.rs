//! Every service's own addresses, with the same short answer each time.

use crate::asking::{read, read_head};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;

/// How many portions a streamed answer has.
const PORTIONS: usize = 100;

pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut connection = BufReader::new(stream);
    loop {
        let head = read_head(&mut connection);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let Some(length) = length else { return };
        let body: Value = serde_json::from_slice(&read(&mut connection, length)).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let is_framed = path.ends_with("invoke-with-response-stream");
        let format = if path.contains("/chat/completions") {
            "/chat/completions"
        } else if path.contains("/responses") {
            "/responses"
        } else {
            "/messages"
        };
        let delivery = match body["stream"] == true || is_framed {
            true if is_framed => Delivery::Framed,
            true => Delivery::Streamed,
            false => Delivery::Whole,
        };
        if connection.get_mut().write_all(&ANSWERS[&(format, delivery)]).is_err() {
            return;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Delivery {
    Whole,
    Streamed,
    /// In AWS's framing.
    Framed,
}

/// Made once: what the vendor costs is in both figures, and must be the same in both.
static ANSWERS: LazyLock<HashMap<(&str, Delivery), Vec<u8>>> = LazyLock::new(|| {
    let mut answers = HashMap::new();
    for format in ["/chat/completions", "/responses", "/messages"] {
        for (delivery, kind, answer) in [
            (Delivery::Whole, "application/json", whole(format).to_string().into_bytes()),
            (Delivery::Streamed, "text/event-stream", written(format, &frames(format)).into_bytes()),
            (Delivery::Framed, "application/vnd.amazon.eventstream", framed(&frames(format))),
        ] {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            answers.insert((format, delivery), [head.as_bytes(), &answer].concat());
        }
    }
    answers
});

fn whole(path: &str) -> Value {
    if path.contains("/chat/completions") {
        let message = json!({"role": "assistant", "content": "word"});
        return json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "bench",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        });
    }
    if path.contains("/responses") {
        let content = json!([{"type": "output_text", "text": "word", "annotations": []}]);
        let item = json!({"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content});
        return json!({
            "id": "r", "object": "response", "status": "completed", "model": "bench", "output": [item],
            "usage": {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10},
        });
    }
    json!({
        "id": "m", "type": "message", "role": "assistant", "model": "bench", "content": [{"type": "text", "text": "word"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1},
    })
}

fn frames(path: &str) -> Vec<Value> {
    let is_chat = path.contains("/chat/completions");
    let is_responses = path.contains("/responses");
    let mut all = Vec::new();
    let usage = json!({"input_tokens": 9, "output_tokens": 100, "total_tokens": 109});
    if is_responses {
        all.push(json!({"type": "response.created", "response": {"id": "r", "model": "bench"}}));
    } else if !is_chat {
        all.push(json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "bench", "content": [], "usage": usage}}));
        all.push(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        );
    }
    for _ in 0..PORTIONS {
        all.push(if is_chat {
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": null}]})
        } else if is_responses {
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "word "})
        } else {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}})
        });
    }
    if is_chat {
        let chunk = |choices: Value, usage: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": choices, "usage": usage});
        all.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), Value::Null));
        all.push(chunk(
            json!([]),
            json!({"prompt_tokens": 9, "completion_tokens": 100, "total_tokens": 109}),
        ));
    } else if is_responses {
        let whole = json!({"id": "r", "status": "completed", "model": "bench", "output": [], "usage": usage});
        all.push(json!({"type": "response.completed", "response": whole}));
    } else {
        all.push(json!({"type": "content_block_stop", "index": 0}));
        all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}));
        all.push(json!({"type": "message_stop"}));
    }
    all
}

fn written(path: &str, frames: &[Value]) -> String {
    let frame = |frame: &Value| match frame["type"].as_str() {
        Some(event) => format!("event: {event}\ndata: {frame}\n\n"),
        None => format!("data: {frame}\n\n"),
    };
    let mut text: String = frames.iter().map(frame).collect();
    if path.contains("/chat/completions") {
        text.push_str("data: [DONE]\n\n");
    }
    text
}

/// In AWS's framing.
fn framed(frames: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        let payload = json!({"bytes": BASE64.encode(frame.to_string().as_bytes())}).to_string();
        let mut headers = Vec::new();
        for (name, value) in [(":event-type", "chunk"), (":message-type", "event")] {
            headers.push(u8::try_from(name.len()).unwrap());
            headers.extend_from_slice(name.as_bytes());
            headers.push(7);
            headers.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
            headers.extend_from_slice(value.as_bytes());
        }
        let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
        let mut message = total.to_be_bytes().to_vec();
        message.extend_from_slice(&u32::try_from(headers.len()).unwrap().to_be_bytes());
        let prelude = crc32(&message);
        message.extend_from_slice(&prelude.to_be_bytes());
        message.extend_from_slice(&headers);
        message.extend_from_slice(payload.as_bytes());
        let checksum = crc32(&message);
        message.extend_from_slice(&checksum.to_be_bytes());
        out.extend_from_slice(&message);
    }
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
