//! Connections as a whole: admitted or refused, tunnelled or read.

use super::lab::{Kind, LabConfig, Trust, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Allowed, Audited, Denied};

const REQUEST: &str = "GET /a HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_tunnel_shows_the_servers_own_certificate() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, "");
    let lab = start_lab(config).await;
    let stream = lab.tunnel(&format!("API.test.:{}", server.port)).await.unwrap();
    let stream = lab.tls(stream, Trust::Server, "api.test").await.unwrap();
    assert!(
        talk(
            stream,
            &format!("GET /a HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n\r\n", server.port)
        )
        .await
        .contains("GET /a")
    );
    assert_eq!(lab.decisions(1).await, [Allowed]);
    let connection = &lab.connections()[0];
    assert!(connection.bytes_in > 500 && connection.bytes_out > 200, "{connection:?}");
    assert_eq!(connection.pid, Some(std::process::id()));
    assert_eq!(connection.binary.as_deref(), std::env::current_exe().unwrap().to_str());
    assert_eq!((connection.method.as_ref(), connection.rule.as_deref()), (None, Some("rule api")));
}

#[tokio::test]
async fn a_refusal_says_what_would_allow_it() {
    let lab = start_lab(LabConfig::new(rule(443, ""))).await;
    let answer = lab.tunnel("other.test:443").await.err().unwrap();
    let first = "HTTP/1.1 403 Forbidden by fullsend: other.test:443: no rule names this host and port";
    assert!(answer.starts_with(first), "{answer}");
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["error"], "policy_denied");
    assert!(body["would_allow"].as_str().unwrap().contains("host: other.test"), "{body}");
    assert!(body["detail"].as_str().unwrap().contains("no rule names this host and port"), "{body}");
    assert_eq!(lab.decisions(1).await, [Denied]);
    assert!(lab.dialled().is_empty());
}

#[tokio::test]
async fn another_program_is_refused_and_so_is_another_port() {
    let policy = rule(443, "").replace("/**", "/usr/bin/only-this");
    let lab = start_lab(LabConfig::new(policy)).await;
    let answer = lab.tunnel("api.test:443").await.err().unwrap();
    assert!(answer.contains("names the calling program"), "{answer}");
    assert!(lab.tunnel("api.test:444").await.is_err());
    assert_eq!(lab.decisions(2).await, [Denied, Denied]);
}

#[tokio::test]
async fn requests_are_read_where_a_rule_says_so() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let rules = "        protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {method: GET, path: \"/open/**\"}";
    config.policy = rule(server.port, rules);
    let lab = start_lab(config).await;
    let port = server.port;
    let ask = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n");
    let stream = lab.inspected(port).await;
    let both = ask("GET", "/open/x?q=1") + &ask("GET", "/open/y/../z") + &ask("DELETE", "/open/x");
    let answer = talk(stream, &both).await;
    assert!(
        answer.contains("GET /open/x?q=1 HTTP/1.1") && answer.contains("GET /open/z HTTP/1.1"),
        "{answer}"
    );
    assert!(
        answer.contains("HTTP/1.1 403 Forbidden") && answer.contains("no rule allows this request"),
        "{answer}"
    );
    assert_eq!(lab.decisions(3).await, [Allowed, Allowed, Denied]);
    assert_eq!(lab.connections()[2].path.as_deref(), Some("/open/x"));
    assert_eq!(server.heads.lock().unwrap().len(), 2, "the refused one never arrived");
}

#[tokio::test]
async fn audit_lets_through_and_says_so() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy =
        rule(server.port, "        protocol: rest\n        enforcement: audit\n        access: read-only");
    let lab = start_lab(config).await;
    let stream = lab.inspected(server.port).await;
    let request = format!(
        "POST /a HTTP/1.1\r\nHost: api.test:{}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
        server.port
    );
    assert!(talk(stream, &request).await.contains("POST /a HTTP/1.1 [hi]"));
    assert_eq!(lab.decisions(1).await, [Audited]);
    assert!(lab.connections()[0].fix.is_some());
}

#[tokio::test]
async fn tls_skip_is_tunnelled_even_with_rules() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, "        tls: skip");
    let lab = start_lab(config).await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    assert!(lab.tls(stream, Trust::Server, "api.test").await.is_ok());
}

#[tokio::test]
async fn plain_requests_in_absolute_form_are_decided_one_by_one() {
    let server = server(Kind::Plain).await;
    let port = server.port;
    let rules = "        protocol: rest\n        enforcement: enforce\n        access: read-only";
    let lab = start_lab(LabConfig::new(rule(port, rules))).await;
    let ask = |method: &str, host: &str| {
        format!("{method} http://{host}/p HTTP/1.1\r\nHost: {host}\r\nProxy-Connection: keep-alive\r\n\r\n")
    };
    let api = format!("api.test:{port}");
    let answer = lab.raw(&(ask("GET", &api) + &ask("HEAD", &api) + &ask("POST", &api))).await;
    assert!(answer.contains("GET /p HTTP/1.1 []") && answer.contains("403 Forbidden"), "{answer}");
    assert!(lab.raw(&ask("GET", &format!("other.test:{port}"))).await.starts_with("HTTP/1.1 403 "));
    assert_eq!(lab.decisions(4).await, [Allowed, Allowed, Denied, Denied]);
    let heads = server.heads.lock().unwrap();
    assert_eq!(heads.len(), 2);
    assert!(!heads[0].to_lowercase().contains("proxy-connection"), "{}", heads[0]);
}

#[tokio::test]
async fn the_gateway_is_reached_through_the_proxy_too() {
    let lab = start_lab(LabConfig::new("version: 1\n")).await;
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let length = body.len();
    let post = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: model.fullsend.internal\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let answer = lab.raw(&post("http://model.fullsend.internal/v1/messages")).await;
    assert!(answer.contains("hello from the gateway"), "{answer}");
    let tunnel = lab.tunnel("model.fullsend.internal:80").await.unwrap();
    assert!(talk(tunnel, &post("/v1/messages")).await.contains("hello from the gateway"));
    assert!(lab.connections().is_empty(), "the gateway has its own events");
}

#[tokio::test]
async fn a_placeholder_is_plain_text_for_the_gateway() {
    let lab = start_lab(LabConfig::new("version: 1\n")).await;
    let body = "echo openshell:resolve:env:v1_TOKEN and OPENSHELL-RESOLVE-ENV-TOKEN";
    let length = body.len();
    let post = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: model.fullsend.internal\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let answer = lab.raw(&post("http://model.fullsend.internal/v1/messages")).await;
    assert!(answer.contains("hello from the gateway"), "{answer}");
    let tunnel = lab.tunnel("model.fullsend.internal:80").await.unwrap();
    assert!(talk(tunnel, &post("/v1/messages")).await.contains("hello from the gateway"));
}

#[tokio::test]
async fn direct_connections_are_admitted_by_the_address_they_dialled() {
    let server = server(Kind::Plain).await;
    let rules = "        protocol: rest\n        enforcement: enforce\n        access: read-only";
    let mut config = LabConfig::new(rule(server.port, rules));
    config.direct = ("api.test", server.port);
    let lab = start_lab(config).await;
    let connect = || async { tokio::net::TcpStream::connect(lab.direct).await.unwrap() };
    let ask = |method: &str| {
        REQUEST.replace("GET", method).replace("api.test", &format!("api.test:{}", server.port))
    };
    assert!(talk(connect().await, &ask("GET")).await.contains("GET /a HTTP/1.1"));
    assert!(talk(connect().await, &ask("POST")).await.contains("policy_denied"));
    assert_eq!(lab.decisions(2).await, [Allowed, Denied]);
}

#[tokio::test]
async fn a_refused_direct_connection_gets_the_reason_if_it_speaks_http() {
    let mut config = LabConfig::new(rule(443, ""));
    config.direct = ("other.test", 0);
    let lab = start_lab(config).await;
    let stream = tokio::net::TcpStream::connect(lab.direct).await.unwrap();
    assert!(talk(stream, REQUEST).await.contains("policy_denied"));
    let stream = tokio::net::TcpStream::connect(lab.direct).await.unwrap();
    assert_eq!(talk(stream, "\x16\x03\x01\x00").await, "");
    assert_eq!(lab.decisions(2).await, [Denied, Denied]);
}

#[tokio::test]
async fn stopping_ends_open_tunnels_and_records_them() {
    let server = server(Kind::Plain).await;
    let mut lab = start_lab(LabConfig::new(rule(server.port, ""))).await;
    let _open = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    lab.serving.take().unwrap().stop(std::time::Duration::from_secs(2)).await;
    assert_eq!(lab.decisions(1).await, [Allowed]);
}

/// A thousand connections wait at once: what one takes before its requests are read is bounded.
#[tokio::test]
async fn a_connection_takes_little_until_it_is_read() {
    let server = server(Kind::Plain).await;
    let lab = start_lab(LabConfig::new(rule(server.port, ""))).await;
    let stream = || async { tokio::net::TcpStream::connect(lab.proxy).await.unwrap() };
    let peer = lab.proxy;
    let proxy = || std::sync::Arc::clone(&lab.served);
    let forward = crate::proxy::forward::serve(proxy(), stream().await, peer);
    let direct = crate::proxy::direct::serve(proxy(), stream().await, peer);
    for (name, size) in [("forward", size_of_val(&forward)), ("direct", size_of_val(&direct))] {
        assert!(size < 5 << 10, "{name}: {size} bytes");
    }
}
