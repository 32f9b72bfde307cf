//! How the agent ended, as the event log and the record write it: one word, or `failed: ` and the reason.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum AgentEnding {
    Finished,
    Stopped,
    Failed { why: String },
    Timeout,
    Interrupted,
}

const FAILED: &str = "failed: ";

impl fmt::Display for AgentEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::Stopped => f.write_str("stopped"),
            Self::Failed { why } => write!(f, "{FAILED}{why}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<AgentEnding> for String {
    fn from(ending: AgentEnding) -> Self {
        ending.to_string()
    }
}

impl From<String> for AgentEnding {
    /// An unknown word, from another version, is read as a reason.
    fn from(text: String) -> Self {
        match text.as_str() {
            "finished" => Self::Finished,
            "stopped" => Self::Stopped,
            "timeout" => Self::Timeout,
            "interrupted" => Self::Interrupted,
            other => Self::Failed { why: other.strip_prefix(FAILED).unwrap_or(other).to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_disk_come_back_as_they_were() {
        let failed = AgentEnding::Failed { why: "no result".to_owned() };
        let endings = [
            AgentEnding::Finished,
            AgentEnding::Stopped,
            failed,
            AgentEnding::Timeout,
            AgentEnding::Interrupted,
        ];
        let words = ["finished", "stopped", "failed: no result", "timeout", "interrupted"];
        for (ending, word) in endings.into_iter().zip(words) {
            assert_eq!(serde_json::to_value(&ending).unwrap(), word);
            assert_eq!(serde_json::from_value::<AgentEnding>(word.into()).unwrap(), ending);
        }
    }
}
