//! A parsed command line, with the commands that its wrappers (`sudo`, `env`, `xargs` …) run.

use std::ops::Range;

use crate::script::{Call, Script};
use crate::unwrap;

/// The most commands of one line that are judged one by one.
pub(crate) const MAX_CALLS: usize = 2000;

/// A parsed line with everything that its calls run.
pub(crate) struct ParsedLine {
    pub(crate) script: Script,
    /// For each call the commands behind it, outermost first.
    nested: Vec<Vec<Call>>,
}

impl ParsedLine {
    pub(crate) fn new(script: Script) -> Self {
        let nested = script.calls.iter().take(MAX_CALLS).map(unwrap::nested_calls).collect();
        ParsedLine { script, nested }
    }

    /// Every command of a range of calls, wrappers included.
    pub(crate) fn commands(&self, calls: Range<usize>) -> impl Iterator<Item = &Call> {
        self.nested.get(calls.start..calls.end.min(self.nested.len())).unwrap_or_default().iter().flatten()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Call> {
        self.nested.iter().flatten()
    }

    /// The commands whose output becomes part of a word of `call`.
    pub(crate) fn inside<'v>(&'v self, call: &'v Call) -> impl Iterator<Item = &'v Call> {
        let words = call.arguments.iter().chain([&call.name]);
        words.flat_map(|word| &word.inner).filter_map(|index| self.nested.get(*index)).flatten()
    }
}
