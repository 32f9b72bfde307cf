//! Requests that fail and are tried again.

use super::*;
use std::time::Instant;

fn setup(seconds: u64) -> TestSetup {
    let until = Some(Instant::now() + Duration::from_secs(seconds));
    let retry = RetryLimits { until, ..RetryLimits::default() };
    let credential = Some("the provider `model`, ANTHROPIC_API_KEY".to_owned());
    TestSetup { retry, credential, ..TestSetup::default() }
}

fn retries(gateway: &TestGateway) -> Vec<(u32, Option<u16>, String)> {
    let events = gateway.events();
    let retry = |event: &ModelEvent| match event {
        ModelEvent::ModelRetry { attempt, status, reason, .. } => Some((*attempt, *status, reason.clone())),
        _ => None,
    };
    events.iter().filter_map(retry).collect()
}

#[test]
fn a_busy_upstream_is_asked_again_until_it_answers() {
    for status in [429, 502, 504, 529] {
        let scenario =
            json!({"turns": [[{"error": status, "message": "later", "times": 2}, {"text": "here"}]]});
        let gateway = gateway(&scenario, setup(60));
        gateway.ask(&request("go", true)).unwrap();
        let reason = format!("HTTP {status}, later");
        assert_eq!(retries(&gateway), [(1, Some(status), reason.clone()), (2, Some(status), reason)]);
        assert_eq!(gateway.gateway.unavailable(), None);
    }
}

#[test]
fn at_the_deadline_the_vendors_own_words_pass_and_nothing_else_is_sent() {
    let scenario = json!({"turns": [[{"error": 429, "message": "slow down", "times": 99}]]});
    let gateway = gateway(&scenario, setup(0));
    let error = gateway.ask(&request("go", true)).unwrap_err();
    assert!(
        matches!(&error, ClientError::Fault { status: 429, fault } if fault.message == "slow down"),
        "{error}"
    );
    assert_eq!(gateway.gateway.unavailable().as_deref(), Some("HTTP 429, slow down"));
    let next = gateway.ask(&request("again", true)).unwrap_err();
    assert!(next.to_string().contains("the model is not available: HTTP 429, slow down"), "{next}");
    assert!(!next.is_transient(), "no runtime tries again by itself");
    assert_eq!(gateway.bodies.lock().unwrap().len(), 1);
}

#[test]
fn a_refused_key_is_named_and_not_tried_again() {
    for status in [401, 403] {
        let scenario = json!({"turns": [[{"error": status, "message": "no", "times": 9}]]});
        let gateway = gateway(&scenario, setup(60));
        let error = gateway.ask(&request("go", true)).unwrap_err();
        assert!(matches!(&error, ClientError::Fault { status: found, .. } if *found == status), "{error}");
        assert_eq!(gateway.bodies.lock().unwrap().len(), 1);
        let named = gateway.events().into_iter().any(|event| {
            matches!(event, ModelEvent::CredentialRefused { status: found, credential, .. }
                if found == status && credential.contains("ANTHROPIC_API_KEY"))
        });
        assert!(named, "{status}");
    }
}

#[test]
fn many_requests_to_a_busy_upstream_wait_together() {
    let scenario = json!({"turns": [[{"error": 529, "times": 3}, {"text": "here"}]]});
    let gateway = gateway(&scenario, setup(60));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| gateway.ask(&request("go", true)).unwrap());
        }
    });
    let sent = gateway.bodies.lock().unwrap().len();
    assert!(sent <= 8 + 3 + 8, "{sent} requests: one goes first after each wait");
}
