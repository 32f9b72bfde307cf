//! The values of the run that must not come back in a response.

use super::Secret;
use policy::Host;
use redact::Redactor;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

#[derive(Default)]
pub(super) struct ResponseMasks {
    known: RwLock<KnownSecrets>,
    /// The endpoints that have received a value.
    sent_to: Mutex<HashSet<(String, u16)>>,
}

#[derive(Default)]
struct KnownSecrets {
    values: Vec<Secret>,
    redactor: Option<Arc<Redactor>>,
}

impl ResponseMasks {
    /// Adds a value. A replaced one stays: it may still be valid.
    pub(super) fn learn(&self, value: &Secret) {
        let is_known = |known: &KnownSecrets| known.values.contains(value);
        // A shorter value cannot be masked without destroying ordinary text.
        if value.reveal().trim().len() < Redactor::MIN_KNOWN
            || is_known(&self.known.read().unwrap_or_else(PoisonError::into_inner))
        {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.values.push(value.clone());
        let named = known.values.iter().map(|value| ("credential", value.reveal()));
        known.redactor = Redactor::with_known(named).ok().map(|redactor| Arc::new(redactor.known_only()));
    }

    /// `None`: there is nothing to mask.
    pub(super) fn redactor(&self) -> Option<Arc<Redactor>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).redactor.clone()
    }

    pub(super) fn record_sent(&self, host: &Host, port: u16) {
        self.sent_to.lock().unwrap_or_else(PoisonError::into_inner).insert((host.to_string(), port));
    }

    pub(super) fn was_sent(&self, host: &Host, port: u16) -> bool {
        self.sent_to.lock().unwrap_or_else(PoisonError::into_inner).contains(&(host.to_string(), port))
    }
}
