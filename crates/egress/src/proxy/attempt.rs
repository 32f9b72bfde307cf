//! One attempt to reach something, as it is told: filled in while it happens, said once when it is over, however that
//! comes about.

use super::refusal::Refusal;
use crate::event::{AttemptDecision, AttemptEvent, EgressEvent, OnEvent};
use crate::identity::Caller;
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// How the attempt reached the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// CONNECT, by the proxy variables.
    Connect,
    /// A plain request in absolute form, by the proxy variables.
    Forward,
    /// A connection to the address that stands for the host.
    Direct,
}

/// Says its event when it is dropped, so that no attempt ends untold.
pub(super) struct Attempt {
    event: AttemptEvent,
    started: Instant,
    on_event: OnEvent,
    dismissed: bool,
}

impl Attempt {
    /// Others tell what happened here: the requests of a connection that is read.
    pub(super) fn dismiss(mut self) {
        self.dismissed = true;
    }

    pub(super) fn new(on_event: &OnEvent, via: Via, host: &str, port: u16) -> Self {
        let event = AttemptEvent {
            via,
            host: host.to_owned(),
            port,
            method: None,
            path: None,
            pid: None,
            binary: None,
            sha256: None,
            // Until something says otherwise: an attempt that dies half-way did not pass.
            decision: AttemptDecision::Failed,
            rule: None,
            code: None,
            reason: None,
            fix: None,
            status: None,
            bytes_out: 0,
            bytes_in: 0,
            duration_ms: 0,
        };
        Self { event, started: Instant::now(), on_event: Arc::clone(on_event), dismissed: false }
    }

    pub(super) fn caller(&mut self, caller: &Caller) {
        self.event.pid = Some(caller.pid);
        self.event.binary = Some(caller.program.path.clone());
        self.event.sha256 = Some(caller.program.sha256.to_string());
    }

    pub(super) fn destination(&mut self, host: &str, port: u16) {
        host.clone_into(&mut self.event.host);
        self.event.port = port;
    }

    pub(super) fn request(&mut self, method: &str, path: &str) {
        self.event.method = Some(method.to_owned());
        self.event.path = Some(path.to_owned());
    }

    pub(super) fn allowed(&mut self, rule: String) {
        self.event.decision = AttemptDecision::Allowed;
        self.event.rule = Some(rule);
    }

    /// Let through by an endpoint that only audits.
    pub(super) fn audited(&mut self, refusal: &Refusal) {
        self.explain(refusal);
        self.event.decision = AttemptDecision::Audited;
    }

    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.explain(refusal);
        self.event.decision =
            if refusal.is_failure() { AttemptDecision::Failed } else { AttemptDecision::Denied };
        self.event.status = Some(refusal.status);
    }

    fn explain(&mut self, refusal: &Refusal) {
        self.event.code = Some(refusal.code);
        self.event.reason = Some(refusal.detail.clone());
        self.event.rule.clone_from(&refusal.rule);
        self.event.fix.clone_from(&refusal.fix);
    }

    pub(super) fn status(&mut self, status: u16) {
        self.event.status = Some(status);
    }

    /// It was let through and then broke.
    pub(super) fn broke(&mut self, reason: String) {
        self.event.reason = Some(reason);
    }

    pub(super) fn moved(&mut self, bytes_out: u64, bytes_in: u64) {
        self.event.bytes_out += bytes_out;
        self.event.bytes_in += bytes_in;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.dismissed {
            return;
        }
        // Whatever it had come to: our own fault must not look like the server's.
        if std::thread::panicking() {
            self.event.decision = AttemptDecision::Failed;
            self.event.reason = Some("the proxy's own task panicked".to_owned());
        }
        self.event.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        (self.on_event)(EgressEvent::Attempt(self.event.clone()));
    }
}
