//! Tells tool results that are new from those that an earlier request already had, so that the guard asks for the verdict
//! of each new one.

use crate::wire::ToolResult;
use ring::digest::{Context, SHA256};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// More results than one run can have; beyond it old ones count as new, and the guard inspects them again.
const MAX_REMEMBERED: usize = 1 << 18;

pub type ResultDigest = [u8; 32];

#[derive(Default)]
pub(super) struct SeenResults {
    seen: Mutex<HashSet<ResultDigest>>,
}

impl SeenResults {
    pub(super) fn new(known: HashSet<ResultDigest>) -> Self {
        Self { seen: Mutex::new(known) }
    }

    /// Whether no earlier request had this very result.
    pub(super) fn is_new(&self, result: &ToolResult) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_REMEMBERED {
            seen.clear();
        }
        seen.insert(digest(result))
    }

    pub(super) fn all(&self) -> HashSet<ResultDigest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lengths separate the parts, so that two different results never have the same digest input.
fn digest(result: &ToolResult) -> ResultDigest {
    let ToolResult { id, parts, is_error } = result;
    let mut context = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    add(id.as_bytes());
    add(&[u8::from(*is_error)]);
    parts.iter().for_each(|part| add(part.as_bytes()));
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_differ_by_every_part_of_them() {
        let seen = SeenResults::default();
        let result = |id: &str, parts: &[&str], is_error| ToolResult {
            id: id.into(),
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            is_error,
        };
        for new in [
            result("a", &["bc"], false),
            result("ab", &["c"], false),
            result("a", &["b", "c"], false),
            result("a", &["bc"], true),
            result("a", &[], false),
        ] {
            assert!(seen.is_new(&new) && !seen.is_new(&new), "{new:?}");
        }
        assert!(!SeenResults::new(seen.all()).is_new(&result("a", &["bc"], false)));
    }
}
