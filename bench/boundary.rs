//! What three parts of the boundary cost: masking the run's credentials in responses, checking a request to the model
//! field by field, and signing a record. The peer of each is the minimum work that is needed anyway.
//!
//!     cargo bench -p fullsend --bench boundary
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot go on"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use base64::Engine;
use fullsend::RecordSigner;
use fullsend::event::log::sha256;
use model::wire::Wire;
use redact::{Redactor, StreamMasker};
use serde_json::{Value, json};

const ROUNDS: usize = 15;
const PORTION: usize = 16 << 10;

fn main() {
    if std::env::args().any(|argument| argument == "--once") {
        // For `bench/counts.py`, which counts the instructions of one check.
        assert!(model::internal::passes_allowlist(Wire::Messages, long_request().as_bytes()));
        return;
    }
    println!("name ours_ms peer_ms ratio");
    mask_responses();
    check_requests();
    sign_records();
}

/// 16 MiB of a response in the portions of a relay, against copying them.
fn mask_responses() {
    let line =
        "{\"id\": 4711, \"login\": \"somebody\", \"url\": \"https://api.example.com/users/somebody\"},\n";
    let body = line.repeat((16 << 20) / line.len()).into_bytes();
    let values = [("TOKEN", "ghp_Zk3vXq81LmPw72TyBn"), ("OTHER", "correct horse/battery+9?")];
    let redactor = Redactor::with_known(values).unwrap().known_only();
    compare(
        "mask-16-MiB-vs-copy",
        || {
            let mut masker = StreamMasker::default();
            body.chunks(PORTION).map(|portion| masker.push(&redactor, portion).len()).sum::<usize>()
        },
        || body.chunks(PORTION).map(|portion| black_box(portion.to_vec()).len()).sum(),
    );
}

/// A request with a long conversation, against parsing it as JSON.
fn check_requests() {
    let body = long_request();
    compare(
        &format!("check-{}-KiB-request-vs-parse", body.len() >> 10),
        || usize::from(model::internal::passes_allowlist(Wire::Messages, body.as_bytes())),
        || usize::from(serde_json::from_str::<Value>(&body).is_ok()),
    );
}

fn long_request() -> String {
    let turn = |number: usize| {
        let call = json!({"type": "tool_use", "id": format!("t{number}"), "name": "Bash", "input": {"command": "ls -la"}});
        let result = json!({"type": "tool_result", "tool_use_id": format!("t{number}"), "content": "a line of output\n".repeat(100)});
        [json!({"role": "assistant", "content": [call]}), json!({"role": "user", "content": [result]})]
    };
    let messages: Vec<Value> = (0..400).flat_map(turn).collect();
    let tool = json!({"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}});
    json!({"model": "m", "max_tokens": 1000, "stream": true, "tools": [tool], "messages": messages})
        .to_string()
}

/// A statement about 1,000 files, against its digest.
fn sign_records() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("key.pem");
    // The DER of a PKCS#8 key up to its 32 bytes.
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend([7; 32]);
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    std::fs::write(&path, format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"))
        .unwrap();
    let signer = RecordSigner::load(path.to_str().unwrap(), BTreeMap::new()).unwrap();
    let subject = |number: usize| json!({"name": format!("iteration-1/output/{number}"), "digest": {"sha256": "0".repeat(64)}});
    let subjects: Vec<Value> = (0..1000).map(subject).collect();
    let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": subjects}).to_string();
    compare(
        "sign-1000-files-vs-digest",
        || signer.sign(statement.as_bytes()).unwrap().len(),
        || sha256(statement.as_bytes()).len(),
    );
}

/// In turns, so that other load on the machine affects both. The median counts.
fn compare(name: &str, ours: impl Fn() -> usize, peer: impl Fn() -> usize) {
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(time(&ours));
        times[1].push(time(&peer));
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    let [ours, peer] = times.map(|times| times[ROUNDS / 2].as_secs_f64() * 1e3);
    println!("{name} {ours:.3} {peer:.3} {:.2}", ours / peer);
}

fn time(run: &impl Fn() -> usize) -> Duration {
    let started = Instant::now();
    assert!(black_box(run()) > 0);
    started.elapsed()
}
