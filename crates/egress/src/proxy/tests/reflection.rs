//! Servers that send the credential back: the sandbox gets asterisks of the same length, in every part of a response.

use super::http2::{ask, asked, connected, http2_server};
use super::lab::{Lab, LabConfig, bind_credential, endpoints, read_head, rule, start_lab, talk};
use super::websockets::{read_frame, send_frame, with_credential, with_value};
use crate::websocket::Opcode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;

const VALUE: &str = "ghp_Zk3vXq81LmPw72TyBn";
const BOUND: &str = "        protocol: rest\n        enforcement: enforce\n        access: full\n        credential_binding: {provider: p}";

fn bind(config: &mut LabConfig, port: u16) -> String {
    config.policy = rule(port, BOUND);
    bind_to(config, Vec::new())
}

/// No rule of the policy reads requests.
fn bind_to_path(config: &mut LabConfig, port: u16, path: &str) -> String {
    config.policy = rule(port, "");
    let keys = format!("        protocol: rest\n        access: full\n        path: \"{path}\"");
    bind_to(config, endpoints(&rule(port, &keys)))
}

fn bind_to(config: &mut LabConfig, endpoints: Vec<policy::model::Endpoint>) -> String {
    bind_credential(config, VALUE, endpoints)
}

/// The whole response to a request that has the value in its `Authorization`.
fn response(path: &str, value: &str) -> String {
    let basic = STANDARD.encode(format!("user:{value}"));
    let text = format!("you sent {value}, which is {basic} and {} more", &value[..value.len() - 1]);
    let ok = "HTTP/1.1 200 OK\r\n";
    match path {
        "/header" => format!(
            "HTTP/1.1 200 {value}\r\nContent-Length: 0\r\nX-Echo: {value}\r\nLocation: /?{basic}\r\n\r\n"
        ),
        // A name is a token in any case, and HTTP/2 writes it in lower case.
        "/name" => {
            format!("{ok}Content-Length: 5\r\nX-{value}: a\r\n{}: b\r\n\r\n*****", value.to_ascii_lowercase())
        }
        "/hint" => format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </{value}>; rel=preload\r\n\r\n{ok}Content-Length: 5\r\n\
             Set-Cookie: t={value}; Path=/\r\nRefresh: 0; url=/?t={value}\r\n\r\n*****"
        ),
        "/wide" => {
            let wide: String = value.chars().flat_map(|letter| [letter, '\0']).collect();
            format!("{ok}Content-Length: {}\r\n\r\n{wide}", wide.len())
        }
        "/escaped" => {
            let escaped: String =
                value.chars().map(|letter| format!("\\u{:04x}", u32::from(letter))).collect();
            format!("{ok}Content-Length: {}\r\n\r\n{escaped}", escaped.len())
        }
        "/lines" | "/escaped-lines" => {
            let encoded = STANDARD.encode(lines_text(value));
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap()).collect();
            let body = lines.join(if path == "/lines" { "\r\n" } else { "\\n" });
            format!("{ok}Content-Length: {}\r\n\r\n{body}", body.len())
        }
        "/divided" => {
            let (one, other) = value.split_at(9);
            let sse = format!("data: {one}\n\ndata: {other}\n\n[\"{one}\",\n \"{other}\"]");
            format!("{ok}Content-Length: {}\r\nX-One: {one}\r\nX-Other: {other}\r\n\r\n{sse}", sse.len())
        }
        "/part" => {
            let part = &value[1..value.len() - 1];
            format!("{ok}Content-Length: {}\r\nX-Part: {part}\r\n\r\n{part}", part.len())
        }
        "/twice" => {
            let twice = STANDARD.encode(STANDARD.encode(value));
            format!("{ok}Content-Length: {}\r\nX-Twice: {twice}\r\n\r\n{twice}", twice.len())
        }
        "/length" => format!("{ok}Content-Length: {}\r\n\r\n{text}", text.len()),
        "/close" => format!("{ok}Connection: close\r\n\r\n{text}"),
        "/cut" => format!("{ok}Connection: close\r\n\r\nyou sent {}", &value[..12]),
        "/gzip" => format!("{ok}Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
        "/grpc" => format!("{ok}Content-Length: 3\r\ngrpc-encoding: gzip\r\n\r\nabc"),
        "/delta" => format!("{ok}Content-Length: 3\r\nIM: gzip\r\n\r\nabc"),
        "/utf16" => {
            format!("{ok}Content-Type: text/plain; charset=\"UTF-16LE\"\r\nContent-Length: 3\r\n\r\nabc")
        }
        "/spaced" => {
            format!("{ok}Content-Type: text/plain; Charset = utf-16\r\nContent-Length: 3\r\n\r\nabc")
        }
        "/second" => format!(
            "{ok}Content-Type: text/plain; charset=utf-8; charset='utf-7'\r\nContent-Length: 3\r\n\r\nabc"
        ),
        "/utf8" => format!("{ok}Content-Type: text/plain; charset=UTF-8\r\nContent-Length: 3\r\n\r\nabc"),
        "/strange" => format!("{ok}Content-Encoding: rot13\r\nContent-Length: 3\r\n\r\nabc"),
        _ if !path.starts_with("/chunks/") => format!("{ok}Content-Length: 0\r\n\r\n"),
        _ => {
            let size: usize = path.trim_start_matches("/chunks/").parse().unwrap();
            let chunks = text
                .as_bytes()
                .chunks(size)
                .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
            let trailer = format!("X-Trailer: {value}\r\n");
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n{}0\r\n{trailer}\r\n", chunks.collect::<String>())
        }
    }
}

/// A TLS server of `api.test` that reflects, and the heads that it got.
async fn reflecting(config: &LabConfig) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = config.vendor.acceptor("api.test", false, &[b"http/1.1"]);
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let head = read_head(&mut stream).await;
            let path = head.split(' ').nth(1).unwrap_or("/length").to_owned();
            kept.lock().unwrap().push(head);
            stream.write_all(response(&path, VALUE).as_bytes()).await.unwrap();
            drop(stream.shutdown().await);
        }
    });
    (port, heads)
}

async fn get(lab: &Lab, port: u16, path: &str, more: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: api.test:{port}\r\n{more}Connection: close\r\n\r\n");
    talk(lab.inspected(port).await, &head).await
}

#[tokio::test]
async fn reflected_values_are_masked_in_headers_and_bodies() {
    let mut config = LabConfig::new("");
    let (port, heads) = reflecting(&config).await;
    let placeholder = bind(&mut config, port);
    let lab = start_lab(config).await;
    let sent = format!("Authorization: Bearer {placeholder}\r\n");
    let basic = STANDARD.encode(format!("user:{VALUE}"));
    let chunks = (1..=40).map(|size| format!("/chunks/{size}"));
    let paths = [
        "/header", "/length", "/close", "/cut", "/name", "/hint", "/wide", "/escaped", "/divided", "/part",
        "/twice",
    ];
    let twice = STANDARD.encode(STANDARD.encode(VALUE));
    for path in paths.map(str::to_owned).into_iter().chain(chunks) {
        let answer = get(&lab, port, &path, &sent).await;
        assert!(answer.contains("HTTP/1.1 200 "), "{path}: {answer}");
        let lower_case = VALUE[4..14].to_ascii_lowercase();
        let parts = [&VALUE[4..14], &VALUE[..9], &VALUE[9..], &lower_case, &basic[8..20], &twice[8..20]];
        for part in parts.into_iter().chain(["X-Trailer", "Z\0k\0", "\\u005a"]) {
            assert!(!answer.contains(part), "{path}: {part} in {answer}");
        }
        assert!(answer.contains("*****"), "{path}: {answer}");
    }
    assert!(heads.lock().unwrap().iter().all(|head| head.contains(VALUE)));
}

/// The value is over the end of the first line.
fn lines_text(value: &str) -> String {
    format!("{}{value}{}", "x".repeat(48), "y".repeat(90))
}

#[tokio::test]
async fn reflected_values_are_masked_in_base64_over_several_lines() {
    let mut config = LabConfig::new("");
    let (port, _) = reflecting(&config).await;
    let placeholder = bind(&mut config, port);
    let lab = start_lab(config).await;
    let sent = format!("Authorization: Bearer {placeholder}\r\n");
    let encoded = STANDARD.encode(lines_text(VALUE));
    for path in ["/lines", "/escaped-lines"] {
        let answer = get(&lab, port, path, &sent).await;
        let joined = answer.replace("\r\n", "").replace("\\n", "");
        assert!(joined.contains(&encoded[..60]) && joined.contains(&encoded[100..140]), "{path}: {answer}");
        let shown = (64..88).filter(|at| joined.contains(&encoded[*at..at + 4])).count();
        assert_eq!(shown, 0, "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_value_that_was_not_sent_is_masked_too() {
    let mut config = LabConfig::new("");
    let (port, heads) = reflecting(&config).await;
    bind(&mut config, port);
    let lab = start_lab(config).await;
    let answer = get(&lab, port, "/length", "").await;
    assert!(answer.contains("you sent ******") && !answer.contains(&VALUE[4..14]), "{answer}");
    assert!(!heads.lock().unwrap()[0].contains(VALUE));
}

/// A profile binds the credential to `/api/**`, and no rule of the policy reads requests.
#[tokio::test]
async fn a_path_with_two_meanings_gets_no_credential() {
    for (path, is_sent) in [
        ("/api/x", true),
        ("/api/../echo", false),
        ("/api/%2e%2e/echo", false),
        ("/api/%252e%252e/echo", false),
        ("/api/..;/echo", false),
        ("/api/..%5cecho", false),
        ("/api/%zz", false),
        ("/echo", false),
    ] {
        let mut config = LabConfig::new("");
        let (port, heads) = reflecting(&config).await;
        let placeholder = bind_to_path(&mut config, port, "/api/**");
        let lab = start_lab(config).await;
        let sent = format!("Authorization: Bearer {placeholder}\r\n");
        let answer = get(&lab, port, path, &sent).await;
        let arrived = heads.lock().unwrap().iter().any(|head| head.contains(VALUE));
        assert_eq!(arrived, is_sent, "{path}: {answer}");
    }
}

#[tokio::test]
async fn responses_that_cannot_be_read_are_asked_against_and_refused() {
    let mut config = LabConfig::new("");
    let (port, heads) = reflecting(&config).await;
    let placeholder = bind(&mut config, port);
    let lab = start_lab(config).await;
    let more = "Accept-Encoding: gzip, br\r\nRange: bytes=0-9\r\nIf-Range: x\r\nA-IM: gzip\r\ngrpc-accept-encoding: gzip\r\n\
                Accept-Charset: utf-16\r\n";
    assert!(get(&lab, port, "/gzip", more).await.ends_with("abc"), "nothing was sent yet");
    let head = heads.lock().unwrap()[0].clone();
    assert!(
        head.contains("Accept-Encoding: identity\r\n")
            && !head.contains("gzip, br")
            && !head.contains("ange:")
            && !head.contains(": gzip")
            && !head.contains("utf-16"),
        "{head}"
    );
    let sent = format!("Authorization: Bearer {placeholder}\r\n");
    get(&lab, port, "/length", &sent).await;
    assert!(get(&lab, port, "/utf8", &sent).await.ends_with("abc"));
    let paths = ["/gzip", "/strange", "/grpc", "/delta", "/utf16", "/spaced", "/second"];
    for (path, more) in paths.map(|path| (path, "")).into_iter().chain([("/gzip", &*sent)]) {
        let answer = get(&lab, port, path, more).await;
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains("cannot be checked"),
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn reflected_values_are_masked_in_http2() {
    let mut config = LabConfig::new("");
    let (port, _) = http2_server(&config).await;
    let placeholder = bind(&mut config, port);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, port).await;
    let url = format!("https://api.test:{port}/reflect");
    let mut request = asked("GET", &url, "");
    request.headers_mut().insert("authorization", format!("Bearer {placeholder}").parse().unwrap());
    let reflected = sender.send_request(request).await.unwrap();
    assert_eq!(reflected.headers()["x-echo"], format!("Bearer {}", "*".repeat(VALUE.len())));
    let body = reflected.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap();
    assert_eq!(trailers["x-echo"], format!("Bearer {}", "*".repeat(VALUE.len())));
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert_eq!(text, format!("[Bearer {}]", "*".repeat(VALUE.len())));
    let (status, body) =
        ask(&mut sender, asked("GET", &format!("https://api.test:{port}/encoded"), "")).await;
    assert!(status == 502 && body.contains("cannot be checked"), "{status} {body}");
}

/// The same masks serve every protocol.
#[tokio::test]
async fn values_over_several_lines_are_masked_in_http2() {
    let mut config = LabConfig::new("");
    let (port, _) = http2_server(&config).await;
    let placeholder = bind(&mut config, port);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, port).await;
    let mut request = asked("GET", &format!("https://api.test:{port}/lines"), "");
    request.headers_mut().insert("authorization", format!("Bearer {placeholder}").parse().unwrap());
    let (status, body) = ask(&mut sender, request).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body, "Beare\nr ***\n*****\n*****\n*****\n****");
}

#[tokio::test]
async fn values_over_several_lines_are_masked_in_websocket_messages() {
    let keys = "        protocol: websocket\n        access: full";
    let (_lab, mut socket, _, _) = with_value(VALUE, keys).await;
    // The server repeats what it gets; here it gets the value from elsewhere, over lines and over frames.
    let lines: Vec<&str> = VALUE.as_bytes().chunks(5).map(|line| str::from_utf8(line).unwrap()).collect();
    let text = format!("a {} b", lines.join("\r\n"));
    send_frame(&mut socket, Opcode::Text, true, text.as_bytes()).await;
    let (_, payload) = read_frame(&mut socket).await.unwrap();
    let shown = String::from_utf8(payload).unwrap();
    assert_eq!(shown, format!("a {}\r\n** b", ["*****"; 4].join("\r\n")));
    let (one, other) = text.split_at(13);
    send_frame(&mut socket, Opcode::Text, false, one.as_bytes()).await;
    send_frame(&mut socket, Opcode::Continuation, true, other.as_bytes()).await;
    let mut shown = read_frame(&mut socket).await.unwrap().1;
    shown.extend(read_frame(&mut socket).await.unwrap().1);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.matches('*').count() + 8 > VALUE.len() && shown.ends_with("** b"), "{shown}");
}

#[tokio::test]
async fn reflected_values_are_masked_in_websocket_messages() {
    let keys =
        "        protocol: websocket\n        access: full\n        websocket_credential_rewrite: true";
    let (_lab, mut socket, frames, placeholder) = with_credential(keys).await;
    send_frame(&mut socket, Opcode::Text, true, format!("my {placeholder}").as_bytes()).await;
    let (_, payload) = read_frame(&mut socket).await.unwrap();
    let sent = frames.lock().unwrap()[0].1.clone();
    assert_eq!(sent, b"my s3\"cret");
    assert_eq!(String::from_utf8_lossy(&payload), "my *******");
    send_frame(&mut socket, Opcode::Binary, true, b"nothing of it").await;
    assert_eq!(read_frame(&mut socket).await.unwrap().1, b"nothing of it");
}
