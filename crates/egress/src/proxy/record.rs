//! The record of one connection or request: filled in while it happens, emitted as one event when it is over, however it
//! ends.

use super::form_method::AuditedMethod;
use super::refusal::Refusal;
use crate::event::{
    ConnectionDecision, ConnectionEvent, EgressEvent, OnEvent, ProxyMode, RequestedOperation,
};
use crate::identity::IdentifiedCaller;
use policy::Operation;
use std::sync::Arc;
use std::time::Instant;

/// The longest method in an event; the client chooses it.
const MAX_METHOD: usize = 64;

/// Emits its event when it is dropped, so that nothing ends without one.
pub(super) struct ConnectionRecord {
    event: ConnectionEvent,
    started: Instant,
    on_event: OnEvent,
    discarded: bool,
    /// A method that the body names, if the endpoint only audits.
    in_body: Option<AuditedMethod>,
}

impl ConnectionRecord {
    pub(super) fn new(on_event: &OnEvent, via: ProxyMode, host: &str, port: u16) -> Self {
        let event = ConnectionEvent {
            via,
            host: host.to_owned(),
            port,
            method: None,
            path: None,
            operation: None,
            pid: None,
            binary: None,
            sha256: None,
            // The default until a decision replaces it: a connection that ends before did not pass.
            decision: ConnectionDecision::Failed,
            rule: None,
            code: None,
            reason: None,
            fix: None,
            status: None,
            bytes_out: 0,
            bytes_in: 0,
            duration_ms: 0,
        };
        Self {
            event,
            started: Instant::now(),
            on_event: Arc::clone(on_event),
            discarded: false,
            in_body: None,
        }
    }

    /// No event: other records cover it, such as those of the connection's requests.
    pub(super) fn discard(mut self) {
        self.discarded = true;
    }

    pub(super) fn set_caller(&mut self, caller: &IdentifiedCaller) {
        self.event.pid = Some(caller.pid);
        self.event.binary = Some(caller.program.path.clone());
        self.event.sha256 = Some(caller.program.sha256.to_string());
    }

    pub(super) fn destination(&mut self, host: &str, port: u16) {
        host.clone_into(&mut self.event.host);
        self.event.port = port;
    }

    pub(super) fn request(&mut self, method: &str, path: &str) {
        self.event.method = Some(method.chars().take(MAX_METHOD).collect());
        self.event.path = Some(path.to_owned());
    }

    pub(super) fn allowed(&mut self, rule: String) {
        self.event.decision = ConnectionDecision::Allowed;
        self.event.rule = Some(rule);
    }

    /// Let through by an endpoint that only audits.
    pub(super) fn audited(&mut self, refusal: &Refusal) {
        self.explain(refusal);
        self.event.decision = ConnectionDecision::Audited;
    }

    /// Audited if the body names such a method: it is read after the decision.
    pub(super) fn audit_by(&mut self, in_body: Option<&AuditedMethod>) {
        self.in_body = in_body.cloned();
    }

    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.explain(refusal);
        self.event.decision =
            if refusal.is_failure() { ConnectionDecision::Failed } else { ConnectionDecision::Denied };
        self.event.status = Some(refusal.sent_status());
    }

    /// The operations in the request's body.
    pub(super) fn operation(&mut self, operation: &Operation) {
        self.event.operation = RequestedOperation::of(operation).map(Box::new);
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
    pub(super) fn broken(&mut self, reason: String) {
        self.event.reason = Some(reason);
    }

    pub(super) fn add_bytes(&mut self, out: u64, inward: u64) {
        self.event.bytes_out += out;
        self.event.bytes_in += inward;
    }
}

impl Drop for ConnectionRecord {
    fn drop(&mut self) {
        if self.discarded {
            return;
        }
        let in_body = self.in_body.take();
        if let (ConnectionDecision::Allowed, Some(refusal)) =
            (self.event.decision, in_body.as_ref().and_then(|method| method.get()))
        {
            self.audited(refusal);
        }
        // This replaces an earlier decision: our own fault must not look like the server's.
        if std::thread::panicking() {
            self.event.decision = ConnectionDecision::Failed;
            self.event.reason = Some("the proxy's own task panicked".to_owned());
        }
        self.event.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        (self.on_event)(EgressEvent::Connection(self.event.clone()));
    }
}
