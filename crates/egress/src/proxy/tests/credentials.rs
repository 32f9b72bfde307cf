//! Credentials through the proxy: the server sees the value, the sandbox never does.

use super::lab::{Kind, Lab, LabConfig, Server, authorization, endpoints, rule, server, start_lab, talk};
use crate::credentials::{Credential, CredentialPlacement, CredentialSource, CredentialStore, Secret};
use crate::event::ConnectionDecision::Denied;
use std::sync::Arc;

const VALUE: &str = "ghp_realvalue";

struct Bound {
    lab: Lab,
    server: Server,
    placeholder: String,
}

/// The policy binds `api.test`; its endpoint has these further keys.
async fn bound(rest: &str) -> Bound {
    let binding = "        credential_binding: {provider: github}\n";
    bound_by(&format!("{binding}{rest}"), |_| Vec::new()).await
}

/// The provider's profile binds `api.test`; the policy has a plain rule for it.
async fn bound_by_profile(rest: &str) -> Bound {
    bound_by(rest, |port| endpoints(&rule(port, REST))).await
}

async fn bound_by(rest: &str, endpoints: impl Fn(u16) -> Vec<policy::model::Endpoint>) -> Bound {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    let source = CredentialSource::fixed(Secret::new(VALUE.to_owned()));
    let endpoints = endpoints(server.port);
    let credential = Credential {
        provider: "github".into(),
        key: "TOKEN".into(),
        source,
        endpoints,
        placements: authorization_and_key(),
        plain: false,
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    config.credentials = Arc::new(store);
    config.policy = rule(server.port, rest);
    Bound { lab: start_lab(config).await, server, placeholder }
}

fn authorization_and_key() -> Vec<CredentialPlacement> {
    let mut placements = authorization();
    placements.push(CredentialPlacement::QueryParameter("key".to_owned()));
    placements
}

const REST: &str = "        protocol: rest\n        enforcement: enforce\n        access: full";

fn post(port: u16, placeholder: &str, body: &str) -> String {
    format!(
        "POST /x?key={placeholder} HTTP/1.1\r\nHost: api.test:{port}\r\nAuthorization: Bearer {placeholder}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn the_server_sees_the_value() {
    let Bound { lab, server, placeholder } = bound(REST).await;
    talk(lab.inspected(server.port).await, &post(server.port, &placeholder, "{}")).await;
    let head = server.heads.lock().unwrap()[0].clone();
    assert!(head.starts_with(&format!("POST /x?key={VALUE} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains(&format!("Authorization: Bearer {VALUE}\r\n")), "{head}");
    let events = format!("{:?}", lab.events.lock().unwrap());
    assert!(!events.contains(VALUE) && !events.contains(&placeholder), "{events}");
}

#[tokio::test]
async fn a_body_is_filled_only_where_the_endpoint_says_so() {
    let body = |placeholder: &str| format!(r#"{{"token":"{placeholder}"}}"#);
    let with_rewrite = format!("{REST}\n        request_body_credential_rewrite: true");
    let Bound { lab, server, placeholder } = bound(&with_rewrite).await;
    let answer =
        talk(lab.inspected(server.port).await, &post(server.port, &placeholder, &body(&placeholder))).await;
    assert!(answer.contains(r#"[{"token":"*************"}]"#), "{answer}");
    assert!(server.bodies.lock().unwrap()[0].contains(VALUE));

    let Bound { lab, server, placeholder } = bound(REST).await;
    let answer =
        talk(lab.inspected(server.port).await, &post(server.port, &placeholder, &body(&placeholder))).await;
    assert!(
        answer.contains("credential_injection_failed") && answer.contains("placeholders in the body"),
        "{answer}"
    );
    assert_eq!(lab.decisions(1).await, [Denied]);
    assert_eq!(lab.connections()[0].code, Some(crate::event::RefusalCode::CredentialInjectionFailed));
}

#[tokio::test]
async fn another_endpoint_gets_neither_value_nor_placeholder() {
    let mut config = LabConfig::new("");
    let server = server(Kind::Plain).await;
    let source = CredentialSource::fixed(Secret::new(VALUE.to_owned()));
    let credential = Credential {
        provider: "github".into(),
        key: "TOKEN".into(),
        source,
        endpoints: vec![],
        placements: authorization(),
        plain: false,
    };
    let store = CredentialStore::new(vec![credential]).unwrap();
    let placeholder = store.placeholders()[0].1.clone();
    config.credentials = Arc::new(store);
    config.policy = rule(server.port, "");
    let lab = start_lab(config).await;
    let port = server.port;
    let ask = |header: &str| {
        format!("GET http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\n{header}\r\n\r\n")
    };
    let answer = lab.raw(&ask(&format!("X-Key: {placeholder}"))).await;
    assert!(answer.contains("credential_endpoint_mismatch"), "{answer}");
    assert!(server.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_plain_rule_is_read_when_a_credential_is_bound_to_it() {
    let Bound { lab, server, placeholder } = bound_by_profile("").await;
    talk(lab.inspected(server.port).await, &post(server.port, &placeholder, "{}")).await;
    assert!(server.heads.lock().unwrap()[0].contains(VALUE));
}

#[tokio::test]
async fn other_protocols_on_such_a_rule_are_tunnelled() {
    let Bound { lab, server, .. } = bound_by_profile("").await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    // Not TLS, not HTTP: the server, which expects TLS, closes.
    talk(stream, "\0\x01\x02\x03").await;
    assert_eq!(lab.decisions(1).await, [crate::event::ConnectionDecision::Allowed]);
}

#[tokio::test]
async fn a_body_of_unknown_length_is_filled_and_a_compressed_one_refused() {
    let with_rewrite = format!("{REST}\n        request_body_credential_rewrite: true");
    let Bound { lab, server, placeholder } = bound(&with_rewrite).await;
    let head = |more: &str| {
        format!(
            "POST /x HTTP/1.1\r\nHost: api.test:{}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
             {more}Connection: close\r\n\r\n",
            server.port
        )
    };
    let (left, right) = placeholder.split_at(20);
    let chunks =
        format!("{:x}\r\n\"{left}\r\n{:x}\r\n{right}\"\r\n0\r\n\r\n", left.len() + 1, right.len() + 1);
    let answer = talk(lab.inspected(server.port).await, &(head("") + &chunks)).await;
    assert!(answer.contains("[\"*************\"]"), "{answer}");
    assert_eq!(server.bodies.lock().unwrap()[0], format!("\"{VALUE}\""));
    for encoding in ["gzip", "br", "identity, deflate"] {
        let more = format!("Content-Encoding: {encoding}\r\n");
        let answer = talk(lab.inspected(server.port).await, &(head(&more) + &chunks)).await;
        assert!(
            answer.contains("credential_injection_failed") && answer.contains("compressed body"),
            "{answer}"
        );
    }
    let large = "x".repeat(300 << 10);
    let chunks = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let answer = talk(lab.inspected(server.port).await, &(head("") + &chunks)).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("too large"), "{answer}");
    assert_eq!(server.heads.lock().unwrap().len(), 1);
}
