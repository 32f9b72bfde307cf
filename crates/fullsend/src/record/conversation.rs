//! The conversations of a run, read from the transcripts that its runtime left: one form for all runtimes. A transcript is
//! written by the agent's program, so it is read as untrusted text: an unknown line is left out, and every size is bounded.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A longer text is cut.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// All texts of one run together.
const MAX_TOTAL_BYTES: usize = 2 << 20;
const MAX_FILE_BYTES: u64 = 64 << 20;
const MAX_FILES: usize = 200;

/// What one agent said and did in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationRecord {
    pub iteration: u32,
    /// The name of a sub-agent; empty for the agent itself.
    pub agent: String,
    pub entries: Vec<ConversationEntry>,
}

/// One part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConversationEntry {
    /// What the agent was told.
    Told {
        text: String,
    },
    /// What the agent said.
    Said {
        text: String,
    },
    Thought {
        text: String,
    },
    ToolCall {
        call: String,
        tool: String,
        input: String,
    },
    ToolResult {
        call: String,
        output: String,
        is_error: bool,
    },
}

/// The conversations of all attempts, first to last. An attempt that continues a conversation has only what it added.
pub fn load(run: &Path) -> Vec<ConversationRecord> {
    let mut left = MAX_TOTAL_BYTES;
    let mut found: Vec<ConversationRecord> = Vec::new();
    for (iteration, directory) in super::files::attempts(run) {
        let mut agents: BTreeMap<String, Vec<ConversationEntry>> = BTreeMap::new();
        for text in transcripts(&directory.join("transcripts")) {
            for (agent, entry) in entries(&text) {
                agents.entry(agent).or_default().push(entry);
            }
        }
        for (agent, entries) in agents {
            let earlier = found.iter().filter(|known| known.agent == agent);
            let repeated = earlier.flat_map(|known| &known.entries).zip(&entries);
            let repeated = repeated.take_while(|(known, entry)| known == entry).count();
            let entries: Vec<_> = entries.into_iter().skip(repeated).collect();
            if !entries.is_empty() {
                found.push(ConversationRecord { iteration, agent, entries });
            }
        }
    }
    for entry in found.iter_mut().flat_map(|conversation| &mut conversation.entries) {
        entry.texts().into_iter().for_each(|text| shorten(text, &mut left));
    }
    found
}

impl ConversationEntry {
    fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Told { text } | Self::Said { text } | Self::Thought { text } => vec![text],
            Self::ToolCall { call, tool, input } => vec![call, tool, input],
            Self::ToolResult { call, output, .. } => vec![call, output],
        }
    }
}

fn shorten(text: &mut String, left: &mut usize) {
    let most = MAX_TEXT_BYTES.min(*left);
    if text.len() > most {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("… (shortened from {bytes} bytes)"));
    }
    *left = left.saturating_sub(text.len());
}

/// The texts of the transcripts in a directory, by name.
fn transcripts(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_small = |entry: &std::fs::DirEntry| {
        entry.metadata().is_ok_and(|at| at.is_file() && at.len() <= MAX_FILE_BYTES)
    };
    let mut paths: Vec<_> = entries.filter(is_small).map(|entry| entry.path()).collect();
    paths.sort();
    paths.truncate(MAX_FILES);
    paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

/// One document is a conversation of `native`; JSON lines are those of `claude` or `codex`.
fn entries(text: &str) -> Vec<(String, ConversationEntry)> {
    if let Ok(whole) = serde_json::from_str::<MessagesRequest>(text) {
        let entries = whole.messages.into_iter().flat_map(Message::entries);
        return entries.map(|entry| (String::new(), entry)).collect();
    }
    let lines = text.lines().filter_map(|line| serde_json::from_str::<TranscriptLine>(line).ok());
    lines
        .flat_map(|line| match line {
            TranscriptLine::Claude { message, agent_id, is_sidechain } => {
                let agent = if is_sidechain {
                    agent_id.unwrap_or_else(|| "sub-agent".to_owned())
                } else {
                    String::new()
                };
                message.entries().into_iter().map(|entry| (agent.clone(), entry)).collect::<Vec<_>>()
            }
            TranscriptLine::Codex { payload } => {
                payload.entry().map(|entry| (String::new(), entry)).into_iter().collect()
            }
        })
        .collect()
}

/// A request in the Messages format.
#[derive(Deserialize)]
struct MessagesRequest {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: Role,
    content: Content,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    Assistant,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Json,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Option<Content>,
        #[serde(default)]
        is_error: Option<bool>,
    },
    #[serde(other)]
    Unknown,
}

/// One line of a transcript of `claude` or `codex`.
#[derive(Deserialize)]
#[serde(untagged)]
enum TranscriptLine {
    #[serde(rename_all = "camelCase")]
    Claude {
        message: Message,
        #[serde(default)]
        agent_id: Option<String>,
        #[serde(default)]
        is_sidechain: bool,
    },
    Codex {
        payload: CodexItem,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CodexItem {
    Message { role: Role, content: Vec<CodexText> },
    FunctionCall { name: String, arguments: String, call_id: String },
    FunctionCallOutput { call_id: String, output: Json },
    CustomToolCall { name: String, input: String, call_id: String },
    CustomToolCallOutput { call_id: String, output: Json },
}

#[derive(Deserialize)]
struct CodexText {
    #[serde(default)]
    text: String,
}

impl Message {
    fn entries(self) -> Vec<ConversationEntry> {
        let is_agent = self.role == Role::Assistant;
        let spoken = |text: String| match is_agent {
            true => ConversationEntry::Said { text },
            false => ConversationEntry::Told { text },
        };
        let blocks = match self.content {
            Content::Text(text) => return vec![spoken(text)],
            Content::Blocks(blocks) => blocks,
        };
        let entry = |block| {
            Some(match block {
                Block::Text { text } => spoken(text),
                Block::Thinking { thinking } => ConversationEntry::Thought { text: thinking },
                Block::ToolUse { id, name, input } => {
                    ConversationEntry::ToolCall { call: id, tool: name, input: pretty(&input) }
                }
                Block::ToolResult { tool_use_id, content, is_error } => ConversationEntry::ToolResult {
                    call: tool_use_id,
                    output: content.map(Content::text).unwrap_or_default(),
                    is_error: is_error.unwrap_or(false),
                },
                Block::Unknown => return None,
            })
        };
        blocks.into_iter().filter_map(entry).collect()
    }
}

impl Content {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Blocks(blocks) => blocks
                .into_iter()
                .filter_map(|block| match block {
                    Block::Text { text } => Some(text),
                    _ => None,
                })
                .collect(),
        }
    }
}

impl CodexItem {
    fn entry(self) -> Option<ConversationEntry> {
        Some(match self {
            Self::Message { role, content } => {
                let text: String = content.into_iter().map(|part| part.text).collect();
                match role {
                    Role::Assistant => ConversationEntry::Said { text },
                    Role::Other => ConversationEntry::Told { text },
                }
            }
            Self::FunctionCall { name, arguments, call_id } => {
                let input = serde_json::from_str(&arguments).map_or(arguments, |value: Json| pretty(&value));
                ConversationEntry::ToolCall { call: call_id, tool: name, input }
            }
            Self::CustomToolCall { name, input, call_id } => {
                ConversationEntry::ToolCall { call: call_id, tool: name, input }
            }
            Self::FunctionCallOutput { call_id, output } | Self::CustomToolCallOutput { call_id, output } => {
                let output = output.as_str().map_or_else(|| pretty(&output), str::to_owned);
                ConversationEntry::ToolResult { call: call_id, output, is_error: false }
            }
        })
    }
}

/// One text stays as it is; the fields of an object are shown one below the other.
fn pretty(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => format!("{other:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(files: &[(&str, &str)]) -> Vec<ConversationRecord> {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        load(place.path())
    }

    fn spoken_text(text: &str) -> ConversationEntry {
        ConversationEntry::Said { text: text.to_owned() }
    }

    #[test]
    fn transcripts_of_every_runtime_become_one_form() {
        let call = ConversationEntry::ToolCall {
            call: "c1".to_owned(),
            tool: "Bash".to_owned(),
            input: "{\n  \"command\": \"ls\"\n}".to_owned(),
        };
        let result = ConversationEntry::ToolResult {
            call: "c1".to_owned(),
            output: "a\n".to_owned(),
            is_error: false,
        };
        let expected = vec![spoken_text("I look."), call, result];
        let native = r#"{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"I look."},
            {"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]},{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a\n"}],"is_error":false}]}]}"#;
        let claude = [
            r#"{"type":"summary","leafUuid":"x"}"#,
            r#"{"type":"assistant","isSidechain":false,"message":{"role":"assistant","content":[{"type":"text","text":"I look."}]}}"#,
            r#"{"type":"assistant","isSidechain":false,"message":{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]}}"#,
            "not JSON",
            r#"{"type":"user","isSidechain":false,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a\n"}]}}"#,
        ];
        let codex = [
            r#"{"type":"session_meta","payload":{"id":"x"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call","name":"Bash","arguments":"{\"command\":\"ls\"}","call_id":"c1"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a\n"}}"#,
        ];
        for text in [native.to_owned(), claude.join("\n"), codex.join("\n")] {
            let found = run_with(&[("iteration-1/transcripts/a.jsonl", &text)]);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].entries, expected, "{text}");
        }
    }

    #[test]
    fn a_continued_conversation_is_not_repeated_and_a_sub_agent_has_its_own() {
        let message = |text: &str| format!(r#"{{"role":"assistant","content":"{text}"}}"#);
        let first = format!(r#"{{"messages":[{}]}}"#, message("one"));
        let second = format!(r#"{{"messages":[{},{}]}}"#, message("one"), message("two"));
        let found = run_with(&[
            ("iteration-1/transcripts/conversation.json", &first),
            ("iteration-2/transcripts/conversation.json", &second),
        ]);
        let entries: Vec<_> = found.iter().map(|one| (one.iteration, one.entries.clone())).collect();
        assert_eq!(entries, [(1, vec![spoken_text("one")]), (2, vec![spoken_text("two")])]);

        let line = r#"{"isSidechain":true,"agentId":"a7","message":{"role":"assistant","content":"below"}}"#;
        let found = run_with(&[("iteration-1/transcripts/a.jsonl", line)]);
        assert_eq!((found[0].agent.as_str(), &found[0].entries), ("a7", &vec![spoken_text("below")]));
    }

    #[test]
    fn conversation_of_a_long_transcript_is_bounded() {
        let message = format!(r#"{{"role":"user","content":"{}"}}"#, "é".repeat(100_000));
        let text = format!(r#"{{"messages":[{}]}}"#, vec![message; 60].join(","));
        let found = run_with(&[("iteration-1/transcripts/conversation.json", &text)]);
        let bytes: usize =
            found[0].entries.iter().map(|entry| serde_json::to_string(entry).unwrap().len()).sum();
        assert!(bytes < MAX_TOTAL_BYTES + 60 * 100, "{bytes}");
        let ConversationEntry::Told { text } = &found[0].entries[0] else { panic!("{:?}", found[0]) };
        assert!(text.ends_with("… (shortened from 200000 bytes)"));
    }
}
