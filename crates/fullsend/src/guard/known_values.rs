//! The secrets that the run itself uses, and the redactors that mask them. Values are only added: a new credential does
//! not make the old one harmless.

use std::sync::{Arc, PoisonError, RwLock};

use egress::credentials::Secret;
use redact::{Redactor, ValueTooShort};

/// Whether secrets are also found by their format, in tool results and in everything else. Known values are always
/// masked.
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
        let results = by_format(Redactor::new(), patterns.results);
        let written = by_format(Redactor::new(), patterns.written);
        Self { patterns, inner: RwLock::new(Inner { values: Vec::new(), results, written }) }
    }

    /// Masks this value from now on.
    pub fn add(&self, name: &str, value: &str) -> Result<(), ValueTooShort> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.values.iter().any(|(_, known)| known.reveal() == value) {
            return Ok(());
        }
        let redactor = |patterns: bool| {
            let old = inner.values.iter().map(|(name, value)| (name.as_str(), value.reveal()));
            Redactor::with_known(old.chain([(name, value)])).map(|redactor| by_format(redactor, patterns))
        };
        let results = redactor(self.patterns.results)?;
        let written = redactor(self.patterns.written)?;
        inner.results = results;
        inner.written = written;
        inner.values.push((name.to_owned(), Secret::new(value.to_owned())));
        Ok(())
    }

    /// Masks the known values alone.
    pub fn values_only(&self) -> Result<Redactor, ValueTooShort> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let values = inner.values.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        Redactor::with_known(values).map(Redactor::known_only)
    }

    /// Masks tool results.
    pub fn result_redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.inner.read().unwrap_or_else(PoisonError::into_inner).results)
    }

    /// Masks everything else.
    pub fn text_redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.inner.read().unwrap_or_else(PoisonError::into_inner).written)
    }
}

fn by_format(redactor: Redactor, patterns: bool) -> Arc<Redactor> {
    Arc::new(if patterns { redactor } else { redactor.known_only() })
}
