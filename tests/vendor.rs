//! A vendor of models on the loopback address, for tests that must see the raw bytes that a run sends: says what the test
//! tells it to, and keeps every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ::model::scripted::{Emission, Scenario, ScriptedAnswer, ScriptedModel};
use ::model::wire::{Wire, codec};
use serde_json::{Value as Json, json};

use crate::support::World;

/// What the vendor was sent, whole requests with their heads.
pub type Seen = Arc<Mutex<Vec<String>>>;

/// The key that stays on the host.
pub const KEY: &str = "key-that-stays-on-the-host";

/// Answers each request with the blocks that `answer` gives for it.
pub fn vendor(answer: impl Fn(usize, &Json) -> Json + Send + 'static) -> (u16, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for (turn, stream) in listener.incoming().take(64).enumerate() {
            let mut reader = BufReader::new(stream.unwrap());
            let Some((head, body)) = read(&mut reader) else { continue };
            kept.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
            let blocks = answer(turn, &serde_json::from_slice(&body).unwrap_or_default());
            reply(reader.get_mut(), &blocks);
        }
    });
    (port, seen)
}

/// The scripted model behind an address, in the format of the Messages API, as a vendor would be.
pub fn scripted(scenario: &Json) -> (u16, Seen) {
    let scenario = Scenario::parse("served", scenario.to_string().as_bytes()).unwrap();
    let model = ScriptedModel::new(scenario);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().take(64) {
            let mut reader = BufReader::new(stream.unwrap());
            let Some((head, body)) = read(&mut reader) else { continue };
            kept.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
            let request = codec::read_request(Wire::Messages, &body).unwrap();
            let ScriptedAnswer { status, content_type, emissions } =
                model.answer(Wire::Messages, &request, &body);
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n");
            let mut bytes = head.into_bytes();
            for emission in emissions {
                match emission {
                    Emission::Bytes(portion) => bytes.extend_from_slice(&portion),
                    Emission::Sleep(time) => std::thread::sleep(time),
                    Emission::Cut => break,
                }
            }
            drop(reader.get_mut().write_all(&bytes));
        }
    });
    (port, seen)
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).ok()? > 0 {}
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn reply(stream: &mut TcpStream, blocks: &Json) {
    let answer = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": blocks,
        "stop_reason": "tool_use", "usage": { "input_tokens": 7, "output_tokens": 3 },
    })
    .to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    // A run that was stopped reads no answer.
    drop(stream.write_all(format!("{head}{}\r\n\r\n{answer}", answer.len()).as_bytes()));
}

/// One call of the native runtime's shell, each with an id of its own.
pub fn shell(turn: usize, command: &str) -> Json {
    json!([{ "type": "tool_use", "id": format!("t{turn}"), "name": "Bash", "input": { "command": command } }])
}

pub fn finish(output: &Json) -> Json {
    json!([{ "type": "tool_use", "id": "last", "name": "finish", "input": { "output": output } }])
}

/// A model that runs these commands, one a turn, and finishes.
pub fn runs(commands: &[&str]) -> (u16, Seen) {
    let commands: Vec<String> = commands.iter().map(|command| (*command).to_owned()).collect();
    vendor(move |turn, _| match commands.get(turn) {
        Some(command) => shell(turn, command),
        None => finish(&json!({ "summary": "done" })),
    })
}

/// A world whose harness `triage` runs natively against the vendor at this port, with `more` in the harness.
pub fn world(port: u16, more: &str) -> World {
    let world = World::with_harness();
    let harness =
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\n";
    world.write("repo/.fullsend/harness/triage.yaml", format!("{harness}{more}"));
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\ncredentials:\n  ANTHROPIC_API_KEY: ${ANTHROPIC_API_KEY}\n",
    );
    world.env("ANTHROPIC_API_KEY", KEY).env("ANTHROPIC_BASE_URL", &format!("http://127.0.0.1:{port}"))
}
