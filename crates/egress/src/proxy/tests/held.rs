//! Bodies that the proxy holds share one memory, whatever it holds them for: where it is taken, a request is refused with a
//! reason, and it passes once the memory is back.

use super::http2::{ask as ask_stream, asked, connected, http2_server};
use super::lab::{Kind, Lab, LabConfig, bind_credential, rule, server, start_lab, talk};
use super::websockets::{close_reason, read_frame, send_frame, with_credential};
use crate::event::RefusalCode;
use crate::proxy::held_bodies::HeldBody;
use crate::websocket::Opcode;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use tokio::io::AsyncWriteExt;

const TOOLS: &str = "        protocol: mcp\n        path: /mcp\n        mcp: {max_body_bytes: 4194304}\n        rules:\n          - allow: {tool: search}\n";
const GRAPHQL: &str = "        protocol: graphql\n        path: /mcp\n        graphql_max_body_bytes: 4194304\n        rules:\n          - allow: {operation_type: query}\n";
const FILLED: &str = "        protocol: rest\n        enforcement: enforce\n        access: full\n        credential_binding: {provider: p}\n        request_body_credential_rewrite: true";

/// Takes all of the memory except this many bytes.
fn taken(lab: &Lab, left: u64) -> HeldBody {
    let free = lab.served.held_bodies.free_bytes();
    lab.served.held_bodies.reserve(free - left).unwrap()
}

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"search","arguments":{arguments}}}}}"#
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    [body.chunks(7_000).flat_map(chunk).collect::<Vec<u8>>(), b"0\r\n\r\n".to_vec()].concat()
}

async fn post(lab: &Lab, port: u16, fields: &str, body: &[u8]) -> String {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: api.test:{port}\r\nConnection: close\r\nContent-Type: application/json\r\n{fields}\r\n"
    );
    let mut stream = lab.inspected(port).await;
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    talk(stream, "").await
}

#[tokio::test]
async fn bodies_that_rules_read_share_one_memory() {
    let text = call(&format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20)));
    let values = call(&format!("[{}1]", "1,".repeat(20_000)));
    let names = format!(r#"{{"query":"{{ {} }}"}}"#, "a ".repeat(20_000));
    let length = |body: &[u8]| format!("Content-Length: {}\r\n", body.len());
    let packed = gzip(text.as_bytes());
    for (keys, fields, body) in [
        (TOOLS, length(text.as_bytes()), text.as_bytes().to_vec()),
        (TOOLS, "Transfer-Encoding: chunked\r\n".to_owned(), chunked(text.as_bytes())),
        (TOOLS, format!("Content-Encoding: gzip\r\n{}", length(&packed)), packed.clone()),
        (TOOLS, length(values.as_bytes()), values.as_bytes().to_vec()),
        (GRAPHQL, length(names.as_bytes()), names.as_bytes().to_vec()),
    ] {
        let mut config = LabConfig::new("");
        config.limits.idle = std::time::Duration::from_secs(30);
        let server = server(Kind::Tls(config.vendor.clone())).await;
        config.policy = rule(server.port, keys);
        let lab = start_lab(config).await;
        let all = lab.served.held_bodies.free_bytes();
        let others = taken(&lab, 512 << 10);
        let answer = post(&lab, server.port, &fields, &body).await;
        assert!(answer.contains("try again") && answer.contains("proxy_busy"), "{fields}{answer}");
        assert!(server.heads.lock().unwrap().is_empty(), "{fields}");
        assert_eq!(lab.connections()[0].code, Some(RefusalCode::ProxyBusy));
        drop(others);
        let answer = post(&lab, server.port, &fields, &body).await;
        assert!(!answer.contains("X-Fullsend-Refusal"), "{fields}{}", &answer[..answer.len().min(400)]);
        assert_eq!(lab.served.held_bodies.free_bytes(), all, "{fields}");
    }
}

fn resident_mebibytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4 / 1024
}

/// 448 MiB arrive at the same time, and clients, servers and the proxy are in this process.
#[tokio::test]
#[ignore = "measures the memory of the whole process: run it alone, with --ignored"]
async fn many_bodies_at_once_take_no_more_than_their_memory() {
    let mut config = LabConfig::new("");
    config.limits.idle = std::time::Duration::from_secs(60);
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, &TOOLS.replace("4194304", "8388608"));
    let lab = std::sync::Arc::new(start_lab(config).await);
    let all = lab.served.held_bodies.free_bytes();
    let body: std::sync::Arc<str> = call(&format!(r#"{{"text":"{}"}}"#, "x".repeat(7 << 20))).into();
    let before = resident_mebibytes();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let lab = std::sync::Arc::clone(&lab);
        let body = std::sync::Arc::clone(&body);
        let port = server.port;
        clients.spawn(async move {
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: api.test:{port}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let mut stream = lab.inspected(port).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            // A body that is refused is not read to its end.
            for portion in body.as_bytes().chunks(256 << 10) {
                if stream.write_all(portion).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            talk(stream, "").await.contains("proxy_busy")
        });
    }
    let mut peak = before;
    let mut busy = 0;
    while !clients.is_empty() {
        tokio::select! {
            joined = clients.join_next() => busy += usize::from(joined.unwrap().unwrap()),
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
        }
        peak = peak.max(resident_mebibytes());
    }
    println!("64 bodies of 7 MiB: {} MiB more, {busy} refused", peak - before);
    assert!(busy > 0, "there was memory for all");
    assert!(peak - before < 320, "{} MiB", peak - before);
    // A request ends a moment after its client has the answer.
    for _ in 0..500 {
        if lab.served.held_bodies.free_bytes() == all {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(lab.served.held_bodies.free_bytes(), all);
}

fn bind(config: &mut LabConfig) -> String {
    bind_credential(config, "ghp_Zk3vXq81LmPw72TyBn", Vec::new())
}

#[tokio::test]
async fn bodies_that_get_credentials_share_it_too() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let placeholder = bind(&mut config);
    config.policy = rule(server.port, FILLED);
    let lab = start_lab(config).await;
    let body = format!(r#"{{"token":"{placeholder}","text":"{}"}}"#, "x".repeat(200_000));
    for (fields, body) in [
        (format!("Content-Length: {}\r\n", body.len()), body.as_bytes().to_vec()),
        ("Transfer-Encoding: chunked\r\n".to_owned(), chunked(body.as_bytes())),
    ] {
        let others = taken(&lab, 100 << 10);
        let answer = post(&lab, server.port, &fields, &body).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("try again"), "{fields}{answer}");
        drop(others);
        let answer = post(&lab, server.port, &fields, &body).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{fields}{}", &answer[..answer.len().min(400)]);
    }
}

#[tokio::test]
async fn streams_of_http2_share_it_too() {
    for keys in [TOOLS, FILLED] {
        let mut config = LabConfig::new("");
        let (port, _) = http2_server(&config).await;
        bind(&mut config);
        config.policy = rule(port, keys);
        let lab = start_lab(config).await;
        let all = lab.served.held_bodies.free_bytes();
        let mut sender = connected(&lab, port).await;
        let request = || {
            let body = call(&format!(r#"{{"text":"{}"}}"#, "x".repeat(200_000)));
            let mut request = asked("POST", &format!("https://api.test:{port}/mcp"), &body);
            request.headers_mut().insert("content-type", "application/json".parse().unwrap());
            request
        };
        let others = taken(&lab, 100 << 10);
        let (status, answer) = ask_stream(&mut sender, request()).await;
        assert!(status == 503 && answer.contains("try again"), "{status} {answer}");
        drop(others);
        let (status, answer) = ask_stream(&mut sender, request()).await;
        assert!(status == 200 && !answer.contains("try again"), "{status} {answer}");
        assert_eq!(lab.served.held_bodies.free_bytes(), all);
    }
}

#[tokio::test]
async fn messages_of_websockets_share_it_too() {
    let keys =
        "        protocol: websocket\n        access: full\n        websocket_credential_rewrite: true";
    let (lab, mut socket, _frames, _) = with_credential(keys).await;
    let message = vec![b'x'; 200_000];
    send_frame(&mut socket, Opcode::Text, true, &message).await;
    assert_eq!(read_frame(&mut socket).await.unwrap().1, message);
    let others = taken(&lab, 100 << 10);
    send_frame(&mut socket, Opcode::Text, true, &message).await;
    let (code, reason) = close_reason(&mut socket).await;
    assert!(code == 1013 && reason.contains("try again"), "{code} {reason}");
    drop(others);
}
