//! Real clients against real TLS servers, from inside the real sandbox: what the policy allows arrives, what it denies
//! does not and is explained. Each client runs twice: with the proxy variables, and without them, when names resolve to
//! the sandbox's own addresses. The servers are in a network that the test makes for itself.

mod lab;
mod server;

use lab::{OptionalClient, Report, in_own_network, run};

/// Checks the output of a client for its two URLs.
fn open_and_closed(report: &Report, mode: &str, client: &str, version: &str) {
    let output = report.output(mode, client);
    assert!(output.contains(&format!("reached GET /open by {version}")), "{mode} {client}: {output}");
    assert!(output.contains("policy_denied") && output.contains("403"), "{mode} {client}: {output}");
}

/// A refused CONNECT fails in every program, and those that show its first line show the reason.
fn explained(refused: &str) {
    let why = "403 Forbidden by fullsend: elsewhere.lab.test:8443: no rule names this host and port";
    assert!(
        refused.contains("CONNECT tunnel failed, response 403") && refused.contains("curl ended with 56"),
        "{refused}"
    );
    for program in ["curl -v: ", "git: ", "python: "] {
        let shown = refused.lines().any(|line| line.starts_with(program) && line.contains(why));
        assert!(shown, "{program}: {refused}");
    }
    assert!(refused.contains("certificates: 1\n"), "{refused}");
}

fn check(report: &Report, via: &str, mode: &str) {
    open_and_closed(report, mode, "curl-h1", "HTTP/1.1");
    open_and_closed(report, mode, "curl-h2", "HTTP/2.0");
    open_and_closed(report, mode, "python", "HTTP/1.1");
    open_and_closed(report, mode, "node", "HTTP/1.1");
    if report.found.contains(&OptionalClient::Go) {
        open_and_closed(report, mode, "go", "HTTP/2.0");
    }
    if report.found.contains(&OptionalClient::Java) {
        open_and_closed(report, mode, "java", "HTTP/2.0");
    }
    let git = report.output(mode, "git");
    assert!(git.contains("cloned: first") && git.contains("pushed"), "{mode} {git}");
    assert!(git.contains("closed: refused") && git.contains("403"), "{mode} {git}");
    let events = report.output(mode, "events");
    assert!((1..=3).all(|number| events.contains(&format!("data: event {number}"))), "{mode} {events}");
    let plain = report.output(mode, "tunnel");
    assert!(
        plain.contains("reached GET /anything") && plain.contains("issuer: CN=lab authority"),
        "{mode} {plain}"
    );
    let websocket = report.output(mode, "websocket");
    assert!(websocket.contains("heard hello"), "{mode} {websocket}");
    assert!(websocket.contains("closed 1008") && websocket.contains("WEBSOCKET_TEXT"), "{mode} {websocket}");
    assert!(websocket.contains("403 Forbidden") && websocket.contains("policy_denied"), "{mode} {websocket}");
    let elsewhere = report.output(mode, "elsewhere");
    assert!(!elsewhere.contains("reached"), "{mode} {elsewhere}");
    if mode == "proxied" {
        explained(report.output(mode, "refused"));
    }
    // The proxy's events name the way and the program of each.
    for binary in ["curl", "python3", "git-remote-http"] {
        assert!(report.has_event(via, binary), "no event of {binary} by {via}");
    }
}

fn everything(who: crate::support::Who) {
    let Some(report) = run(who) else { return };
    check(&report, "connect", "proxied");
    check(&report, "direct", "unset");
    // Node's fetch and websockets do not use the proxy's port, and pass all the same.
    assert!(report.has_event("direct", "node"));
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
