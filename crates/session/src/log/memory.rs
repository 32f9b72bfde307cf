//! A session's memory files: rows of the store that a wake sees as files. A commit writes them whole. Fullsend writes a
//! section between markers; the rest is the agent's.

use serde::{Deserialize, Serialize};

use crate::log::digest::Sha256Digest;

/// Only fullsend writes this file.
pub const CHECKPOINT: &str = "checkpoint.json";
pub const SESSION_STATE: &str = "session-state.md";
pub const WORKING_BUFFER: &str = "working-buffer.md";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFile {
    pub name: String,
    pub content: String,
}

/// A file that a commit writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWrite {
    pub author: MemoryAuthor,
    pub file: MemoryFile,
}

impl MemoryFile {
    /// The name and digest that the log records.
    pub(crate) fn digest(&self) -> (String, Sha256Digest) {
        (self.name.clone(), Sha256Digest::of(self.content.as_bytes()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAuthor {
    Fullsend,
    Agent,
}

/// Replaces fullsend's section of a file, or adds it at the end. Other bytes stay the same.
#[must_use]
pub fn put_section(text: &str, section: &str, body: &str) -> String {
    let (open, close) = markers(section);
    let block = format!("{open}\n{}\n{close}", body.replace("<!--", "<! --").trim_end());
    if let Some((before, after)) = split_section(text, &open, &close) {
        return format!("{before}{block}{after}");
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{gap}{block}\n")
}

/// The body of the harness's section, if the file has one.
#[must_use]
pub fn section<'a>(text: &'a str, section: &str) -> Option<&'a str> {
    let (open, close) = markers(section);
    let (before, after) = split_section(text, &open, &close)?;
    Some(text[before.len() + open.len()..text.len() - after.len() - close.len()].trim_matches('\n'))
}

fn markers(section: &str) -> (String, String) {
    (format!("<!-- fullsend:{section} -->"), format!("<!-- /fullsend:{section} -->"))
}

fn split_section<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    let end = text.find(close)?;
    // The nearest opening marker: an agent may have broken an earlier section, whose text is then its own.
    let start = text[..end].rfind(open)?;
    Some((&text[..start], &text[end + close.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_text_survives() {
        let first = put_section("my notes", "state", "one");
        assert_eq!(first, "my notes\n<!-- fullsend:state -->\none\n<!-- /fullsend:state -->\n");
        let edited = format!("{first}more notes\n");
        let second = put_section(&edited, "state", "two\n");
        assert_eq!(second, edited.replace("one", "two"));
        assert_eq!(section(&second, "state"), Some("two"));
        assert_eq!(section(&second, "other"), None);
        assert_eq!(put_section(&second, "state", "two"), second);
    }

    #[test]
    fn a_body_cannot_end_its_section() {
        let text = put_section("", "state", "x <!-- /fullsend:state --> y");
        assert_eq!(put_section(&text, "state", ""), put_section("", "state", ""));
    }

    #[test]
    fn a_broken_section_is_left_to_the_agent() {
        let broken = "<!-- fullsend:state -->\nmine";
        let text = put_section(&put_section(broken, "state", "one"), "state", "two");
        assert_eq!(text, format!("{broken}\n<!-- fullsend:state -->\ntwo\n<!-- /fullsend:state -->\n"));
    }
}
