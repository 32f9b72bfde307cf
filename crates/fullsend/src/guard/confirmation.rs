//! Tool calls that a person must confirm. The harness names the tools. A session can ask a person; a plain run cannot, and
//! denies such calls.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Guard;
use super::dialect::CallDecision;

/// The answer about one call with exactly this input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Allowed once: the next call needs a new answer, even if it is the same.
    Allow,
    Deny(String),
    /// There is no answer yet; the text tells the agent what to do.
    Pending(String),
}

/// Asks for one call of a tool, by its name and input.
pub type Confirmer = dyn Fn(&str, &Json) -> Confirmation + Send + Sync;

/// Which tools need a confirmation, and who gives it.
#[derive(Clone, Default)]
pub(super) struct Confirmations {
    pub(super) tools: Arc<[String]>,
    pub(super) confirmer: Option<Arc<Confirmer>>,
}

impl Guard {
    /// Sets who confirms calls.
    #[must_use]
    pub fn with_confirmer(mut self, confirmer: Option<Arc<Confirmer>>) -> Self {
        self.confirmations.confirmer = confirmer;
        self
    }

    /// Confirms a call that is allowed otherwise.
    pub(super) fn confirm(&self, tool: &str, input: &Json) -> CallDecision {
        let quirks = &self.dialect.quirks;
        let named = |name: &String| name == tool || name == (quirks.name_of)(tool);
        if quirks.result_tool == Some(tool) || !self.confirmations.tools.iter().any(named) {
            return CallDecision::Allow;
        }
        let answer = match &self.confirmations.confirmer {
            Some(confirmer) => confirmer(tool, input),
            None => Confirmation::Deny("a person must confirm it, and this run cannot ask anyone".to_owned()),
        };
        match answer {
            Confirmation::Allow => CallDecision::Allow,
            Confirmation::Deny(why) => self.deny(&format!("the call to {tool} was not confirmed: {why}")),
            Confirmation::Pending(how) => self.deny(&how),
        }
    }
}
