//! Inspects a streamed answer while it passes. Text is held back by the length of the longest pattern; a tool call is held
//! until it is complete; everything else passes at once. Frames keep the upstream's bytes unless a verdict changes them.

use super::inspect::{Inspect, Inspected, Verdict};
use crate::wire::assemble::AnswerAssembler;
use crate::wire::codec;
use crate::wire::fault::{Fault, FaultKind};
use crate::wire::rewrite;
use crate::wire::sse::SseFrame;
use crate::wire::{Delta, Wire};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Inspection reads the whole pending text, so it runs only after at least this much new text.
const SLACK_BYTES: usize = 512;

pub(super) struct StreamFilter {
    inspect: Inspect,
    wire: Wire,
    hold_back: usize,
    /// Frames that wait, each with its part of the pending text.
    waiting: VecDeque<(SseFrame, usize)>,
    pending: String,
    /// The current text block: as received, and as released.
    original: String,
    released: String,
    /// Formats that repeat a whole text at its end must repeat the released text.
    rewrites: HashMap<String, String>,
    calls: AnswerAssembler,
    /// The call that is held until it is complete, and its frames.
    held: Option<usize>,
    call_frames: Vec<SseFrame>,
    passed_calls: usize,
    /// The replacement of each denied call.
    denied: BTreeMap<usize, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterStop {
    /// The guard stops the run.
    Stop(String),
    /// This answer cannot continue.
    Fault(Fault),
}

impl StreamFilter {
    pub(super) fn new(inspect: Inspect, wire: Wire, hold_back: usize) -> Self {
        Self {
            inspect,
            wire,
            hold_back,
            waiting: VecDeque::new(),
            pending: String::new(),
            original: String::new(),
            released: String::new(),
            rewrites: HashMap::new(),
            calls: AnswerAssembler::default(),
            held: None,
            call_frames: Vec::new(),
            passed_calls: 0,
            denied: BTreeMap::new(),
        }
    }

    /// Returns the frames that may pass now.
    pub(super) fn push(&mut self, frame: SseFrame, deltas: &[Delta]) -> Result<Vec<SseFrame>, FilterStop> {
        let mut out = Vec::new();
        let mut frame = Some(frame);
        for delta in deltas {
            match delta {
                Delta::Text { text, .. } => {
                    self.pending.push_str(text);
                    self.original.push_str(text);
                    self.waiting.extend(frame.take().map(|frame| (frame, text.len())));
                }
                Delta::ToolCall { block, .. } => {
                    self.end_text(&mut out)?;
                    self.calls.push(delta.clone()).map_err(broken)?;
                    self.held = Some(*block);
                    self.call_frames.extend(frame.take());
                }
                Delta::ToolInput { .. } => {
                    self.calls.push(delta.clone()).map_err(broken)?;
                    self.call_frames.extend(frame.take());
                }
                Delta::BlockEnd { block } => {
                    self.end_text(&mut out)?;
                    if self.held == Some(*block) {
                        // In a format without block ends, the next block's first frame ends this one; it is not
                        // part of the call.
                        if deltas.iter().all(|delta| delta.block() == Some(*block)) {
                            self.call_frames.extend(frame.take());
                        }
                        self.end_call(*block, &mut out)?;
                    }
                }
                Delta::Finish { .. } | Delta::End => self.end_text(&mut out)?,
                // The stream has ended: pass the held text, drop an incomplete call.
                Delta::Error(_) => {
                    self.end_text(&mut out)?;
                    self.held = None;
                    self.call_frames.clear();
                }
                _ => {}
            }
        }
        match frame {
            // Another frame of the call that is held.
            Some(frame) if self.held.is_some() => self.call_frames.push(frame),
            Some(frame) => self.pass(frame, deltas, &mut out),
            None => {}
        }
        if self.pending.len() > self.hold_back + SLACK_BYTES.max(self.hold_back) {
            self.judge_text()?;
            self.release(self.hold_back, &mut out);
        }
        Ok(out)
    }

    fn pass(&mut self, frame: SseFrame, deltas: &[Delta], out: &mut Vec<SseFrame>) {
        let mut frame = frame;
        if !self.rewrites.is_empty() {
            let data = rewrite::replace_strings(frame.data.as_bytes(), &self.rewrites);
            frame.data = String::from_utf8(data).unwrap_or_default();
        }
        if !self.denied.is_empty() && deltas.iter().any(|delta| matches!(delta, Delta::Finish { .. })) {
            frame = codec::without_calls(self.wire, frame, &self.denied, self.passed_calls > 0);
        }
        if self.waiting.is_empty() {
            out.push(frame);
        } else {
            self.waiting.push_back((frame, 0));
        }
    }

    fn judge_text(&mut self) -> Result<(), FilterStop> {
        match (self.inspect)(&Inspected::Text { text: &self.pending }) {
            Verdict::Pass => Ok(()),
            Verdict::Replace(text) => {
                self.replace_pending(text);
                Ok(())
            }
            Verdict::Deny(reason) => {
                self.replace_pending(format!(
                    "[fullsend withheld this text: {reason}. Continue the task without it.]"
                ));
                Ok(())
            }
            Verdict::Stop(reason) => Err(FilterStop::Stop(reason)),
        }
    }

    /// The first waiting frame carries the new text, the others nothing.
    fn replace_pending(&mut self, text: String) {
        let mut first = true;
        for (frame, share) in self.waiting.iter_mut().filter(|(_, share)| *share > 0) {
            let carried = if first { text.as_str() } else { "" };
            *frame = codec::set_text(self.wire, std::mem::take(frame), carried);
            *share = carried.len();
            first = false;
        }
        self.pending = text;
    }

    /// Releases frames whose text lies before the last `keep` bytes.
    fn release(&mut self, keep: usize, out: &mut Vec<SseFrame>) {
        let mut free = self.pending.len().saturating_sub(keep);
        let mut gone = 0;
        while self.waiting.front().is_some_and(|(_, share)| *share <= free) {
            let Some((frame, share)) = self.waiting.pop_front() else { break };
            free -= share;
            gone += share;
            out.push(frame);
        }
        self.released.push_str(&self.pending[..gone]);
        self.pending.drain(..gone);
    }

    fn end_text(&mut self, out: &mut Vec<SseFrame>) -> Result<(), FilterStop> {
        let in_parts = !self.released.is_empty();
        if !self.pending.is_empty() {
            self.judge_text()?;
        }
        self.release(0, out);
        if in_parts && let Verdict::Stop(reason) = (self.inspect)(&Inspected::Said { text: &self.original }) {
            return Err(FilterStop::Stop(reason));
        }
        out.extend(self.waiting.drain(..).map(|(frame, _)| frame));
        let original = std::mem::take(&mut self.original);
        let released = std::mem::take(&mut self.released);
        if original != released {
            self.rewrites.insert(original, released);
        }
        Ok(())
    }

    fn end_call(&mut self, block: usize, out: &mut Vec<SseFrame>) -> Result<(), FilterStop> {
        let frames = std::mem::take(&mut self.call_frames);
        self.held = None;
        let (name, verdict) = match self.calls.tool_call(block) {
            Some(Ok(call)) => {
                let subject = Inspected::ToolCall { call_id: &call.id, tool: &call.name, input: &call.input };
                let verdict = (self.inspect)(&subject);
                (call.name, verdict)
            }
            Some(Err(error)) => ("a tool".to_owned(), Verdict::Deny(error.to_string())),
            None => return Ok(()),
        };
        match verdict {
            Verdict::Pass => {
                self.passed_calls += 1;
                out.extend(frames);
                Ok(())
            }
            Verdict::Stop(reason) => Err(FilterStop::Stop(reason)),
            Verdict::Replace(reason) | Verdict::Deny(reason) => {
                let text = format!("[fullsend denied the call to {name}: {reason}]");
                let first = frames.first().cloned().unwrap_or_default();
                out.extend(codec::text_block(self.wire, &first, block, &text));
                self.denied.insert(block, text);
                Ok(())
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the form that map_err takes")]
fn broken(error: crate::wire::assemble::AssembleError) -> FilterStop {
    FilterStop::Fault(Fault::new(FaultKind::Upstream, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::assemble::answer_deltas;
    use crate::wire::codec::{FrameReader, FrameWriter};
    use crate::wire::{ContentBlock, ModelAnswer, StopReason, TokenUsage, ToolCall};
    use proptest::prelude::*;
    use serde_json::json;
    use std::sync::Arc;

    const SECRET: &str = "sk-0123456789";

    fn redacting() -> Inspect {
        Arc::new(|subject| match subject {
            Inspected::Text { text } if text.contains(SECRET) => {
                Verdict::Replace(text.replace(SECRET, "[gone]"))
            }
            Inspected::ToolCall { tool: "Evil", .. } => Verdict::Deny("not this one".into()),
            Inspected::ToolCall { tool: "Fatal", .. } => Verdict::Stop("the end".into()),
            _ => Verdict::Pass,
        })
    }

    fn call(name: &str) -> ContentBlock {
        ContentBlock::ToolCall(ToolCall {
            id: format!("c-{name}"),
            name: name.into(),
            input: json!({"a": 1}),
        })
    }

    /// What the client gets, as an answer and as raw frames.
    fn pass_in(wire: Wire, blocks: Vec<ContentBlock>) -> Result<(ModelAnswer, String), FilterStop> {
        pass_by(redacting(), wire, blocks)
    }

    fn pass_by(
        inspect: Inspect,
        wire: Wire,
        blocks: Vec<ContentBlock>,
    ) -> Result<(ModelAnswer, String), FilterStop> {
        let stop = StopReason::natural(&blocks);
        let answer =
            ModelAnswer { id: "m".into(), model: "m".into(), blocks, stop, usage: TokenUsage::default() };
        let mut writer = FrameWriter::new(wire);
        let mut reader = FrameReader::new(wire);
        let mut gate = StreamFilter::new(inspect, wire, SECRET.len());
        let mut fold = AnswerAssembler::default();
        let mut after = FrameReader::new(wire);
        let mut raw = String::new();
        for frame in answer_deltas(&answer).iter().flat_map(|delta| writer.write(delta)) {
            let deltas = reader.read(&frame).unwrap();
            for passed in gate.push(frame, &deltas)? {
                raw.push_str(&passed.data);
                for delta in after.read(&passed).unwrap() {
                    fold.push(delta).unwrap();
                }
            }
        }
        Ok((fold.finish().unwrap(), raw))
    }

    fn pass(blocks: Vec<ContentBlock>) -> Result<ModelAnswer, FilterStop> {
        pass_in(Wire::Messages, blocks).map(|(answer, _)| answer)
    }

    #[test]
    fn a_denied_call_becomes_a_sentence() {
        let answer = pass(vec![ContentBlock::Text("hm".into()), call("Evil")]).unwrap();
        assert_eq!(
            answer.blocks[1],
            ContentBlock::Text("[fullsend denied the call to Evil: not this one]".into())
        );
        assert_eq!(answer.stop, StopReason::EndTurn);
        let answer = pass(vec![call("Evil"), call("Bash")]).unwrap();
        assert_eq!((&answer.blocks[1], answer.stop), (&call("Bash"), StopReason::ToolUse));
    }

    #[test]
    fn a_stop_lets_nothing_of_the_call_pass() {
        for wire in Wire::ALL {
            let outcome = pass_in(wire, vec![ContentBlock::Text("hm".into()), call("Fatal")]);
            assert_eq!(outcome, Err(FilterStop::Stop("the end".into())), "{wire:?}");
        }
    }

    #[test]
    fn finding_of_the_complete_text_ends_the_run() {
        let scattered = |subject: &Inspected<'_>| match subject {
            Inspected::Text { text } | Inspected::Said { text }
                if text.contains('<') && text.contains('>') =>
            {
                Verdict::Stop("put together".into())
            }
            _ => Verdict::Pass,
        };
        for wire in Wire::ALL {
            let text = format!("<{}>", "word ".repeat(2000));
            assert_eq!(
                pass_by(Arc::new(scattered), wire, vec![ContentBlock::Text(text)]),
                Err(FilterStop::Stop("put together".into())),
                "{wire:?}"
            );
            let text = format!("<{}", "word ".repeat(2000));
            assert!(pass_by(Arc::new(scattered), wire, vec![ContentBlock::Text(text)]).is_ok(), "{wire:?}");
        }
    }

    #[test]
    fn a_denied_call_is_a_sentence_in_every_format_and_nowhere_a_call() {
        for wire in Wire::ALL {
            let (answer, raw) = pass_in(wire, vec![ContentBlock::Text("hm".into()), call("Evil")]).unwrap();
            let said = answer.blocks.iter().filter_map(ContentBlock::as_text).collect::<String>();
            assert!(said.contains("[fullsend denied the call to Evil: not this one]"), "{wire:?}: {said}");
            assert!(!raw.contains("c-Evil"), "{wire:?}: {raw}");
            assert_eq!(answer.stop, StopReason::EndTurn, "{wire:?}");
            let (answer, raw) = pass_in(wire, vec![call("Bash"), call("Evil")]).unwrap();
            assert!(answer.blocks.contains(&call("Bash")), "{wire:?}: {:?}", answer.blocks);
            assert!(!raw.contains("c-Evil"), "{wire:?}: {raw}");
            assert_eq!(answer.stop, StopReason::ToolUse, "{wire:?}");
        }
    }

    #[test]
    fn calls_that_come_whole_in_one_frame_are_each_judged() {
        let frame = |delta: serde_json::Value, finish: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            SseFrame::new("", json!({"id": "x", "model": "m", "choices": [choice]}).to_string())
        };
        let whole = |index: usize, name: &str| {
            let function = json!({"name": name, "arguments": "{}"});
            json!({"tool_calls": [{"index": index, "id": format!("c-{name}"), "function": function}]})
        };
        let frames = [
            frame(whole(0, "Bash"), None),
            frame(whole(1, "Evil"), None),
            frame(whole(2, "Read"), None),
            frame(json!({}), Some("tool_calls")),
        ];
        let mut reader = FrameReader::new(Wire::Chat);
        let mut gate = StreamFilter::new(redacting(), Wire::Chat, 8);
        let mut raw = String::new();
        for frame in frames {
            let deltas = reader.read(&frame).unwrap();
            gate.push(frame, &deltas).unwrap().iter().for_each(|passed| raw.push_str(&passed.data));
        }
        assert!(raw.contains("c-Bash") && raw.contains("c-Read") && !raw.contains("c-Evil"), "{raw}");
        assert!(
            raw.contains("denied the call to Evil") && raw.contains(r#""finish_reason":"tool_calls""#),
            "{raw}"
        );
    }

    /// Longer than the smallest hold-back, as keys are.
    fn long_value() -> String {
        (0..90).map(|number| format!("{:08x}/Zq", u32::wrapping_mul(number, 2_654_435_761))).collect()
    }

    /// A text that arrives in pieces of these sizes, redacted.
    fn masked_in_pieces(
        redactor: &Arc<redact::Redactor>,
        wire: Wire,
        text: &str,
        sizes: &[usize],
    ) -> (String, String) {
        let masking = Arc::clone(redactor);
        let inspect: Inspect = Arc::new(move |subject| match subject {
            Inspected::Text { text } => Verdict::Replace(masking.redact(text).into_owned()),
            _ => Verdict::Pass,
        });
        let mut writer = FrameWriter::new(wire);
        let mut reader = FrameReader::new(wire);
        let mut gate = StreamFilter::new(inspect, wire, redactor.reach());
        let mut fold = AnswerAssembler::default();
        let mut after = FrameReader::new(wire);
        let mut raw = String::new();
        let blocks = vec![ContentBlock::Text(text.to_owned())];
        let answer = ModelAnswer {
            id: "m".into(),
            model: "m".into(),
            stop: StopReason::natural(&blocks),
            blocks,
            usage: TokenUsage::default(),
        };
        let pieces = answer_deltas(&answer).into_iter().flat_map(|delta| match delta {
            Delta::Text { block, text } => {
                in_pieces(&text, sizes).map(|text| Delta::Text { block, text }).collect()
            }
            other => vec![other],
        });
        for frame in pieces.collect::<Vec<_>>().iter().flat_map(|delta| writer.write(delta)) {
            let deltas = reader.read(&frame).unwrap();
            for passed in gate.push(frame, &deltas).unwrap() {
                raw.push_str(&passed.data);
                after.read(&passed).unwrap().into_iter().for_each(|delta| fold.push(delta).unwrap());
            }
        }
        (fold.finish().unwrap().blocks.iter().filter_map(ContentBlock::as_text).collect(), raw)
    }

    fn in_pieces(text: &str, sizes: &[usize]) -> impl Iterator<Item = String> {
        let letters: Vec<char> = text.chars().collect();
        let mut at = 0;
        let mut sizes = sizes.iter().copied().cycle();
        std::iter::from_fn(move || {
            let end = (at + sizes.next()?).min(letters.len());
            let piece: String = letters[at..end].iter().collect();
            at = end;
            (!piece.is_empty()).then_some(piece)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The client gets the same as if the whole text were redacted at once, wherever the pieces end.
        #[test]
        fn pieces_do_not_matter(
            parts in proptest::collection::vec(
                prop_oneof![Just(SECRET.to_owned()), Just(long_value()), "[a-zé .-]{0,40}", "[x ]{500,900}"], 1..8),
            sizes in proptest::collection::vec(1..200_usize, 1..6),
        ) {
            let known = [("short", SECRET.to_owned()), ("long", long_value())];
            let redactor = Arc::new(redact::Redactor::with_known(known).unwrap().known_only());
            let text = parts.join(" ");
            for wire in Wire::ALL {
                let (said, raw) = masked_in_pieces(&redactor, wire, &text, &sizes);
                prop_assert_eq!(&said, &redactor.redact(&text), "{:?}", wire);
                prop_assert!(!raw.contains(SECRET) && !raw.contains(&long_value()[..600]), "{:?}", wire);
            }
        }

        #[test]
        fn no_secret_passes_whatever_stands_around_it(parts in proptest::collection::vec(
            prop_oneof![Just(SECRET.to_owned()), "[a-zé -]{0,40}", "s?k?-?0?1?2?", "x{500,700}"], 0..8)) {
            let text = parts.concat();
            prop_assume!(!text.is_empty());
            for wire in Wire::ALL {
                let (answer, raw) = pass_in(wire, vec![ContentBlock::Text(text.clone()), call("Bash")]).unwrap();
                prop_assert_eq!(&answer.blocks[0], &ContentBlock::Text(text.replace(SECRET, "[gone]")), "{:?}", wire);
                prop_assert_eq!(&answer.blocks[1], &call("Bash"));
                prop_assert!(!raw.contains(SECRET), "{:?}: {}", wire, raw);
            }
        }
    }
}
