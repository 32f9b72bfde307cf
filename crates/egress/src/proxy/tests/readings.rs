//! Requests that a server may interpret differently from the proxy: none of them gets more than the rules allow.

use super::http2::{ask, asked, connected, http2_server};
use super::lab::{Kind, LabConfig, rule, server, start_lab, talk};
use crate::event::ConnectionDecision::{Allowed, Audited, Denied};

const RULES: &str = "        protocol: rest\n        enforcement: enforce\n        deny_rules:\n          - {method: GET, path: \"/open/x/secret\"}\n        rules:\n          - allow: {method: OPTIONS, path: \"/open/**\"}\n          - allow: {method: GET, path: \"/open/**\"}\n          - allow: {method: POST, path: \"/open/**\"}";

/// Sends one request through a connection that is read, and says whether it arrived.
async fn arrives(request: &str) -> bool {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, RULES);
    let lab = start_lab(config).await;
    let request =
        request.replacen("HOST", &format!("Host: api.test:{}\r\nConnection: close", server.port), 1);
    let answer = talk(lab.inspected(server.port).await, &request).await;
    let decision = lab.decisions(1).await[0];
    let arrived = !server.heads.lock().unwrap().is_empty();
    assert_eq!(arrived, decision == Allowed, "{request}: {answer}");
    assert_eq!(!arrived, decision == Denied, "{request}: {answer}");
    arrived
}

#[tokio::test]
async fn a_body_is_not_taken_for_another_request() {
    let smuggled = "DELETE /secret HTTP/1.1\r\nHost: api.test\r\n\r\n";
    for method in ["GET", "HEAD", "OPTIONS"] {
        let length = smuggled.len();
        assert!(
            !arrives(&format!(
                "{method} /open/a HTTP/1.1\r\nHOST\r\nContent-Length: {length}\r\n\r\n{smuggled}"
            ))
            .await
        );
        let chunk = format!("{length:x}\r\n{smuggled}\r\n0\r\n\r\n");
        assert!(
            !arrives(&format!(
                "{method} /open/a HTTP/1.1\r\nHOST\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"
            ))
            .await
        );
    }
    assert!(arrives("GET /open/a HTTP/1.1\r\nHOST\r\nContent-Length: 0\r\n\r\n").await);
    assert!(arrives("POST /open/a HTTP/1.1\r\nHOST\r\nContent-Length: 2\r\n\r\nhi").await);
}

#[tokio::test]
async fn a_path_that_is_encoded_twice_is_decided_as_it_would_be_decoded() {
    for path in [
        "/open/%252e%252e/secret",
        "/open/..%252fsecret",
        "/open/%252e%252e%255csecret",
        "/open/%25252e%25252e/secret",
        "/open/%25252525252e%252e/secret",
        "/open/a%2500",
        "/open/x/secret",
        "/open/x%5csecret",
        "/open/x\\secret",
        "/open/x/%255csecret",
        "/open/%c0%ae%c0%ae/secret",
        "/open/%252e%252e;/secret",
        "/open/%252e%252e%252f%252e%252e%252fsecret",
    ] {
        assert!(!arrives(&format!("GET {path} HTTP/1.1\r\nHOST\r\n\r\n")).await, "{path}");
    }
    for path in ["/open/100%25", "/open/feature%252Fbranch", "/open/a%20b"] {
        assert!(arrives(&format!("GET {path} HTTP/1.1\r\nHOST\r\n\r\n")).await, "{path}");
    }
}

#[tokio::test]
async fn a_path_in_a_header_is_refused() {
    for header in [
        "X-Original-URL",
        "x-rewrite-url",
        "X-Original-URI",
        "X-Override-URL",
        "X_Original_URL",
        "X-Rewrite-Path",
        "X-Envoy-Original-Path",
        "X-Forwarded-Uri",
        "X-Forwarded-Prefix",
        "X-HTTP-DestinationURL",
    ] {
        assert!(
            !arrives(&format!("GET /open/a HTTP/1.1\r\nHOST\r\n{header}: /secret\r\n\r\n")).await,
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_replaced_method_is_decided_too() {
    for header in [
        "X-HTTP-Method-Override",
        "x-http-method",
        "X-Method-Override",
        "X_HTTP_METHOD_OVERRIDE",
        "X-HTTP_Method-Override",
        "HTTP-Method-Override",
        "_method",
        "X-Override-Method",
    ] {
        for method in ["DELETE", "delete", " PUT ", "x y", "\"DELETE\""] {
            let request =
                format!("POST /open/a HTTP/1.1\r\nHOST\r\n{header}: {method}\r\nContent-Length: 0\r\n\r\n");
            assert!(!arrives(&request).await, "{header}: {method}");
        }
        let request = format!("POST /open/a HTTP/1.1\r\nHOST\r\n{header}: GET\r\nContent-Length: 0\r\n\r\n");
        assert!(arrives(&request).await, "{header}: a method that is allowed");
    }
    for query in [
        "_method=DELETE",
        "a=b&_method=delete",
        "%5Fmethod=DELETE",
        "_METHOD=DELETE",
        "x-http-method-override=PUT",
        "_Method=DELETE",
        "X_HTTP_Method_Override=DELETE",
        "x-HTTP-Method=DELETE",
        "a=b;_method=DELETE",
        ".method=DELETE",
        "_method[]=DELETE",
    ] {
        let request = format!("POST /open/a?{query} HTTP/1.1\r\nHOST\r\nContent-Length: 0\r\n\r\n");
        assert!(!arrives(&request).await, "{query}");
    }
    assert!(arrives("POST /open/a?_method=POST HTTP/1.1\r\nHOST\r\nContent-Length: 0\r\n\r\n").await);
}

#[tokio::test]
async fn a_method_in_a_body_is_decided_too() {
    let post = |fields: &str, body: &str| {
        let length = body.len();
        format!("POST /open/a HTTP/1.1\r\nHOST\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
    };
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let parts = "Content-Type: multipart/form-data; boundary=b\r\n";
    let json = "Content-Type: application/json\r\n";
    let part = |method: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\n{method}\r\n--b--\r\n")
    };
    let gzip = format!("{form}Content-Encoding: gzip\r\n");
    for (fields, body) in [
        (form, "a=b&_method=DELETE"),
        ("", "_method=DELETE"),
        (parts, &part("DELETE")),
        (json, r#"{"_method":"DELETE"}"#),
        (&gzip, "anything"),
    ] {
        assert!(!arrives(&post(fields, body)).await, "{fields}{body}");
    }
    for (fields, body) in [
        (form, "a=b&_method=OPTIONS"),
        (parts, &part("post")),
        (json, r#"{"a":"_method","b":{"_method":"DELETE"}}"#),
        ("Content-Type: application/octet-stream\r\n", "_method=DELETE"),
    ] {
        assert!(arrives(&post(fields, body)).await, "{fields}{body}");
    }
    let chunks = "7\r\n_method\r\n4\r\n=DEL\r\n3\r\nETE\r\n0\r\n\r\n";
    let request =
        format!("POST /open/a HTTP/1.1\r\nHOST\r\n{form}Transfer-Encoding: chunked\r\n\r\n{chunks}");
    assert!(!completes(&request).await, "in chunks");
}

/// The request passes, and the record shows which method its server may read.
#[tokio::test]
async fn a_method_in_a_body_is_recorded_where_the_endpoint_audits() {
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let gzip = format!("{form}Content-Encoding: gzip\r\n");
    for (fields, body, decision, reason) in [
        (form, "a=b&_method=DELETE", Audited, "replaces the method"),
        ("Content-Type: application/json\r\n", r#"{"_method":"DELETE"}"#, Audited, "replaces the method"),
        (&gzip, "anything", Audited, "encoded with gzip"),
        (form, "a=b&_method=get", Allowed, ""),
        (form, "a=b", Allowed, ""),
    ] {
        let mut config = LabConfig::new("");
        let server = server(Kind::Tls(config.vendor.clone())).await;
        config.policy = rule(server.port, &RULES.replace("enforcement: enforce", "enforcement: audit"));
        let lab = start_lab(config).await;
        let request = format!(
            "POST /open/a HTTP/1.1\r\nHost: api.test:{}\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            server.port,
            body.len()
        );
        let answer = talk(lab.inspected(server.port).await, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{body}: {answer}");
        assert_eq!(lab.decisions(1).await, [decision], "{body}");
        let said = lab.connections()[0].reason.clone().unwrap_or_default();
        assert!(said.contains(reason), "{body}: {said}");
    }
}

/// Whether the server gets the whole request, of which it may have seen the start.
async fn completes(request: &str) -> bool {
    let mut config = LabConfig::new("");
    let server = server(Kind::Tls(config.vendor.clone())).await;
    config.policy = rule(server.port, RULES);
    let lab = start_lab(config).await;
    let host = format!("Host: api.test:{}\r\nConnection: close", server.port);
    let answer = talk(lab.inspected(server.port).await, &request.replacen("HOST", &host, 1)).await;
    assert_eq!(lab.decisions(1).await, [Denied], "{answer}");
    answer.starts_with("HTTP/1.1 200 ")
}

#[tokio::test]
async fn a_method_in_a_body_is_decided_in_http2() {
    let mut config = LabConfig::new("");
    let (port, _) = http2_server(&config).await;
    config.policy = rule(port, RULES);
    let lab = start_lab(config).await;
    let mut sender = connected(&lab, port).await;
    for (body, status) in [("a=b&_method=DELETE", 403), ("a=b&_method=get", 200)] {
        let mut request = asked("POST", &format!("https://api.test:{port}/open/a"), body);
        let form = "application/x-www-form-urlencoded".parse().unwrap();
        request.headers_mut().insert("content-type", form);
        let (found, answer) = ask(&mut sender, request).await;
        assert_eq!(found, status, "{body}: {answer}");
    }
}
