//! The output of one command that a runtime returns in several tool results. A credential may be split between two of
//! them: each chunk is inspected together with the output before it, and the end of a chunk that may be half of a
//! credential moves to the next one. This is computed for each request from its own history, so no state is needed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::wire::ToolCall;

/// How much of the earlier output is inspected again.
const KEPT: usize = 16 * 1024;

/// A tool result that holds part of a command's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Identifies the command.
    pub session: String,
    /// Where the output is in the result.
    pub output: Range<usize>,
    /// Whether the command still runs.
    pub is_running: bool,
}

/// How a runtime returns a command's output in several results.
#[derive(Clone, Copy, Debug)]
pub struct ChunkFormat {
    /// Reads the chunk in a result; `None` for a result that is complete in itself.
    pub read: fn(&ToolCall, &str) -> Option<OutputChunk>,
    /// Where the part of a chunk starts that must wait for the next one.
    pub waits_from: fn(&str) -> usize,
}

impl ChunkFormat {
    /// Every result is complete in itself.
    pub const NONE: Self = Self { read: |_, _| None, waits_from: str::len };
}

/// Where a chunk starts in a text, and the output before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierOutput<'a> {
    pub at: usize,
    pub before: &'a str,
}

/// A result as it is inspected.
#[derive(Debug, PartialEq, Eq)]
pub struct PlacedText<'t> {
    pub text: Cow<'t, str>,
    at: Option<usize>,
    before: String,
}

impl<'t> PlacedText<'t> {
    /// A text that is complete in itself.
    pub fn alone(text: &'t str) -> Self {
        Self { text: Cow::Borrowed(text), at: None, before: String::new() }
    }

    pub fn continued(&self) -> Option<EarlierOutput<'_>> {
        self.at.map(|at| EarlierOutput { at, before: &self.before })
    }
}

/// The commands of one request that still run.
pub struct CommandOutputs {
    how: ChunkFormat,
    running: HashMap<String, RunningCommand>,
}

#[derive(Default)]
struct RunningCommand {
    /// The end of the output so far.
    given: String,
    /// What waits for the next chunk.
    waiting: String,
}

impl CommandOutputs {
    pub fn new(how: ChunkFormat) -> Self {
        Self { how, running: HashMap::new() }
    }

    /// The next result of the conversation, with earlier output taken into account.
    pub fn place<'t>(&mut self, call: Option<&ToolCall>, text: &'t str) -> PlacedText<'t> {
        // An empty text cannot be replaced.
        let call = call.filter(|_| !text.is_empty());
        let Some(portion) = call.and_then(|call| (self.how.read)(call, text)) else {
            return PlacedText::alone(text);
        };
        let OutputChunk { session, output, is_running } = portion;
        let RunningCommand { given: before, waiting } = self.running.remove(&session).unwrap_or_default();
        let printed = format!("{waiting}{}", &text[output.clone()]);
        let given = if is_running { (self.how.waits_from)(&printed) } else { printed.len() };
        if is_running {
            let (given, waiting) = printed.split_at(given);
            let output =
                RunningCommand { given: end(format!("{before}{given}")), waiting: waiting.to_owned() };
            self.running.insert(session, output);
        }
        let start = output.start;
        let rest = &text[output.end..];
        let placed = format!("{}{}{rest}", &text[..start], &printed[..given]);
        let text = if placed == text { Cow::Borrowed(text) } else { Cow::Owned(placed) };
        PlacedText { text, at: Some(start), before }
    }
}

fn end(mut text: String) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(KEPT));
    text.drain(..from);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `>` still runs, `.` has ended; the text after the last space waits.
    const HOW: ChunkFormat = ChunkFormat {
        read: |call, text| {
            let session = call.input["session"].as_str()?.to_owned();
            Some(OutputChunk { session, output: 1..text.len(), is_running: text.starts_with('>') })
        },
        waits_from: |text| text.rfind(' ').map_or(0, |at| at + 1),
    };

    fn call(session: Option<&str>) -> ToolCall {
        ToolCall { id: "c".into(), name: "Poll".into(), input: json!({ "session": session }) }
    }

    #[track_caller]
    fn check(
        outputs: &mut CommandOutputs,
        session: Option<&str>,
        text: &str,
        expected: (&str, Option<&str>),
    ) {
        let placed = outputs.place(Some(&call(session)), text);
        assert_eq!((&*placed.text, placed.continued().map(|it| it.before)), expected);
        assert!(placed.continued().is_none_or(|it| it.at == 1));
    }

    #[test]
    fn output_of_each_command_is_continued_separately() {
        let mut outputs = CommandOutputs::new(HOW);
        let all = &mut outputs;
        check(all, Some("a"), ">one tw", (">one ", Some("")));
        check(all, None, "alone", ("alone", None));
        check(all, Some("b"), ">other wo", (">other ", Some("")));
        check(all, Some("a"), ">o thr", (">two ", Some("one ")));
        check(all, Some("a"), ">", (">", Some("one two ")));
        check(all, Some("b"), ".rds end", (".words end", Some("other ")));
        assert_eq!(all.place(Some(&call(Some("a"))), "").continued(), None);
        check(all, Some("a"), ".ee", (".three", Some("one two ")));
        check(all, Some("a"), ".ended", (".ended", Some("")));
        assert_eq!(all.place(None, "unknown").continued(), None);
        assert!(all.running.is_empty());
    }

    #[test]
    fn earlier_output_is_bounded() {
        let mut outputs = CommandOutputs::new(HOW);
        for _ in 0..3 {
            outputs.place(Some(&call(Some("a"))), &format!(">{} ", "é".repeat(KEPT)));
        }
        assert!(outputs.running["a"].given.len() <= KEPT);
    }
}
