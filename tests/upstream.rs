//! A model behind HTTP: the gateway adds the key, which the sandbox never holds, and what the model says reaches the agent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use crate::support::World;

/// A vendor of one's own on the loopback address: finishes at once, and keeps what it was sent.
fn vendor() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().take(8) {
            let mut reader = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let length = head
                .to_ascii_lowercase()
                .lines()
                .find_map(|l| l.strip_prefix("content-length: ").map(|n| n.trim().parse::<usize>().unwrap()))
                .unwrap();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            kept.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
            let answer = r#"{"id":"m","type":"message","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"finish","input":{"output":{"summary":"done by the vendor"}}}],"stop_reason":"tool_use","usage":{"input_tokens":7,"output_tokens":3}}"#;
            let reply = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                answer.len()
            );
            reader.get_mut().write_all(reply.as_bytes()).unwrap();
        }
    });
    (port, seen)
}

fn world(port: u16) -> World {
    let world = World::with_harness();
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\n",
    );
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: anthropic\ncredentials:\n  ANTHROPIC_API_KEY: ${ANTHROPIC_API_KEY}\n",
    );
    world
        .env("ANTHROPIC_API_KEY", "key-that-stays-on-the-host")
        .env("ANTHROPIC_BASE_URL", &format!("http://127.0.0.1:{port}"))
}

#[test]
fn the_key_is_added_at_the_gateway_and_nowhere_else() {
    let (port, seen) = vendor();
    let world = world(port);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let requests = seen.lock().unwrap();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].contains("x-api-key: key-that-stays-on-the-host"), "{}", requests[0]);
    assert!(requests[0].starts_with("POST /v1/messages"));
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert_eq!(head.matches("key-that-stays").count() + body.matches("key-that-stays").count(), 1);
    assert!(!ran.err.contains("key-that-stays") && !ran.out.contains("key-that-stays"));
}

#[test]
fn a_missing_key_is_a_prerequisite_and_exits_4() {
    let world = world(1).without("ANTHROPIC_API_KEY");
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("ANTHROPIC_API_KEY"), "{}", ran.err);
}

#[test]
fn a_vendor_that_is_not_there_is_the_last_line() {
    let world = world(1);
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 11, "{}", ran.err);
    let last = ran.err.trim_end().lines().last().unwrap();
    assert!(
        last.contains("model_unavailable: the model is not available") && last.contains("refused"),
        "{last}"
    );
}

#[test]
fn the_provider_says_where_the_model_is_above_the_environment() {
    let (port, seen) = vendor();
    let world = world(1);
    let provider = |more: &str| {
        format!(
            "name: model\ntype: anthropic\ncredentials:\n  ANTHROPIC_API_KEY: ${{ANTHROPIC_API_KEY}}\n{more}"
        )
    };
    let own = format!("config:\n  base_url: http://127.0.0.1:{port}/below\n");
    world.write("repo/.fullsend/providers/model.yaml", provider(&own));
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(seen.lock().unwrap()[0].starts_with("POST /below/v1/messages"));

    world.write(
        "repo/.fullsend/providers/model.yaml",
        provider("config:\n  base_url: http://models.example.com\n"),
    );
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("plain http, which is accepted only for the loopback address"), "{}", ran.err);
}

#[test]
fn a_profile_of_ones_own_says_whose_protocol_it_speaks() {
    let (port, seen) = vendor();
    let world = world(port);
    world.write(
        "repo/.fullsend/providers/model.yaml",
        "name: model\ntype: gateway\ncredentials:\n  GATEWAY_KEY: ${ANTHROPIC_API_KEY}\n",
    );
    let profile =
        |vendor: &str| format!("id: gateway\ninference_capable: true\nannotations: {{vendor: {vendor}}}\n");
    world.write("repo/.fullsend/profiles/gateway.yaml", profile("anthropic"));
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(seen.lock().unwrap()[0].contains("x-api-key: key-that-stays-on-the-host"));
    world.write("repo/.fullsend/profiles/gateway.yaml", profile("nobody"));
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("known vendors are anthropic, openai"), "{}", ran.err);
}

#[test]
fn without_a_model_nothing_starts() {
    let world = world(1);
    world.write(
        "repo/.fullsend/harness/triage.yaml",
        "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\n",
    );
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("no provider of the harness can serve the model"), "{}", ran.err);
}

#[test]
fn dollars_need_a_model_with_a_price() {
    let world = world(1);
    let harness = |model: &str| {
        format!(
            "agent: agents/triage.md\nruntime: native\noutput_schema: schemas/triage.json\nproviders: [model]\nmodel: {model}\nbudget: {{usd: 1}}\n"
        )
    };
    world.write("repo/.fullsend/harness/triage.yaml", harness("unheard-of-9"));
    let ran = world.run(&["run", "triage"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("the model `unheard-of-9` has no price"), "{}", ran.err);
    assert!(ran.err.contains("- {model: \"unheard-of-9\", input: 1.00, output: 4.00}"), "{}", ran.err);
    let prices = "prices:\n  - {model: unheard-of-9, input: 0, output: 0}\n";
    world.write("repo/.fullsend/config.yaml", prices);
    assert_eq!(world.run(&["run", "triage"]).code, 11, "it has a price now");
    world.write("org/config.yaml", "budget: {usd: 5}\n");
    world.write("repo/.fullsend/config.yaml", format!("org: ../org\n{prices}"));
    let ran = world.run(&["check", "triage"]);
    assert!(ran.err.contains("only its config.yaml may have `prices`"), "{}", ran.err);
    world.write("repo/.fullsend/config.yaml", "");
    world.write("repo/.fullsend/harness/triage.yaml", harness("claude-sonnet-4-5"));
    assert_eq!(world.run(&["run", "triage"]).code, 11, "it starts, and finds no vendor");
}
