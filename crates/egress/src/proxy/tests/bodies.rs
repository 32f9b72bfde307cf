//! Rules for bodies, over real sockets: the checked bytes arrive, and a refusal has the form of the protocol.

use super::http2::{ask as ask_stream, asked, connected, http2_server};
use super::lab::{Kind, Lab, LabConfig, Server, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Allowed, Audited, Denied};
use crate::event::RequestedOperation;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write;

const TOOLS: &str = "        protocol: mcp\n        path: /mcp\n        rules:\n          - allow: {method: tools/list}\n          \
                     - allow: {tool: search}\n";

async fn lab(rules: &str) -> (Lab, Server) {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, rules);
    (start_lab(config).await, server)
}

fn request(port: u16, head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: api.test:{port}\r\nConnection: close\r\nContent-Length: {length}\r\n"
    );
    [head.as_bytes(), b"Content-Type: application/json\r\n\r\n", body].concat()
}

fn call(tool: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{{"name":"{tool}"}}}}"#)
}

async fn ask(lab: &Lab, server: &Server, head: &str, body: &[u8]) -> String {
    let text = request(server.port, head, body);
    let mut stream = lab.inspected(server.port).await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, &text).await.unwrap();
    talk(stream, "").await
}

#[tokio::test]
async fn a_tool_that_a_rule_names_is_called_and_another_is_refused() {
    let (lab, server) = lab(TOOLS).await;
    let answer = ask(&lab, &server, "POST /mcp", call("search").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("[{\"jsonrpc\""), "{answer}");
    assert_eq!(server.bodies.lock().unwrap().as_slice(), [call("search")]);

    let answer = ask(&lab, &server, "POST /mcp", call("drop_table").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("X-Fullsend-Refusal: policy_denied\r\n"), "{answer}");
    let refusal: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!((&refusal["jsonrpc"], &refusal["id"]), (&Value::from("2.0"), &Value::from("a-1")));
    let message = refusal["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("/mcp: tools/call drop_table: no rule allows this request"), "{message}");
    let fix = refusal["error"]["data"]["would_allow"].as_str().unwrap();
    assert!(fix.ends_with("rules:\n  - allow:\n      method: tools/call\n      tool: drop_table\n"), "{fix}");

    assert_eq!(lab.decisions(2).await, [Allowed, Denied]);
    assert_eq!(server.bodies.lock().unwrap().len(), 1, "the second one never arrived");
    let denied = &lab.connections()[1];
    let tool = Some("drop_table".to_owned());
    assert_eq!(
        denied.operation,
        Some(Box::new(RequestedOperation::Rpc { method: "tools/call".to_owned(), tool }))
    );
    assert_eq!((denied.path.as_deref(), denied.status), (Some("/mcp"), Some(200)));
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let (lab, server) = lab(TOOLS).await;
    let port = server.port;
    let search = call("search");
    let huge = call(&"x".repeat(80_000));
    let head = |extra: &str| {
        format!("POST /mcp HTTP/1.1\r\nHost: api.test:{port}\r\nConnection: close\r\n{extra}\r\n")
    };
    let typed = "Content-Type: application/json\r\n";
    let length = format!("Content-Length: {}\r\n", search.len());
    let cases = [
        head(&format!("{typed}{length}Content-Encoding: deflate\r\n")) + &search,
        head(&format!("{typed}{length}Content-Encoding: gzip\r\n")) + &search,
        head(&format!("{typed}{typed}{length}")) + &search,
        head(&format!("Content-Type: text/plain\r\n{length}")) + &search,
        head(&length) + &search,
        head(&format!("{typed}{length}X-HTTP-Method-Override: PUT\r\n")) + &search,
        head(&format!("{typed}Content-Length: {}\r\n", huge.len())) + &huge,
        head(&format!("{typed}Transfer-Encoding: chunked\r\n")) + &format!("{:x}\r\n{huge}\r\n0\r\n\r\n", huge.len()),
        head(typed),
        head("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
            .replace("POST", "GET")
            .replace("Connection: close\r\n", ""),
    ];
    for (index, text) in cases.iter().enumerate() {
        let answer = talk(lab.inspected(port).await, text).await;
        let refused = answer.contains("X-Fullsend-Refusal: ");
        assert!(refused, "case {index} was answered with {answer}\n{}", &text[..text.len().min(400)]);
    }
    assert_eq!(lab.decisions(cases.len()).await, vec![Denied; cases.len()]);
    assert!(server.heads.lock().unwrap().is_empty(), "nothing arrived");
}

#[tokio::test]
async fn a_compressed_body_is_decided_and_arrives_as_it_was_sent() {
    let (lab, server) = lab(TOOLS).await;
    for (tool, passes) in [("search", true), ("drop_table", false)] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(call(tool).as_bytes()).unwrap();
        let body = encoder.finish().unwrap();
        let text = request(server.port, "POST /mcp", &body);
        let at = text.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let text = [&text[..at], b"\r\nContent-Encoding: gzip", &text[at..]].concat();
        let mut stream = lab.inspected(server.port).await;
        tokio::io::AsyncWriteExt::write_all(&mut stream, &text).await.unwrap();
        let answer = talk(stream, "").await;
        assert_eq!(!answer.contains("X-Fullsend-Refusal"), passes, "{answer}");
    }
    assert_eq!(server.bodies.lock().unwrap().len(), 1);
    assert!(server.heads.lock().unwrap()[0].contains("Content-Encoding: gzip"));
}

#[tokio::test]
async fn a_batch_is_answered_call_by_call_and_sessions_pass() {
    let (lab, server) = lab(TOOLS).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let batch = format!(r#"[{list},{}]"#, call("drop_table"));
    let answer = ask(&lab, &server, "POST /mcp", batch.as_bytes()).await;
    let refusals: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let ids: Vec<&Value> = refusals.as_array().unwrap().iter().map(|refusal| &refusal["id"]).collect();
    assert_eq!(ids, [&Value::from(1), &Value::from("a-1")]);

    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let answer = ask(&lab, &server, "POST /mcp", notification.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains(r#""id":null"#), "{answer}");

    for head in ["GET /mcp", "DELETE /mcp"] {
        let answer = ask(&lab, &server, head, b"").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.contains("Refusal"), "{answer}");
    }
    assert_eq!(lab.decisions(4).await, [Denied, Denied, Allowed, Allowed]);
}

#[tokio::test]
async fn graphql_is_refused_with_errors() {
    let (lab, server) = lab("        protocol: graphql\n        access: read-only\n").await;
    let answer = ask(&lab, &server, "POST /graphql", br#"{"query":"{ viewer { login } }"}"#).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.contains("Refusal"), "{answer}");
    let body = br#"{"query":"mutation Drop { deleteIssue { id } }"}"#;
    let answer = ask(&lab, &server, "POST /graphql", body).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let refusal: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let error = &refusal["errors"][0];
    let message = error["message"].as_str().unwrap();
    assert!(
        message.ends_with("/graphql: mutation Drop { deleteIssue }: no rule allows this request"),
        "{message}"
    );
    let fix = error["extensions"]["would_allow"].as_str().unwrap();
    let rule = "operation_type: mutation\n      operation_name: Drop\n      fields: [deleteIssue]\n";
    assert!(fix.ends_with(rule), "{fix}");
    assert_eq!(lab.decisions(2).await, [Allowed, Denied]);
    assert_eq!(server.bodies.lock().unwrap().len(), 1, "the second one never arrived");
}

#[tokio::test]
async fn an_endpoint_that_audits_records_and_passes() {
    let (lab, server) = lab(&format!("{TOOLS}        enforcement: audit\n")).await;
    let answer = ask(&lab, &server, "POST /mcp", call("drop_table").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.contains("Refusal"), "{answer}");
    assert_eq!(lab.decisions(1).await, [Audited]);
    let reason = lab.connections()[0].reason.clone().unwrap();
    assert!(reason.contains("tools/call drop_table"), "{reason}");
}

#[tokio::test]
async fn plain_http_and_http2_are_decided_alike() {
    let mut config = LabConfig::new("");
    let plain = server(Kind::Plain).await;
    config.policy = rule(plain.port, TOOLS);
    let lab = start_lab(config).await;
    for (tool, passes) in [("search", true), ("drop_table", false)] {
        let text =
            request(plain.port, &format!("POST http://api.test:{}/mcp", plain.port), call(tool).as_bytes());
        let answer = lab.raw(std::str::from_utf8(&text).unwrap()).await;
        assert_eq!(!answer.contains("X-Fullsend-Refusal"), passes, "{answer}");
    }
    assert_eq!(plain.bodies.lock().unwrap().as_slice(), [call("search")]);

    let mut config = LabConfig::new("");
    let (port, seen) = http2_server(&config).await;
    config.policy = rule(port, TOOLS);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, port).await;
    for (tool, passes) in [("search", true), ("drop_table", false), (&*"x".repeat(80_000), false)] {
        let mut request = asked("POST", &format!("https://api.test:{port}/mcp"), &call(tool));
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        let (_, answer) = ask_stream(&mut sender, request).await;
        assert_eq!(answer.contains("-32040"), !passes, "{answer}");
    }
    assert_eq!(lab.decisions(3).await, [Allowed, Denied, Denied]);
    assert_eq!(seen.lock().unwrap().len(), 1, "only the first one arrived");
}
