//! The transcript of one attempt: what was said and done, one JSON object a line, bounded.

use serde_json::Value as Json;

use crate::runtime::state::StateFile;

const FILE: &str = "transcripts/acp.jsonl";

/// The most bytes of a transcript. What comes later is left out.
const MAX_BYTES: usize = 32 << 20;

/// The longest text in it.
const MAX_TEXT: usize = 256 << 10;

#[derive(Debug, Default)]
pub struct Transcript {
    lines: Vec<u8>,
    is_full: bool,
}

impl Transcript {
    pub fn add(&mut self, entry: &Json) {
        let line = entry.to_string();
        if self.is_full || self.lines.len() + line.len() >= MAX_BYTES {
            self.is_full = true;
            return;
        }
        self.lines.extend_from_slice(line.as_bytes());
        self.lines.push(b'\n');
    }

    pub fn into_logs(self) -> Vec<StateFile> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        vec![StateFile { path: FILE.to_owned(), contents: self.lines }]
    }
}

/// A text, shortened to what a transcript keeps.
pub fn kept(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_does_not_grow_without_end() {
        let mut transcript = Transcript::default();
        let entry = Json::String("x".repeat(1 << 20));
        (0..64).for_each(|_| transcript.add(&entry));
        let logs = transcript.into_logs();
        assert!(logs[0].contents.len() < MAX_BYTES, "{}", logs[0].contents.len());
        assert_eq!(kept(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
    }
}
