//! Streams of each vendor in the forms that real servers send: other line endings, letters that are cut in two, pings, usage at other
//! places, errors in the middle, no last line.

use super::*;
use crate::upstream::{HttpUpstream, NamedCredential, SERVICES, ServiceSettings};
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::dial::testing::TestAuthority;
use egress::resolver::FixedResolver;

/// A server that answers every request with these bytes, in portions of this size.
fn server(answer: &str, portion: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = answer.as_bytes().to_vec();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut seen = Vec::new();
            let mut buffer = [0; 4096];
            while !seen.ends_with(b"}") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => seen.extend_from_slice(&buffer[..length]),
                }
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n";
            drop(stream.write_all(head.as_bytes()));
            for portion in answer.chunks(portion) {
                drop(stream.write_all(portion));
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    port
}

fn before(answer: &str, portion: usize, service: &str, wire: &str) -> TestGateway {
    let port = server(answer, portion);
    let base_url = format!("http://127.0.0.1:{port}");
    let config = [("base_url", base_url.as_str()), ("wire", wire)];
    let credential = NamedCredential {
        name: "KEY".to_owned(),
        source: CredentialSource::fixed(Secret::new("value-of-the-credential".to_owned())),
    };
    let settings = ServiceSettings {
        config: config.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        credentials: vec![credential],
        learn: None,
    };
    let dialer = Dialer::new(
        Arc::new(FixedResolver::new([("nothing.test", Vec::new())])),
        TestAuthority::new().roots(),
    );
    let service = SERVICES.iter().find(|row| row.name == service).unwrap();
    let upstream = HttpUpstream::new(service, &settings, Arc::new(dialer)).unwrap();
    let mut setup = TestSetup::default();
    setup.limits.answer_idle = Duration::from_secs(20);
    start_gateway(Upstream::http(upstream), Arc::default(), setup)
}

fn answer(gateway: &TestGateway, wire: Wire) -> Result<ModelAnswer, ClientError> {
    ModelClient::new(gateway.address, wire).ask(&request("go", true), &mut |_| {})
}

const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}

event: ping
data: {"type": "ping"}

: a comment

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße 🦀"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":7,"cache_read_input_tokens":4,"output_tokens":5,"server_tool_use":null}}

event: future_event
data: {"type":"future_event","x":1}

event: message_stop
data: {"type":"message_stop"}

"#;

#[test]
fn messages_pass_in_every_form_and_are_counted_by_the_last_usage() {
    for text in [MESSAGES.to_owned(), MESSAGES.replace('\n', "\r\n"), MESSAGES.replace("data: ", "data:")] {
        for portion in [1, 7, 4096] {
            let gateway = before(&text, portion, "anthropic", "");
            let answer = answer(&gateway, Wire::Messages).unwrap();
            assert_eq!(answer.blocks, [ContentBlock::Text("Grüße 🦀".into())]);
            assert_eq!(gateway.endings(1), [AnswerEnding::Complete]);
            let used = gateway.gateway.usage()["claude-sonnet-4-5"].usage;
            assert_eq!((used.input, used.cache_read, used.output), (7, 4, 5));
        }
    }
}

#[test]
fn an_error_in_the_middle_reaches_the_client_in_the_vendors_words() {
    let (half, _) = MESSAGES.split_once("event: content_block_stop").unwrap();
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let gateway = before(&format!("{half}{error}"), 4096, "anthropic", "");
    let failed = answer(&gateway, Wire::Messages).unwrap_err();
    assert!(failed.to_string().contains("Overloaded"), "{failed}");
    assert_eq!(gateway.endings(1), [AnswerEnding::Fault]);
    let gateway = before(half, 4096, "anthropic", "");
    assert!(answer(&gateway, Wire::Messages).unwrap_err().is_transient());
    assert_eq!(gateway.endings(1), [AnswerEnding::Cut]);
}

const CHAT: &str = r#"data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,"delta":{"content":"Grüße"},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}

"#;

#[test]
fn a_chat_stream_may_end_without_its_last_line() {
    for end in ["", "data: [DONE]", "data: [DONE]\n\n", "data: [DONE]\r\n\r\n"] {
        for (wire, named) in
            [(Wire::Chat, ""), (Wire::Chat, "chat"), (Wire::Messages, "chat"), (Wire::Responses, "chat")]
        {
            let gateway = before(&format!("{CHAT}{end}"), 5, "openai", named);
            let answer =
                answer(&gateway, wire).unwrap_or_else(|error| panic!("{end:?} {wire:?} {named}: {error}"));
            assert_eq!(answer.blocks[0], ContentBlock::Text("Grüße".into()), "{end:?} {wire:?}");
            assert_eq!(gateway.endings(1), [AnswerEnding::Complete], "{end:?} {wire:?}");
            let used = gateway.gateway.usage()["gpt-5"].usage;
            assert_eq!((used.input, used.output), (9, 2), "{end:?} {wire:?}");
        }
    }
    // Without a reason for the end it was cut.
    let (half, _) = CHAT.split_once("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5\",\"choices\":[{\"index\":0,\"delta\":{}").unwrap();
    for wire in [Wire::Chat, Wire::Messages, Wire::Responses] {
        let gateway = before(half, 4096, "openai", "chat");
        assert!(answer(&gateway, wire).unwrap_err().is_transient(), "{wire:?}");
        assert_eq!(gateway.endings(1), [AnswerEnding::Cut], "{wire:?}");
    }
}
