//! Server-sent events: frames out, frames in. The decoder takes bytes in any portions and gives the same frames;
//! comments, ids and retry hints are dropped, because no model vendor gives them a meaning.

use std::collections::VecDeque;
use std::fmt;

/// No vendor sends frames near this size; a stream that does is broken or hostile.
const MAX_FRAME_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseFrame {
    /// Empty if the sender named no event.
    pub event: String,
    pub data: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct FrameTooLarge;

impl fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a server-sent event is larger than {MAX_FRAME_BYTES} bytes")
    }
}

impl std::error::Error for FrameTooLarge {}

impl SseFrame {
    pub fn new(event: impl Into<String>, data: impl Into<String>) -> Self {
        Self { event: event.into(), data: data.into() }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.data.len() + self.event.len() + 24);
        if !self.event.is_empty() {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(self.event.as_bytes());
            out.push(b'\n');
        }
        for line in self.data.split('\n') {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out.push(b'\n');
        out
    }
}

#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    event: String,
    data: String,
    has_data: bool,
    /// A carriage return ended the last line: a line feed right after it belongs to the same ending.
    after_return: bool,
    started: bool,
    ready: VecDeque<SseFrame>,
}

impl SseDecoder {
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), FrameTooLarge> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let continues_return = self.after_return && at == 0 && rest[0] == b'\n';
            self.after_return = rest[at] == b'\r';
            if !continues_return {
                self.grow(&rest[..at])?;
                self.end_line();
            }
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            self.after_return = false;
            self.grow(rest)?;
        }
        Ok(())
    }

    pub fn next_frame(&mut self) -> Option<SseFrame> {
        self.ready.pop_front()
    }
    fn grow(&mut self, bytes: &[u8]) -> Result<(), FrameTooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > MAX_FRAME_BYTES {
            return Err(FrameTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&bytes).into_owned();
        if !std::mem::replace(&mut self.started, true) && line.starts_with('\u{feff}') {
            line.remove(0);
        }
        if line.is_empty() {
            return self.end_frame();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            _ => {}
        }
    }

    fn end_frame(&mut self) {
        let frame = SseFrame { event: std::mem::take(&mut self.event), data: std::mem::take(&mut self.data) };
        if std::mem::replace(&mut self.has_data, false) {
            self.ready.push_back(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(portions: &[&[u8]]) -> Vec<SseFrame> {
        let mut decoder = SseDecoder::default();
        for portion in portions {
            decoder.push(portion).unwrap();
        }
        std::iter::from_fn(|| decoder.next_frame()).collect()
    }

    #[test]
    fn every_line_ending_and_field_form_is_read() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let frames: Vec<SseFrame> = expected.iter().map(|(e, d)| SseFrame::new(*e, *d)).collect();
            assert_eq!(decode(&[text.as_bytes()]), frames, "{text:?}");
        };
        check("data: a\n\n", &[("", "a")]);
        check("data:a\r\n\r\n", &[("", "a")]);
        check("data: a\r\r", &[("", "a")]);
        check("event: x\ndata: a\ndata: b\n\n", &[("x", "a\nb")]);
        check("data\n\n", &[("", "")]);
        check(": comment\n\nid: 7\nretry: 9\n\n", &[]);
        check("event: lonely\n\ndata: a\n\n", &[("", "a")]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("data: a", &[]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut decoder = SseDecoder::default();
        let portion = vec![b'x'; 1 << 20];
        let refused = (0..20).any(|_| decoder.push(&portion) == Err(FrameTooLarge));
        assert!(refused && decoder.line.len() <= MAX_FRAME_BYTES);
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(
            text in "(event: [a-z]{0,4}|data: ?[a-z:é ]{0,6}|:[a-z]{0,3}|)((\r\n|\n|\r)(event: [a-z]{0,4}|data: ?[a-z:é ]{0,6}|)){0,12}",
            cuts in proptest::collection::vec(0usize..200, 0..12),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut portions = Vec::new();
            let mut from = 0;
            for cut in cuts {
                portions.push(&bytes[from..cut]);
                from = cut;
            }
            portions.push(&bytes[from..]);
            prop_assert_eq!(decode(&portions), decode(&[bytes]));
        }

        #[test]
        fn what_is_encoded_is_decoded(event in "[a-z_.]{0,12}", data in "[^\r]{0,60}") {
            let frame = SseFrame::new(event, data);
            prop_assert_eq!(decode(&[&frame.encode()]), vec![frame]);
        }
    }
}
