//! Calls that somebody must allow first. The harness names the tools; whoever started the run knows the answers, if there is
//! anybody to ask. A plain run has nobody, and such a call is denied there.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Guard;
use super::dialect::CallDecision;

/// What was answer about one call with exactly this input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Once: the next call, though it look the same, is asked about again.
    Allow,
    Deny(String),
    /// Nobody has answered yet; these words tell the agent what to do.
    Pending(String),
}

/// Asks for one call of a tool, by its name and input.
pub type Confirmer = dyn Fn(&str, &Json) -> Confirmation + Send + Sync;

/// Which tools, and whom to ask.
#[derive(Clone, Default)]
pub(super) struct Confirmations {
    pub(super) tools: Arc<[String]>,
    pub(super) confirmer: Option<Arc<Confirmer>>,
}

impl Guard {
    /// Whom to ask about calls that must be confirmed.
    #[must_use]
    pub fn with_confirmer(mut self, confirmer: Option<Arc<Confirmer>>) -> Self {
        self.confirmations.confirmer = confirmer;
        self
    }

    /// The last word on a call that is allowed otherwise.
    pub(super) fn confirm(&self, tool: &str, input: &Json) -> CallDecision {
        let quirks = &self.dialect.quirks;
        let named = |name: &String| name == tool || name == (quirks.name_of)(tool);
        if quirks.hand_in == Some(tool) || !self.confirmations.tools.iter().any(named) {
            return CallDecision::Allow;
        }
        let answer = match &self.confirmations.confirmer {
            Some(confirmer) => confirmer(tool, input),
            None => Confirmation::Deny("somebody must allow it, and only a session can ask".to_owned()),
        };
        match answer {
            Confirmation::Allow => CallDecision::Allow,
            Confirmation::Deny(why) => self.deny(&format!("the call of {tool} was not allowed: {why}")),
            Confirmation::Pending(how) => self.deny(&how),
        }
    }
}
