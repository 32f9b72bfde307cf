//! Findings for the known values of a run.

use crate::finding::{Category, Finding, Score, Severity};
use crate::hit::Hit;
use crate::report::report;
use crate::rule;

use super::{Redactor, merge};

impl Redactor {
    /// The places of known values in a text, in any form, with their names.
    pub fn find_known(&self, text: &str) -> Vec<Finding> {
        let mut masks = Vec::new();
        self.known.find(text, &mut masks);
        let hits = merge(masks).into_iter().map(|mask| {
            let mut whose = String::new();
            self.known.write_marker(&mask.marker, &mut whose);
            Hit {
                rule: rule::secret::KNOWN_CREDENTIAL,
                category: Category::SecretRedactor,
                severity: Severity::High,
                score: Some(Score::new(1.0)),
                range: mask.range,
                passage: None,
                detail: Some(whose),
                advice: "Find out how a credential of this run came here; it should never have been in the sandbox.",
            }
        });
        report(text, hits.collect(), &[])
    }
}
