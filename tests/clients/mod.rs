//! Real clients against real TLS servers, from inside the real sandbox: what the policy allows arrives, what it refuses
//! does not and is explained, each twice: through the proxy variables, and with them unset, when names lead to the
//! addresses that stand for them. The servers are on addresses of a network that the test makes for itself.

mod lab;
mod server;

use lab::{Found, Report, in_own_network, run};

/// What a client prints for the two URLs that it is given.
fn open_and_closed(report: &Report, mode: &str, client: &str, version: &str) {
    let said = report.said(mode, client);
    assert!(said.contains(&format!("reached GET /open by {version}")), "{mode} {client}: {said}");
    assert!(said.contains("policy_denied") && said.contains("403"), "{mode} {client}: {said}");
}

fn check(report: &Report, via: &str, mode: &str) {
    open_and_closed(report, mode, "curl-h1", "HTTP/1.1");
    open_and_closed(report, mode, "curl-h2", "HTTP/2.0");
    open_and_closed(report, mode, "python", "HTTP/1.1");
    open_and_closed(report, mode, "node", "HTTP/1.1");
    if report.found.contains(&Found::Go) {
        open_and_closed(report, mode, "go", "HTTP/2.0");
    }
    if report.found.contains(&Found::Java) {
        open_and_closed(report, mode, "java", "HTTP/2.0");
    }
    let git = report.said(mode, "git");
    assert!(git.contains("cloned: first") && git.contains("pushed"), "{mode} {git}");
    assert!(git.contains("closed: refused") && git.contains("403"), "{mode} {git}");
    let events = report.said(mode, "events");
    assert!((1..=3).all(|number| events.contains(&format!("data: event {number}"))), "{mode} {events}");
    let plain = report.said(mode, "tunnel");
    assert!(
        plain.contains("reached GET /anything") && plain.contains("issuer: CN=lab authority"),
        "{mode} {plain}"
    );
    let websocket = report.said(mode, "websocket");
    assert!(websocket.contains("heard hello"), "{mode} {websocket}");
    assert!(websocket.contains("closed 1008") && websocket.contains("WEBSOCKET_TEXT"), "{mode} {websocket}");
    assert!(websocket.contains("403 Forbidden") && websocket.contains("policy_denied"), "{mode} {websocket}");
    let elsewhere = report.said(mode, "elsewhere");
    assert!(!elsewhere.contains("reached"), "{mode} {elsewhere}");
    // The proxy saw each of them come this way, and which program it was.
    for binary in ["curl", "python3", "git-remote-http"] {
        assert!(report.came(via, binary), "no {binary} came by {via}");
    }
}

fn everything(who: crate::support::Who) {
    let Some(report) = run(who) else { return };
    check(&report, "connect", "proxied");
    check(&report, "direct", "unset");
    // Node's fetch and websockets know no proxy, and pass all the same.
    assert!(report.came("direct", "node"));
    let arrived = report.arrived();
    assert!(arrived.iter().any(|request| request == "text hello"));
    assert!(
        !arrived.iter().any(|request| request.contains("closed")),
        "a refused request arrived: {arrived:?}"
    );
    assert_eq!(arrived.iter().filter(|request| request.contains("/ws/quiet")).count(), 2);
}

#[test]
fn real_clients_are_served_as_root() {
    in_own_network("clients::inside_as_the_caller");
}

#[test]
fn real_clients_are_served_as_an_ordinary_user() {
    in_own_network("clients::inside_as_a_user");
}

#[test]
#[ignore = "started by the tests above, in a network of its own"]
fn inside_as_the_caller() {
    everything(crate::support::Who::Caller);
}

#[test]
#[ignore = "started by the tests above, in a network of its own"]
fn inside_as_a_user() {
    everything(crate::support::Who::User);
}
