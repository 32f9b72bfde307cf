//! Calls that somebody must allow first. The harness names the tools; whoever started the run knows the answers, if there is
//! anybody to ask. A plain run has nobody, and such a call is denied there.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Guard;
use super::dialect::Decision;

/// What was said about one call with exactly this input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Once: the next call, though it look the same, is asked about again.
    Allow,
    Deny(String),
    /// Nobody has answered yet; these words tell the agent what to do.
    Asked(String),
}

/// Asks for one call of a tool, by its name and input.
pub type Asker = dyn Fn(&str, &Json) -> Said + Send + Sync;

/// Which tools, and whom to ask.
#[derive(Clone, Default)]
pub(super) struct Confirmations {
    pub(super) tools: Arc<[String]>,
    pub(super) asker: Option<Arc<Asker>>,
}

impl Guard {
    /// Whom to ask about calls that must be confirmed.
    #[must_use]
    pub fn asking(mut self, asker: Option<Arc<Asker>>) -> Self {
        self.confirmations.asker = asker;
        self
    }

    /// The last word on a call that is allowed otherwise.
    pub(super) fn confirmed(&self, tool: &str, input: &Json) -> Decision {
        let quirks = &self.dialect.quirks;
        let named = |name: &String| name == tool || name == (quirks.name_of)(tool);
        if quirks.hand_in == Some(tool) || !self.confirmations.tools.iter().any(named) {
            return Decision::Allow;
        }
        let said = match &self.confirmations.asker {
            Some(asker) => asker(tool, input),
            None => Said::Deny("somebody must allow it, and only a session can ask".to_owned()),
        };
        match said {
            Said::Allow => Decision::Allow,
            Said::Deny(why) => self.deny(&format!("the call of {tool} was not allowed: {why}")),
            Said::Asked(how) => self.deny(&how),
        }
    }
}
