//! Known attacks on other proxies, each shown to fail here.

use super::lab::{Kind, Lab, LabConfig, Server, Trust, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Denied, Failed};
use std::net::IpAddr;

const ENFORCED: &str = "        protocol: rest\n        enforcement: enforce\n        rules:\n          - allow: {method: \"*\", path: \"/open/**\"}\n        deny_rules:\n          - {method: \"*\", path: \"/open/secret\"}";

async fn inspecting() -> (Lab, Server) {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, ENFORCED);
    (start_lab(config).await, server)
}

#[tokio::test]
async fn smuggled_requests_never_arrive() {
    let (lab, server) = inspecting().await;
    let port = server.port;
    let heads = [
        "POST /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "GET /open/a HTTP/1.1\nHost: api.test:PORT\n\n",
        "GET /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nX: 1\r\n folded\r\n\r\n",
        "GET /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nX: \0\r\n\r\n",
        "GET http://api.test:PORT/open/a HTTP/1.1\r\nHost: api.test:PORT\r\n\r\n",
        "GET https://api.test:PORT/open/a HTTP/1.1\r\nHost: api.test:PORT\r\n\r\n",
        "CONNECT api.test:PORT HTTP/1.1\r\nHost: api.test:PORT\r\n\r\n",
        "GET /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /open/a HTTP/1.1\r\nHost: other.test\r\n\r\n",
        "GET /open/a HTTP/1.1\r\nHost: api.test:1\r\n\r\n",
        "GET /open/a HTTP/1.1\r\nHost: api.test:PORT\r\nHost: api.test:PORT\r\n\r\n",
        "GET /open/a HTTP/1.1\r\n\r\n",
    ];
    for head in heads {
        let head = head.replace("PORT", &port.to_string());
        let answer = talk(lab.inspected(port).await, &head).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains("malformed_request"),
            "{head:?}: {answer}"
        );
    }
    assert_eq!(lab.decisions(heads.len()).await, vec![Denied; heads.len()]);
    assert!(server.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_spelling_of_a_denied_path_is_denied() {
    let (lab, server) = inspecting().await;
    for path in [
        "/open/secret",
        "/open/%73ecret",
        "/open/x/../secret",
        "/open/./secret",
        "/open//secret",
        "/open/secret;a=b",
        "/open/%2e%2e/open/secret",
        "/open/x%2f..%2fsecret",
        "/closed",
        "/open/../closed",
        "/../open/a",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: api.test:{}\r\n\r\n", server.port);
        let answer = talk(lab.inspected(server.port).await, &head).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
    }
    assert!(server.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn upstream_gets_the_path_that_was_checked() {
    let (lab, server) = inspecting().await;
    let head = format!(
        "GET /open/a/%2e/b//c HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n\r\n",
        server.port
    );
    talk(lab.inspected(server.port).await, &head).await;
    assert!(server.heads.lock().unwrap()[0].starts_with("GET /open/a/b/c HTTP/1.1\r\n"));
}

#[tokio::test]
async fn another_server_name_within_the_tunnel_is_refused() {
    let (lab, server) = inspecting().await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    assert!(lab.tls(stream, Trust::Run, "other.test").await.is_err());
    assert_eq!(lab.decisions(1).await, [Denied]);
}

#[tokio::test]
async fn odd_authorities_are_refused_before_anything_is_looked_up() {
    let lab = start_lab(LabConfig::new(rule(443, ""))).await;
    for authority in [
        "api.test\0.evil:443",
        "evil@api.test:443",
        "api.test:443:443",
        "api.test%00:443",
        "api.test",
        "*:443",
    ] {
        let answer = lab.raw(&format!("CONNECT {authority} HTTP/1.1\r\nHost: api.test:443\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{authority:?}: {answer}");
    }
    let answer = lab.raw("GET http://api.test:443/ HTTP/1.1\r\nHost: other.test\r\n\r\n").await;
    assert!(answer.contains("not the host of the connection"), "{answer}");
    let answer = lab.raw("GET / HTTP/1.1\r\nHost: api.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(lab.dialled().is_empty());
}

#[tokio::test]
async fn bytes_behind_a_connect_are_not_taken_along() {
    let lab = start_lab(LabConfig::new(rule(443, ""))).await;
    let answer =
        lab.raw("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\nGET / HTTP/1.1\r\n\r\n").await;
    assert!(answer.contains("bytes follow a CONNECT"), "{answer}");
}

fn wildcard(port: u16) -> String {
    format!(
        "version: 1\nnetwork_policies:\n  wild:\n    endpoints:\n      - host: \"*.wild.test\"\n        port: {port}\n      - host: api.test\n        port: {port}\n    binaries:\n      - path: \"/**\"\n"
    )
}

#[tokio::test]
async fn names_that_lead_inside_are_refused_all_or_nothing() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    for (name, addresses, passes) in [
        ("x.wild.test", vec!["93.184.216.34"], true),
        ("x.wild.test", vec!["93.184.216.34", "10.0.0.1"], false),
        ("x.wild.test", vec!["10.0.0.1"], false),
        ("api.test", vec!["10.0.0.1"], true),
        ("api.test", vec!["10.0.0.1", "127.0.0.1"], false),
        ("api.test", vec!["169.254.169.254"], false),
        ("api.test", vec!["::ffff:169.254.169.254"], false),
        ("api.test", vec!["100.64.0.1"], true),
        ("api.test", vec!["100.100.100.200"], false),
        ("api.test", vec!["fd00::1"], true),
        ("api.test", vec!["fd00:ec2::254"], false),
        ("x.wild.test", vec!["100.64.0.1"], false),
        ("x.wild.test", vec!["fd00::1"], false),
        ("api.test", vec!["64:ff9b::a9fe:a9fe"], false),
        ("api.test", vec!["2002:7f00:1::"], false),
        ("api.test", vec!["0.0.0.0"], false),
    ] {
        let server = server(Kind::Plain).await;
        let mut config = LabConfig::new(wildcard(server.port));
        config.names = vec![(name, addresses.iter().map(|text| address(text)).collect())];
        let lab = start_lab(config).await;
        let outcome = lab.tunnel(&format!("{name}:{}", server.port)).await;
        assert_eq!(outcome.is_ok(), passes, "{name} {addresses:?}: {outcome:?}");
        let expected: Vec<IpAddr> = if passes { vec![address(addresses[0])] } else { vec![] };
        assert_eq!(lab.dialled(), expected, "the checked address is dialled, and no other");
        if let Err(answer) = outcome {
            assert!(answer.contains("address_denied") && !answer.contains("would_allow"), "{answer}");
        }
    }
}

#[tokio::test]
async fn addresses_in_any_spelling_are_what_they_are() {
    let lab = start_lab(LabConfig::new(rule(443, ""))).await;
    for authority in [
        "127.0.0.1:443",
        "2130706433:443",
        "0177.1:443",
        "0x7f000001:443",
        "[::1]:443",
        "[::ffff:7f00:1]:443",
        "169.254.169.254:443",
        "localhost:443",
    ] {
        let answer = lab.tunnel(authority).await.err().unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && !answer.contains("127.0.0.1\\n"),
            "{authority}: {answer}"
        );
    }
    assert!(
        lab.connections().iter().all(|connection| connection.host == "localhost" || connection.fix.is_none())
    );
    assert!(lab.dialled().is_empty());
}

#[tokio::test]
async fn garbage_and_slow_heads_end_alone() {
    let server = server(Kind::Plain).await;
    let lab = start_lab(LabConfig::new(rule(server.port, ""))).await;
    assert!(
        lab.raw("\x05\x01\0").await.is_empty()
            || lab.connections().iter().all(|it| it.decision != crate::event::ConnectionDecision::Allowed)
    );
    let slow = lab.raw("GET http://api.test/ HT").await;
    assert!(slow.contains("did not arrive in time"), "{slow}");
    let long = format!("GET http://api.test/{} HTTP/1.1\r\n\r\n", "a".repeat(40_000));
    assert!(lab.raw(&long).await.contains("larger than"));
    assert!(lab.tunnel(&format!("api.test:{}", server.port)).await.is_ok(), "others go on");
}

#[tokio::test]
async fn an_inspected_endpoint_carries_nothing_but_requests() {
    let (lab, server) = inspecting().await;
    let stream = lab.tunnel(&format!("api.test:{}", server.port)).await.unwrap();
    assert_eq!(talk(stream, "\0\x01\x02ssh").await, "");
    assert_eq!(lab.decisions(1).await, [Denied]);
    assert!(!matches!(lab.decisions(1).await[0], Failed));
}
