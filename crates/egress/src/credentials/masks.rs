//! The values of the run that must not come back in a response.

use super::Secret;
use policy::Host;
use redact::Redactor;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use zeroize::Zeroizing;

#[derive(Default)]
pub(super) struct ResponseMasks {
    known: RwLock<KnownSecrets>,
    /// The endpoints that have received a value.
    sent_to: Mutex<HashSet<(String, u16)>>,
}

#[derive(Default)]
struct KnownSecrets {
    values: Vec<Secret>,
    redactors: Option<ResponseRedactors>,
}

/// Finds the values in a response.
#[derive(Clone)]
pub(crate) struct ResponseRedactors {
    pub(crate) contents: Arc<Redactor>,
    /// The same for names of headers, which HTTP/2 writes in lower case.
    pub(crate) lower_case_names: Arc<Redactor>,
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
        let lower_case: Vec<Zeroizing<String>> =
            known.values.iter().map(|value| Zeroizing::new(value.reveal().to_ascii_lowercase())).collect();
        let contents = redactor(known.values.iter().map(Secret::reveal));
        let lower_case_names = redactor(lower_case.iter().map(|value| value.as_str()));
        known.redactors = contents
            .zip(lower_case_names)
            .map(|(contents, lower_case_names)| ResponseRedactors { contents, lower_case_names });
    }

    /// `None`: there is nothing to mask.
    pub(super) fn redactors(&self) -> Option<ResponseRedactors> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).redactors.clone()
    }

    pub(super) fn record_sent(&self, host: &Host, port: u16) {
        self.sent_to.lock().unwrap_or_else(PoisonError::into_inner).insert((host.to_string(), port));
    }

    pub(super) fn was_sent(&self, host: &Host, port: u16) -> bool {
        self.sent_to.lock().unwrap_or_else(PoisonError::into_inner).contains(&(host.to_string(), port))
    }
}

fn redactor<'v>(values: impl Iterator<Item = &'v str>) -> Option<Arc<Redactor>> {
    let named = values.map(|value| ("credential", value));
    Redactor::with_known(named).ok().map(|redactor| Arc::new(redactor.known_only()))
}
