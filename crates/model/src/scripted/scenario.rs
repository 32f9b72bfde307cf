//! The scenario file: what the scripted model says, turn by turn. Parsed once, strictly: an unknown or doubled key is
//! an error with its line, because a scenario that is only partly read proves nothing.

use crate::wire::TokenUsage;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file name, for messages.
    pub name: String,
    pub(super) turns: Vec<Vec<Action>>,
    pub(super) branches: Vec<Branch>,
    /// The answer to requests that offer no tools, such as one for a title. Without it they are ordinary requests.
    pub(super) side: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Branch {
    pub(super) when: BranchCondition,
    pub(super) turns: Vec<Vec<Action>>,
}

/// All given conditions must hold. The two about messages also say where the branch's turns start: after the last message
/// that matched, so that the same branch serves a continued and a new conversation.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchCondition {
    pub(super) user_contains: Option<String>,
    pub(super) tool_result_contains: Option<String>,
    pub(super) system_contains: Option<String>,
    pub(super) model_contains: Option<String>,
    pub(super) offers_tool: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Say(Content),
    Usage(TokenUsage),
    Error {
        status: u16,
        message: Option<String>,
        times: u32,
    },
    Sleep {
        ms: u64,
    },
    /// The connection breaks here.
    Cut,
    /// The answer ends at its length limit.
    MaxTokens,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    Text(String),
    Thinking(String),
    /// A command for whichever shell tool the request offers.
    Shell(String),
    Tool {
        name: String,
        input: Value,
    },
    /// The result, by the finish-with-output tool if one is offered, else as text.
    Finish(Value),
}

#[derive(Debug)]
pub enum ScenarioError {
    Read { path: PathBuf, source: std::io::Error },
    TooLarge { path: PathBuf },
    Parse { name: String, source: serde_json::Error },
    Version { name: String, found: u32 },
    Action { name: String, place: String, reason: String },
    Empty { name: String },
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read the scenario {}: {source}", path.display()),
            Self::TooLarge { path } => {
                write!(f, "the scenario {} is larger than {MAX_FILE_BYTES} bytes", path.display())
            }
            Self::Parse { name, source } => write!(f, "the scenario {name} is wrong: {source}"),
            Self::Version { name, found } => {
                write!(f, "the scenario {name} has version {found}; this program reads version 1")
            }
            Self::Action { name, place, reason } => {
                write!(f, "the scenario {name} is wrong at {place}: {reason}")
            }
            Self::Empty { name } => write!(f, "the scenario {name} has neither `turns` nor `branches`"),
        }
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            Self::Parse { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioForm {
    version: Option<u32>,
    /// For the reader of the file.
    #[serde(rename = "description")]
    _description: Option<String>,
    #[serde(default)]
    turns: Vec<Vec<ActionForm>>,
    #[serde(default)]
    branches: Vec<BranchForm>,
    side: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchForm {
    when: BranchCondition,
    turns: Vec<Vec<ActionForm>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionForm {
    text: Option<String>,
    thinking: Option<String>,
    shell: Option<String>,
    tool: Option<String>,
    input: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    finish: Option<Value>,
    usage: Option<UsageForm>,
    error: Option<u16>,
    message: Option<String>,
    times: Option<u32>,
    sleep_ms: Option<u64>,
    cut: Option<bool>,
    max_tokens: Option<bool>,
}

/// Distinguishes `"finish": null` from a missing `finish`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Deserialize, Clone, Copy)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct UsageForm {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cache_write_hour: u64,
}

impl Scenario {
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let failed = |source| ScenarioError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > MAX_FILE_BYTES {
            return Err(ScenarioError::TooLarge { path: path.to_owned() });
        }
        let text = std::fs::read(path).map_err(failed)?;
        Self::parse(&path.display().to_string(), &text)
    }

    pub fn parse(name: &str, text: &[u8]) -> Result<Self, ScenarioError> {
        let name = name.to_owned();
        let form: ScenarioForm = serde_json::from_slice(text)
            .map_err(|source| ScenarioError::Parse { name: name.clone(), source })?;
        let ScenarioForm { version, _description, turns, branches, side } = form;
        if let Some(found) = version.filter(|version| *version != 1) {
            return Err(ScenarioError::Version { name, found });
        }
        let turns = acts(&name, "turns", turns)?;
        let branches = branches
            .into_iter()
            .enumerate()
            .map(|(index, BranchForm { when, turns })| {
                let turns = acts(&name, &format!("branches[{index}].turns"), turns)?;
                Ok(Branch { when, turns })
            })
            .collect::<Result<Vec<_>, ScenarioError>>()?;
        if turns.is_empty() && branches.is_empty() {
            return Err(ScenarioError::Empty { name });
        }
        Ok(Self { name, turns, branches, side })
    }
}

fn acts(name: &str, place: &str, turns: Vec<Vec<ActionForm>>) -> Result<Vec<Vec<Action>>, ScenarioError> {
    let wrong = |turn: usize, index: usize, reason: String| ScenarioError::Action {
        name: name.to_owned(),
        place: format!("{place}[{turn}][{index}]"),
        reason,
    };
    let mut out = Vec::with_capacity(turns.len());
    for (turn, forms) in turns.into_iter().enumerate() {
        let mut list = Vec::with_capacity(forms.len());
        for (index, form) in forms.into_iter().enumerate() {
            list.push(form.into_act().map_err(|reason| wrong(turn, index, reason))?);
        }
        out.push(list);
    }
    Ok(out)
}

impl ActionForm {
    fn into_act(self) -> Result<Action, String> {
        let Self {
            text,
            thinking,
            shell,
            tool,
            input,
            finish,
            usage,
            error,
            message,
            times,
            sleep_ms,
            cut,
            max_tokens,
        } = self;
        if input.is_some() && tool.is_none() {
            return Err("`input` is only allowed beside `tool`".to_owned());
        }
        if (message.is_some() || times.is_some()) && error.is_none() {
            return Err("`message` and `times` are only allowed beside `error`".to_owned());
        }
        if let Some(status) = error.filter(|status| !(400..=599).contains(status)) {
            return Err(format!("`error` is an HTTP status from 400 to 599, not {status}"));
        }
        let mut kinds: Vec<Action> = Vec::new();
        kinds.extend(text.map(Content::Text).map(Action::Say));
        kinds.extend(thinking.map(Content::Thinking).map(Action::Say));
        kinds.extend(shell.map(Content::Shell).map(Action::Say));
        let call = tool.map(|name| Content::Tool { name, input: input.unwrap_or_default() });
        kinds.extend(call.map(Action::Say));
        kinds.extend(finish.map(Content::Finish).map(Action::Say));
        kinds.extend(usage.map(|usage| Action::Usage(usage.into_neutral())));
        kinds.extend(error.map(|status| Action::Error { status, message, times: times.unwrap_or(1) }));
        kinds.extend(sleep_ms.map(|ms| Action::Sleep { ms }));
        kinds.extend(cut.filter(|cut| *cut).map(|_| Action::Cut));
        kinds.extend(max_tokens.filter(|reached| *reached).map(|_| Action::MaxTokens));
        match (kinds.pop(), kinds.is_empty()) {
            (Some(act), true) => Ok(act),
            (Some(_), false) => Err("one block does one thing; split it into several".to_owned()),
            (None, _) => {
                Err("a block needs one of text, thinking, shell, tool, finish, usage, error, sleep_ms, \
                              cut, max_tokens"
                    .to_owned())
            }
        }
    }
}

impl UsageForm {
    fn into_neutral(self) -> TokenUsage {
        let Self { input, output, cache_read, cache_write, cache_write_hour } = self;
        TokenUsage { input, output, cache_read, cache_write, cache_write_hour }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_scenarios_are_refused_with_their_place() {
        for (text, reason) in [
            ("{", "EOF"),
            ("{}", "neither `turns` nor `branches`"),
            (r#"{"version":2,"turns":[[]]}"#, "version 2"),
            (r#"{"turn":[]}"#, "unknown field `turn`"),
            (r#"{"turns":[[{"shel":"ls"}]]}"#, "unknown field `shel`"),
            (r#"{"turns":[[{"text":"a","shell":"b"}]]}"#, "turns[0][0]: one block does one thing"),
            (r#"{"turns":[[],[{}]]}"#, "turns[1][0]: a block needs one of"),
            (r#"{"turns":[[{"shell":"a","times":2}]]}"#, "are only allowed beside `error`"),
            (r#"{"turns":[[{"text":"a","input":{}}]]}"#, "is only allowed beside `tool`"),
            (r#"{"turns":[[{"error":200}]]}"#, "not 200"),
            (r#"{"branches":[{"when":{"usr":"x"},"turns":[]}]}"#, "unknown field `usr`"),
            (r#"{"turns":[[{"text":"a","text":"b"}]]}"#, "duplicate field `text`"),
        ] {
            let error = Scenario::parse("s.json", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("s.json"), "{text}: {error}");
        }
    }

    #[test]
    fn every_kind_of_block_is_read() {
        let text = r#"{"version": 1, "description": "all", "side": "title", "turns": [[
            {"text": "a"}, {"thinking": "b"}, {"shell": "c"}, {"tool": "d", "input": {"e": 1}}, {"finish": null},
            {"usage": {"input": 1, "cache_write_hour": 2}}, {"error": 529, "times": 2, "message": "f"},
            {"sleep_ms": 3}, {"cut": true}, {"max_tokens": true}]]}"#;
        let scenario = Scenario::parse("s.json", text.as_bytes()).unwrap();
        assert_eq!(scenario.turns[0].len(), 10);
        assert_eq!(scenario.turns[0][4], Action::Say(Content::Finish(Value::Null)));
    }
}
