//! Webhooks that the server sends: what happened to runs and sessions, in the form and with the signature of Standard
//! Webhooks. An event is queued on disk before it counts as reported, and a delivery stays queued until its receiver
//! took it, so that a restart loses none. A receiver can drop duplicates by their `webhook-id`.

mod deliveries;
mod events;
mod outbox;
mod sender;
mod webhook;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use self::outbox::OutboxError;

pub(super) use self::deliveries::{DeliveryList, RetriedDeliveries, RetryDeliveriesBody, list, retry};
use self::outbox::Outbox;
pub(super) use self::outbox::WebhookCounts;
use self::sender::Sender;
pub use self::webhook::{OutgoingWebhook, WebhookEventKind};
use super::Server;
use crate::event::log::sha256;
use crate::fetch::HostNetwork;

/// How often to check whether another server with the same outbox has ended.
const LOCK_PAUSE: Duration = Duration::from_secs(2);

/// The webhooks that a server sends, and what waits to be sent.
pub struct OutgoingWebhooks {
    webhooks: Vec<Arc<OutgoingWebhook>>,
    outbox: Arc<Outbox>,
    network: HostNetwork,
    /// The server that holds the lock on this file sends; another one with the same outbox waits.
    lock: File,
    sender: Arc<Sender>,
}

impl OutgoingWebhooks {
    /// Opens the outbox in the server's directory. `source` identifies the runs and the store that are reported.
    pub fn open(
        directory: &Path,
        source: &str,
        webhooks: Vec<OutgoingWebhook>,
        network: HostNetwork,
    ) -> Result<Self, OutboxError> {
        let digest = sha256(source.as_bytes());
        let name = digest.get(..16).unwrap_or(&digest);
        let path = directory.join(format!("outbox-{name}.sqlite3"));
        let outbox = Arc::new(Outbox::open(&path)?);
        let lock = File::options().create(true).append(true).open(path.with_extension("lock"));
        let lock = lock.map_err(OutboxError::Lock)?;
        let sender = Arc::new(Sender::new(Arc::clone(&outbox), directory));
        Ok(Self { webhooks: webhooks.into_iter().map(Arc::new).collect(), outbox, network, lock, sender })
    }

    fn wants(&self, kind: WebhookEventKind) -> bool {
        self.webhooks.iter().any(|webhook| webhook.events.contains(&kind))
    }

    /// The waiting and given-up deliveries, for each webhook.
    pub(super) fn counts(&self) -> Result<Vec<WebhookCounts>, OutboxError> {
        self.outbox.counts(&self.names())
    }

    fn names(&self) -> Vec<&str> {
        self.webhooks.iter().map(|webhook| webhook.name.as_str()).collect()
    }

    /// How many attempts ended with each result since the server started: webhook, result, number.
    pub(super) fn attempts(&self) -> Vec<(String, &'static str, u64)> {
        self.sender.attempts()
    }
}

/// Records existing events as known, and starts the threads that find and send events. They end with the process: a
/// delivery that was in progress is sent again.
pub fn start(server: &Arc<Server>) {
    let Some(outgoing) = &server.outgoing else { return };
    events::begin(server, outgoing);
    let server = Arc::clone(server);
    std::thread::spawn(move || work(&server));
}

fn work(server: &Server) {
    let Some(outgoing) = &server.outgoing else { return };
    while outgoing.lock.try_lock().is_err() {
        std::thread::sleep(LOCK_PAUSE);
    }
    outgoing.sender.log_problem(&outgoing.outbox.give_up_others(&outgoing.names()));
    for webhook in &outgoing.webhooks {
        let webhook = Arc::clone(webhook);
        let sender = Arc::clone(&outgoing.sender);
        let network = outgoing.network.clone();
        std::thread::spawn(move || sender.send_all(&webhook, network));
    }
    events::watch(server, outgoing);
}
