//! A webhook that the server sends, as the file of `--webhooks` describes it, and the events that it can report.

use std::time::Duration;

use yaml::choice;

use crate::fetch::WebAddress;

choice! {
    /// What a webhook reports.
    pub enum WebhookEventKind {
        /// A run ended.
        RunFinished = "run.finished",
        /// A session asks a person for an answer or a confirmation.
        SessionRequiresAction = "session.requires_action",
        /// A session gave up an input.
        SessionDeadLetter = "session.dead_letter",
        /// A session accepts nothing more.
        SessionTerminated = "session.terminated",
    }
}

/// A webhook that the server sends.
pub struct OutgoingWebhook {
    /// Its name in lists, logs and metrics. They never show its address, whose path may be a secret.
    pub name: String,
    pub address: WebAddress,
    /// `whsec_` and the key in base64.
    pub secret: String,
    pub events: Vec<WebhookEventKind>,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
}
