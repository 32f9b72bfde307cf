//! Sends a request until the upstream accepts it. Rate limits, overload, server errors, resets and unreachable hosts are retried,
//! for every runtime alike, until the retry time is over (`RetryLimits`). The last answer of the vendor passes unchanged.

use super::Gateway;
use super::ledger::Reservation;
use crate::event::ModelEvent;
use crate::upstream::request::UpstreamRequest;
use crate::upstream::{UpstreamError, UpstreamResponse};
use crate::wire::codec;
use crate::wire::fault::{Fault, FaultKind};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;

/// How long requests are retried.
#[derive(Debug, Clone, Copy)]
pub struct RetryLimits {
    /// `None`: no retries.
    pub until: Option<Instant>,
    /// For one request.
    pub request_time: Duration,
    /// How many tries a host gets that has never answered: its address may be wrong.
    pub first_contact_tries: u32,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self { until: None, request_time: Duration::MAX, first_contact_tries: 4 }
    }
}

/// The first words of an error's body are enough to say what it is.
const MAX_ERROR_BYTES: usize = 64 << 10;
const ERROR_TIME: Duration = Duration::from_secs(10);

type SendOutcome = Result<UpstreamResponse, UpstreamError>;

/// Why a request may succeed later.
struct Failure {
    /// `None`: there was no answer.
    status: Option<u16>,
    reason: String,
    /// Whether the upstream asks everyone to wait.
    is_busy: bool,
    retry_after: Option<Duration>,
}

/// Why there is no response.
pub(super) enum SendError {
    /// Nothing is billed.
    Refused(Fault),
    /// The request was taken, and no answer came.
    Unanswered(Fault),
    /// Another model may serve it. Contains the reason.
    UseFallback(Fault, String),
}

/// How many times a model with a fallback is tried.
const TRIES_BEFORE_FALLBACK: u32 = 3;

pub(super) struct SendAttempts<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) exchange: u64,
    pub(super) outgoing: UpstreamRequest<'a>,
    /// Ends when the client has gone.
    pub(super) client: &'a mut oneshot::Receiver<()>,
    /// Another model can be asked.
    pub(super) has_fallback: bool,
}

impl SendAttempts<'_> {
    pub(super) async fn send(self, reservation: &mut Reservation) -> Result<UpstreamResponse, SendError> {
        let give_up = self.give_up();
        let backoff = self.gateway.backoff_of(&self.outgoing.request.model);
        let mut tries = 0;
        loop {
            let permit = tokio::select! {
                permit = backoff.wait() => permit,
                _ = &mut *self.client => return Err(client_gone()),
            };
            reservation.mark_sent();
            let sent = self.once().await?;
            tries += 1;
            let (sent, failure) = self.judge(sent).await;
            let Some(failure) = failure else {
                permit.report_not_busy();
                self.gateway.mark_upstream_answered();
                return self.finish(sent).await.map_err(SendError::Refused);
            };
            let wait = if failure.is_busy {
                permit.report_busy(failure.retry_after)
            } else {
                permit.report_not_busy();
                self.gateway.limits.backoff.wait_after(tries)
            };
            if failure.status.is_some() {
                self.gateway.mark_upstream_answered();
            }
            let too_late = give_up.is_none_or(|until| Instant::now() + wait > until);
            if self.has_fallback && (too_late || tries >= TRIES_BEFORE_FALLBACK) {
                let fault = Fault::new(FaultKind::Overloaded, failure.reason.clone());
                return Err(SendError::UseFallback(fault, failure.reason));
            }
            let hopeless =
                !self.gateway.has_upstream_answered() && tries >= self.gateway.retry.first_contact_tries;
            if too_late || hopeless {
                if give_up.is_some() {
                    self.gateway.mark_unavailable(&failure.reason);
                }
                return self.finish(sent).await.map_err(SendError::Refused);
            }
            self.gateway.emit(ModelEvent::ModelRetry {
                exchange: self.exchange,
                attempt: tries,
                status: failure.status,
                reason: failure.reason,
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = &mut *self.client => return Err(client_gone()),
            }
        }
    }

    fn give_up(&self) -> Option<Instant> {
        let now = Instant::now();
        let own = now.checked_add(self.gateway.retry.request_time);
        self.gateway.retry.until.map(|until| own.map_or(until, |own| own.min(until)))
    }

    async fn once(&self) -> Result<SendOutcome, SendError> {
        let sending = self.gateway.upstream.send(self.outgoing);
        tokio::time::timeout(self.gateway.limits.answer_idle, sending)
            .await
            .map_err(|_| Fault::new(FaultKind::Timeout, "the model did not answer in time"))
            .map_err(SendError::Unanswered)
    }

    /// Whether a later try may succeed. The body of an error is read for its reason, and kept.
    async fn judge(&self, sent: SendOutcome) -> (SendOutcome, Option<Failure>) {
        match sent {
            Err(error) => {
                let failure = error.is_transient().then(|| Failure {
                    status: None,
                    reason: error.to_string(),
                    is_busy: false,
                    retry_after: None,
                });
                (Err(error), failure)
            }
            Ok(response) if !matches!(response.status, 429 | 500 | 502 | 503 | 504 | 529) => {
                (Ok(response), None)
            }
            Ok(response) => {
                let status = response.status;
                let retry_after = response.retry_after(SystemTime::now());
                let (response, bytes) = response.with_whole_body(MAX_ERROR_BYTES, ERROR_TIME).await;
                let said = codec::read_fault(self.outgoing.wire, status, &bytes).message;
                let failure = Failure {
                    status: Some(status),
                    reason: format!("HTTP {status}, {}", bounded(&said)),
                    is_busy: matches!(status, 429 | 503 | 529),
                    retry_after,
                };
                (Ok(response), Some(failure))
            }
        }
    }

    async fn finish(&self, sent: SendOutcome) -> Result<UpstreamResponse, Fault> {
        match sent {
            Err(UpstreamError::NotRecorded(reason)) => {
                // A retry would not help. The run ends here; every later request gets the same reason.
                self.gateway.stop(&reason);
                Err(Fault::new(FaultKind::Permission, format!("fullsend: {reason}")))
            }
            Err(error @ UpstreamError::Untranslated(_)) => {
                Err(Fault::new(FaultKind::InvalidRequest, error.to_string()))
            }
            Err(error @ (UpstreamError::Token(_) | UpstreamError::Credential(_)))
                if !error.is_transient() =>
            {
                // A runtime asks again after other errors, and would not get another answer.
                self.gateway.mark_credential_missing();
                Err(Fault::new(FaultKind::Authentication, error.to_string()))
            }
            Err(error) => Err(Fault::new(FaultKind::Upstream, error.to_string())),
            Ok(response) => {
                if matches!(response.status, 401 | 403) {
                    self.gateway.mark_credential_refused(self.exchange, response.status);
                }
                if !matches!(response.status, 400 | 413) {
                    return Ok(response);
                }
                let status = response.status;
                let (response, bytes) = response.with_whole_body(MAX_ERROR_BYTES, ERROR_TIME).await;
                if codec::is_too_long(status, &bytes) {
                    let said = codec::read_fault(self.outgoing.wire, status, &bytes).message;
                    self.gateway.mark_too_long(self.exchange, &self.outgoing.request.model, &bounded(&said));
                }
                Ok(response)
            }
        }
    }
}

fn bounded(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

fn client_gone() -> SendError {
    SendError::Refused(Fault::new(FaultKind::Timeout, "the client has gone"))
}
