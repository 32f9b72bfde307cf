//! The values that must never be seen, and what masks them. Values are only added: a credential that was fetched anew
//! does not make the old one harmless.

use std::sync::{Arc, PoisonError, RwLock};

use egress::credentials::Secret;
use redact::{Redactor, ValueTooShort};

/// Whether credentials are also recognised by their shape, in results of tools and in everything else. The values of
/// the run itself are masked in any case.
#[derive(Clone, Copy, Debug)]
pub struct Patterns {
    pub results: bool,
    pub written: bool,
}

pub struct KnownValues {
    patterns: Patterns,
    inner: RwLock<Inner>,
}

struct Inner {
    values: Vec<(String, Secret)>,
    results: Arc<Redactor>,
    written: Arc<Redactor>,
}

impl KnownValues {
    pub fn new(patterns: Patterns) -> Self {
        let (results, written) =
            (shaped(Redactor::new(), patterns.results), shaped(Redactor::new(), patterns.written));
        Self { patterns, inner: RwLock::new(Inner { values: Vec::new(), results, written }) }
    }

    /// From here on this value is seen nowhere.
    pub fn learn(&self, name: &str, value: &str) -> Result<(), ValueTooShort> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.values.iter().any(|(_, known)| known.reveal() == value) {
            return Ok(());
        }
        let redactor = |patterns: bool| {
            let old = inner.values.iter().map(|(name, value)| (name.as_str(), value.reveal()));
            Redactor::with_known(old.chain([(name, value)])).map(|redactor| shaped(redactor, patterns))
        };
        let (results, written) = (redactor(self.patterns.results)?, redactor(self.patterns.written)?);
        (inner.results, inner.written) = (results, written);
        inner.values.push((name.to_owned(), Secret::new(value.to_owned())));
        Ok(())
    }

    /// Masks the values that were learned, and nothing by its shape.
    pub fn values_only(&self) -> Result<Redactor, ValueTooShort> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let values = inner.values.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        Redactor::with_known(values).map(Redactor::known_only)
    }

    /// Masks in tools' results.
    pub fn results(&self) -> Arc<Redactor> {
        Arc::clone(&self.inner.read().unwrap_or_else(PoisonError::into_inner).results)
    }

    /// Masks in everything else.
    pub fn written(&self) -> Arc<Redactor> {
        Arc::clone(&self.inner.read().unwrap_or_else(PoisonError::into_inner).written)
    }
}

fn shaped(redactor: Redactor, patterns: bool) -> Arc<Redactor> {
    Arc::new(if patterns { redactor } else { redactor.known_only() })
}
