//! The directive that an agent writes at the end of a wake: a response, a summary, `sleep` or `continue`, and optionally
//! queued wakes, learnings and custom tool calls. It is parsed strictly. A malformed directive is an error that the agent
//! gets as feedback.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::log::learning::Learning;
use crate::log::status::WakePriority;

/// The element that holds the directive in an answer in plain text.
pub const DIRECTIVE_TAG: &str = "fullsend-directive";

/// The directive as JSON Schema 2020-12. It accepts exactly what `Directive::from_json` accepts.
pub const DIRECTIVE_SCHEMA: &str = include_str!("directive.schema.json");

const MAX_BYTES: usize = 512 << 10;
const MAX_RESPONSE: usize = 100_000;
const MAX_SUMMARY: usize = 4_000;
const MAX_ITEMS: usize = 8;
const MAX_SECONDS: u64 = 30 * 86_400;
const MAX_REASON: usize = 200;
const MAX_NOTE: usize = 2_000;
const MAX_TITLE: usize = 120;
const MAX_NAME: usize = 128;
const MAX_SPAWN_MESSAGE: usize = 20_000;
const MAX_CENTS: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directive {
    #[serde(default)]
    pub response: String,
    pub summary: String,
    pub outcome: DirectiveOutcome,
    #[serde(default)]
    pub follow_up_seconds: Option<u64>,
    #[serde(default)]
    pub queued_wakes: Vec<WakeRequest>,
    #[serde(default)]
    pub learnings: Vec<Learning>,
    #[serde(default)]
    pub custom_tools: Vec<CustomToolCall>,
    #[serde(default)]
    pub spawn: Vec<SpawnRequest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectiveOutcome {
    Sleep,
    Continue,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeRequest {
    pub reason: String,
    pub delay_seconds: u64,
    #[serde(default)]
    pub note: Option<String>,
    #[serde(default)]
    pub dedupe_key: Option<String>,
    #[serde(default = "normal")]
    pub priority: WakePriority,
}

/// A session of the same agent that the session starts. Its result comes back as an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    pub title: String,
    pub message: String,
    #[serde(default)]
    pub max_cost_cents: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomToolCall {
    pub name: String,
    pub input: Map<String, Value>,
    #[serde(default)]
    pub expires_seconds: Option<u64>,
}

fn normal() -> WakePriority {
    WakePriority::Normal
}

/// Why a directive is malformed, as a message for the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectiveError {
    /// The answer has no directive block.
    Missing,
    Unclosed,
    /// Text follows the block. Without this rule a block that the agent quotes could count as its own.
    NotLast,
    TooLong {
        bytes: usize,
    },
    NotJson {
        why: String,
    },
    Field {
        field: String,
        why: String,
    },
}

impl fmt::Display for DirectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "the answer does not end with a <{DIRECTIVE_TAG}> element"),
            Self::Unclosed => {
                write!(f, "the <{DIRECTIVE_TAG}> element is not closed with </{DIRECTIVE_TAG}>")
            }
            Self::NotLast => {
                write!(f, "text follows the <{DIRECTIVE_TAG}> element; the element must end the answer")
            }
            Self::TooLong { bytes } => write!(f, "the directive has {bytes} bytes, the limit is {MAX_BYTES}"),
            Self::NotJson { why } => write!(f, "the directive is not the expected JSON object: {why}"),
            Self::Field { field, why } => write!(f, "`{field}` {why}"),
        }
    }
}

impl std::error::Error for DirectiveError {}

impl Directive {
    /// Parses a directive that is a JSON document.
    pub fn from_json(text: &str) -> Result<Self, DirectiveError> {
        if text.len() > MAX_BYTES {
            return Err(DirectiveError::TooLong { bytes: text.len() });
        }
        let not_json = |error: serde_json::Error| DirectiveError::NotJson { why: error.to_string() };
        check_objects(&serde_json::from_str(text).map_err(not_json)?)?;
        let directive: Self = serde_json::from_str(text).map_err(not_json)?;
        directive.check()?;
        Ok(directive)
    }

    /// Parses an answer in plain text that ends with a directive block. The text before the block is the response.
    pub fn from_text(text: &str) -> Result<Self, DirectiveError> {
        let open = format!("<{DIRECTIVE_TAG}>");
        let close = format!("</{DIRECTIVE_TAG}>");
        let start = text.rfind(&open).ok_or(DirectiveError::Missing)?;
        let before = &text[..start];
        let block = &text[start + open.len()..];
        let end = block.rfind(&close).ok_or(DirectiveError::Unclosed)?;
        if !block[end + close.len()..].trim().is_empty() {
            return Err(DirectiveError::NotLast);
        }
        let mut directive = Self::from_json(&block[..end])?;
        if !directive.response.is_empty() {
            return Err(field(
                "response",
                "must be left out, because the text before the block is the response",
            ));
        }
        directive.response = before.trim().to_owned();
        check_text("response", &directive.response, MAX_RESPONSE)?;
        Ok(directive)
    }

    fn check(&self) -> Result<(), DirectiveError> {
        let Self {
            response,
            summary,
            outcome: _,
            follow_up_seconds,
            queued_wakes,
            learnings,
            custom_tools,
            spawn,
        } = self;
        check_text("response", response, MAX_RESPONSE)?;
        check_words("summary", summary, MAX_SUMMARY)?;
        check_seconds("follow_up_seconds", *follow_up_seconds)?;
        check_count("queued_wakes", queued_wakes.len())?;
        check_count("learnings", learnings.len())?;
        check_count("custom_tools", custom_tools.len())?;
        queued_wakes.iter().try_for_each(WakeRequest::check)?;
        learnings.iter().try_for_each(check_learning)?;
        custom_tools.iter().try_for_each(CustomToolCall::check)?;
        check_count("spawn", spawn.len())?;
        spawn.iter().try_for_each(SpawnRequest::check)
    }
}

impl WakeRequest {
    fn check(&self) -> Result<(), DirectiveError> {
        let Self { reason, delay_seconds, note, dedupe_key, priority: _ } = self;
        check_words("queued_wakes.reason", reason, MAX_REASON)?;
        check_seconds("queued_wakes.delay_seconds", Some(*delay_seconds))?;
        check_text("queued_wakes.note", note.as_deref().unwrap_or_default(), MAX_NOTE)?;
        check_key("queued_wakes.dedupe_key", dedupe_key.as_deref())
    }
}

impl SpawnRequest {
    fn check(&self) -> Result<(), DirectiveError> {
        let Self { title, message, max_cost_cents } = self;
        check_words("spawn.title", title, MAX_TITLE)?;
        check_words("spawn.message", message, MAX_SPAWN_MESSAGE)?;
        match max_cost_cents {
            Some(cents) if !(1..=MAX_CENTS).contains(cents) => {
                Err(field("spawn.max_cost_cents", &format!("is {cents}, expected 1 to {MAX_CENTS}")))
            }
            _ => Ok(()),
        }
    }
}

impl CustomToolCall {
    fn check(&self) -> Result<(), DirectiveError> {
        let Self { name, input: _, expires_seconds } = self;
        let plain = |c: u8| c.is_ascii_alphanumeric() || b"_.:-".contains(&c);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(plain) {
            return Err(field("custom_tools.name", "must be 1 to 128 letters, digits, or any of _ . : -"));
        }
        check_seconds("custom_tools.expires_seconds", *expires_seconds)
    }
}

/// The JSON crate also reads an object from an array of its values. That is refused here.
fn check_objects(value: &Value) -> Result<(), DirectiveError> {
    let not_an_object = |name| field(name, "must be an object");
    let fields = value.as_object().ok_or_else(|| not_an_object("directive"))?;
    for list in ["queued_wakes", "learnings", "custom_tools", "spawn"] {
        let items = fields.get(list).and_then(Value::as_array);
        if items.is_some_and(|items| !items.iter().all(Value::is_object)) {
            return Err(not_an_object(list));
        }
    }
    Ok(())
}

fn check_learning(learning: &Learning) -> Result<(), DirectiveError> {
    let Learning { kind: _, title, detail, dedupe_key } = learning;
    check_words("learnings.title", title, MAX_TITLE)?;
    check_text("learnings.detail", detail, MAX_NOTE)?;
    check_key("learnings.dedupe_key", dedupe_key.as_deref())
}

fn field(name: &str, why: &str) -> DirectiveError {
    DirectiveError::Field { field: name.to_owned(), why: why.to_owned() }
}

fn check_text(name: &str, text: &str, limit: usize) -> Result<(), DirectiveError> {
    let length = text.chars().count();
    if length > limit {
        return Err(field(name, &format!("has {length} characters, the limit is {limit}")));
    }
    Ok(())
}

fn check_words(name: &str, text: &str, limit: usize) -> Result<(), DirectiveError> {
    if text.trim().is_empty() {
        return Err(field(name, "is empty"));
    }
    check_text(name, text, limit)
}

fn check_key(name: &str, key: Option<&str>) -> Result<(), DirectiveError> {
    key.map_or(Ok(()), |key| check_words(name, key, MAX_REASON))
}

fn check_seconds(name: &str, seconds: Option<u64>) -> Result<(), DirectiveError> {
    match seconds {
        Some(seconds) if !(1..=MAX_SECONDS).contains(&seconds) => {
            Err(field(name, &format!("is {seconds}, expected 1 to {MAX_SECONDS}")))
        }
        _ => Ok(()),
    }
}

fn check_count(name: &str, count: usize) -> Result<(), DirectiveError> {
    if count > MAX_ITEMS {
        return Err(field(name, &format!("has {count} items, the limit is {MAX_ITEMS}")));
    }
    Ok(())
}
