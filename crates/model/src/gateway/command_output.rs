//! What one command prints, in the several results in which a runtime gives it. A credential may lie across their borders:
//! so each portion is judged with what came before it, and the end of one that may be half of something comes with the
//! next. Made anew for each request from the request's own history, so that nothing has to be remembered and a
//! conversation that is resumed is like any other.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::wire::ToolCall;

/// How much of what came before is looked at once more.
const KEPT: usize = 16 * 1024;

/// A result that holds a part of what a command prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Tells this command from others.
    pub session: String,
    /// Where its words stand in the result.
    pub output: Range<usize>,
    /// Whether it goes on.
    pub is_running: bool,
}

/// How a runtime gives output in portions.
#[derive(Clone, Copy, Debug)]
pub struct ChunkFormat {
    /// The portion that a result is; `None` for one that stands for itself.
    pub read: fn(&ToolCall, &str) -> Option<OutputChunk>,
    /// Where the end of a portion begins that must wait for the next one.
    pub waits_from: fn(&str) -> usize,
}

impl ChunkFormat {
    /// Every result stands for itself.
    pub const NONE: Self = Self { read: |_, _| None, waits_from: str::len };
}

/// Where the words of a portion begin in a text, and what was printed before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierOutput<'a> {
    pub at: usize,
    pub before: &'a str,
}

/// A result as it is to be judged.
#[derive(Debug, PartialEq, Eq)]
pub struct PlacedText<'t> {
    pub text: Cow<'t, str>,
    at: Option<usize>,
    before: String,
}

impl<'t> PlacedText<'t> {
    /// A text that stands for itself.
    pub fn alone(text: &'t str) -> Self {
        Self { text: Cow::Borrowed(text), at: None, before: String::new() }
    }

    pub fn continued(&self) -> Option<EarlierOutput<'_>> {
        self.at.map(|at| EarlierOutput { at, before: &self.before })
    }
}

/// The commands of one request that are under way.
pub struct CommandOutputs {
    how: ChunkFormat,
    running: HashMap<String, RunningCommand>,
}

#[derive(Default)]
struct RunningCommand {
    /// The end of what was given, as it came.
    given: String,
    /// What waits for the next portion.
    waiting: String,
}

impl CommandOutputs {
    pub fn new(how: ChunkFormat) -> Self {
        Self { how, running: HashMap::new() }
    }

    /// The next result of the conversation in its place.
    pub fn place<'t>(&mut self, call: Option<&ToolCall>, text: &'t str) -> PlacedText<'t> {
        // Nothing can be put in the place of no text.
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
        let (start, rest) = (output.start, &text[output.end..]);
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

    /// `>` goes on, `.` does not; what stands after the last space waits.
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
    fn each_command_goes_on_where_it_was() {
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
    fn what_came_before_is_bounded() {
        let mut outputs = CommandOutputs::new(HOW);
        for _ in 0..3 {
            outputs.place(Some(&call(Some("a"))), &format!(">{} ", "é".repeat(KEPT)));
        }
        assert!(outputs.running["a"].given.len() <= KEPT);
    }
}
