//! Sends deliveries to outgoing webhooks. Each webhook has one sender thread, which sends one delivery at a time. Every attempt has
//! its own signature, a deadline, and a line in `deliveries.jsonl`. Lines name the webhook, never its address or its secret.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderName;
use serde_json::json;

use super::outbox::{FailedAttempt, Outbox, OutboxError, QueuedDelivery};
use super::webhook::OutgoingWebhook;
use crate::event::clock::Moment;
use crate::fetch::{FetchError, FetchRequest, Fetcher, HostNetwork, Post};
use crate::serve::action_log::ActionLog;
use crate::serve::signature;

/// The pauses between the attempts of a delivery: ten attempts in 28 hours.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(5 * 3600),
    Duration::from_secs(10 * 3600),
    Duration::from_secs(10 * 3600),
];

/// The pause after an error of the outbox.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// How an attempt ended.
struct SendResult {
    status: Option<u16>,
    /// `None`: the receiver accepted it.
    problem: Option<String>,
    /// Another attempt would end in the same way.
    is_final: bool,
}

pub(super) struct Sender {
    outbox: Arc<Outbox>,
    log: ActionLog,
    attempts: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// The last problem of the outbox or a source, so that one that lasts is logged once.
    last_problem: Mutex<String>,
}

impl Sender {
    pub(super) fn new(outbox: Arc<Outbox>, directory: &Path) -> Self {
        let log = ActionLog::new(directory, "deliveries.jsonl");
        Self { outbox, log, attempts: Mutex::default(), last_problem: Mutex::default() }
    }

    fn counters(&self) -> MutexGuard<'_, BTreeMap<(String, &'static str), u64>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attempts(&self) -> Vec<(String, &'static str, u64)> {
        self.counters().iter().map(|((webhook, result), count)| (webhook.clone(), *result, *count)).collect()
    }

    /// Logs a problem, but not again while it stays the same.
    pub(super) fn log_problem<E: std::fmt::Display>(&self, done: &Result<(), E>) {
        let Err(error) = done else { return };
        let problem = error.to_string();
        let mut last = self.last_problem.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != problem {
            self.log.append(&json!({ "time": Moment::now().rfc3339(), "problem": problem }));
            *last = problem;
        }
    }

    /// Sends until the process ends.
    pub(super) fn send_all(&self, webhook: &OutgoingWebhook, network: HostNetwork) {
        let fetcher = match Fetcher::new(network) {
            Ok(fetcher) => fetcher,
            Err(error) => return self.log_problem(&Err(error)),
        };
        loop {
            let attempted = self.outbox.wait_for_due(&webhook.name).map(|delivery| {
                let result = attempt(&fetcher, webhook, &delivery);
                (delivery, result)
            });
            match attempted {
                Ok((delivery, result)) => self.store_result_until_stored(webhook, &delivery, &result),
                Err(error) => {
                    self.log_problem(&Err(error));
                    std::thread::sleep(ERROR_PAUSE);
                }
            }
        }
    }

    /// Retries until the result is stored. Otherwise a full disk would cause the delivery to be sent twice.
    fn store_result_until_stored(
        &self,
        webhook: &OutgoingWebhook,
        delivery: &QueuedDelivery,
        result: &SendResult,
    ) {
        loop {
            let settled = self.store_result(webhook, delivery, result);
            if settled.is_ok() {
                return;
            }
            self.log_problem(&settled);
            std::thread::sleep(ERROR_PAUSE);
        }
    }

    fn store_result(
        &self,
        webhook: &OutgoingWebhook,
        delivery: &QueuedDelivery,
        result: &SendResult,
    ) -> Result<(), OutboxError> {
        let attempts = delivery.attempts + 1;
        let SendResult { status, problem, is_final } = result;
        let mut line = json!({
            "time": Moment::now().rfc3339(), "webhook": webhook.name, "delivery": delivery.id, "type": delivery.kind,
            "attempt": attempts, "status": status,
        });
        let word = match problem {
            None => {
                self.outbox.remove(delivery.number)?;
                "delivered"
            }
            Some(problem) => {
                let problem = problem.clone();
                let pause = next_pause(attempts).filter(|_| !is_final);
                let due = pause.map(|pause| Moment::now().millis().saturating_add(as_millis(pause)));
                line["problem"] = problem.as_str().into();
                line["next"] = due.map(|due| Moment::from_millis(due).rfc3339()).into();
                let due_ms = due.and_then(|due| i64::try_from(due).ok());
                self.outbox
                    .fail(delivery.number, &FailedAttempt { attempts, due_ms, status: *status, problem })?;
                if due_ms.is_some() { "failed" } else { "given_up" }
            }
        };
        line["result"] = word.into();
        self.log.append(&line);
        *self.counters().entry((webhook.name.clone(), word)).or_default() += 1;
        Ok(())
    }
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `None`: this was the last attempt, and the delivery is given up.
fn next_pause(attempts: u32) -> Option<Duration> {
    PAUSES.get(usize::try_from(attempts).ok()?.checked_sub(1)?).copied()
}

fn attempt(fetcher: &Fetcher, webhook: &OutgoingWebhook, delivery: &QueuedDelivery) -> SendResult {
    let timestamp = (Moment::now().millis() / 1000).to_string();
    let body = delivery.body.as_bytes();
    let Some(signature) = signature::sign_standard(&webhook.secret, &delivery.id, &timestamp, body) else {
        let problem = Some("the secret is not valid".to_owned());
        return SendResult { status: None, problem, is_final: false };
    };
    let headers = [
        (HeaderName::from_static("webhook-id"), delivery.id.clone()),
        (HeaderName::from_static("webhook-timestamp"), timestamp),
        (HeaderName::from_static("webhook-signature"), signature),
    ];
    // The body of the answer is not read: a slow one would block the sender.
    let answer = fetcher.send(&FetchRequest {
        headers: &headers,
        post: Some(Post { content_type: "application/json", bytes: body }),
        timeout: webhook.timeout,
        ..FetchRequest::new(&webhook.address)
    });
    match answer.map(|answer| answer.status) {
        Ok(status) if status.is_success() => {
            SendResult { status: Some(status.as_u16()), problem: None, is_final: false }
        }
        Ok(status) => SendResult {
            status: Some(status.as_u16()),
            problem: Some(format!("the receiver answered with status {}", status.as_u16())),
            is_final: status == StatusCode::GONE,
        },
        Err(error) => SendResult {
            status: None,
            problem: Some(describe_error(&error, webhook.timeout)),
            is_final: false,
        },
    }
}

/// What went wrong, without the path of the address.
fn describe_error(error: &FetchError, timeout: Duration) -> String {
    match error {
        FetchError::Timeout { .. } => format!("no answer within {} seconds", timeout.as_secs()),
        FetchError::Refused { why, .. } => format!("requests to this address are not allowed: {why}"),
        FetchError::Dial(error) => error.to_string(),
        FetchError::Http(_) => "the connection broke off".to_owned(),
        _ => "the address cannot be used".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_ten_times_with_longer_pauses() {
        assert_eq!(next_pause(1), Some(Duration::from_secs(1)));
        assert!(PAUSES.is_sorted());
        assert_eq!(next_pause(9), Some(Duration::from_secs(36_000)));
        assert_eq!(next_pause(10), None);
    }

    #[test]
    fn problems_do_not_show_the_path_of_an_address() {
        let address = || "https://a.example/services/secret".to_owned();
        for error in [
            FetchError::Timeout { address: address() },
            FetchError::Refused { address: address(), why: "10.0.0.1 is a private address".to_owned() },
            FetchError::Plain { address: address() },
            FetchError::Address { why: address() },
        ] {
            let shown = describe_error(&error, Duration::from_secs(10));
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}
