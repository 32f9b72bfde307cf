//! The event stream of AWS (`application/vnd.amazon.eventstream`): frames with a length, headers, a payload and two
//! checksums. Those of a model's answer become the server-sent events that the vendor itself sends, and back again for a
//! client that wants them in frames.

use crate::wire::sse::{SseDecoder, SseFrame};
use bytes::{Bytes, BytesMut};
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Larger than any event of a model.
const MAX_FRAME: usize = 16 << 20;
const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// The type of a header's value that is a text.
const TEXT: u8 = 7;

pub(crate) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

#[derive(Default)]
pub(super) struct EventStreamDecoder {
    buffer: BytesMut,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenFrame;

impl EventStreamDecoder {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next event as a server-sent one; `None`: more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, BrokenFrame> {
        let Some(prelude) = self.buffer.get(..PRELUDE) else { return Ok(None) };
        let total = number(prelude, 0) as usize;
        let headers = number(prelude, 4) as usize;
        let fits = total <= MAX_FRAME && PRELUDE + headers + CHECKSUM <= total;
        if !fits || crc32fast::hash(&prelude[..8]) != number(prelude, 8) {
            return Err(BrokenFrame);
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let frame = self.buffer.split_to(total).freeze();
        let end = total - CHECKSUM;
        if crc32fast::hash(&frame[..end]) != number(&frame, end) {
            return Err(BrokenFrame);
        }
        let payload = &frame[PRELUDE + headers..end];
        event(&frame[PRELUDE..PRELUDE + headers], payload).map(Some)
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The content of a frame: an event of the vendor in `bytes`, or an error message.
#[derive(Deserialize)]
struct PayloadForm<'a> {
    #[serde(borrow)]
    bytes: Option<Cow<'a, str>>,
    #[serde(borrow, alias = "Message")]
    message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct EventForm<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

fn event(headers: &[u8], payload: &[u8]) -> Result<Bytes, BrokenFrame> {
    let payload: PayloadForm<'_> = serde_json::from_slice(payload).map_err(|_| BrokenFrame)?;
    match text_header(headers, ":message-type")? {
        Some("event") => {
            let bytes = payload.bytes.ok_or(BrokenFrame)?;
            let data = BASE64.decode(bytes.as_bytes()).map_err(|_| BrokenFrame)?;
            let data = String::from_utf8(data).map_err(|_| BrokenFrame)?;
            let EventForm { kind } = serde_json::from_str(&data).map_err(|_| BrokenFrame)?;
            if kind.contains(char::is_control) {
                return Err(BrokenFrame);
            }
            // Between values only, where JSON has blanks: a line of a server-sent event ends with them.
            Ok(SseFrame::new(kind, data.replace(['\r', '\n'], " ")).encode().into())
        }
        Some("exception" | "error") => {
            let name = text_header(headers, ":exception-type")?.unwrap_or("error");
            let kind = match name {
                "throttlingException" => "rate_limit_error",
                "serviceUnavailableException" | "modelTimeoutException" => "overloaded_error",
                "validationException" => "invalid_request_error",
                _ => "api_error",
            };
            let message = payload.message.as_deref().unwrap_or(name);
            let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
            Ok(format!("event: error\ndata: {error}\n\n").into())
        }
        _ => Err(BrokenFrame),
    }
}

/// All headers of these frames are texts.
fn text_header<'a>(mut headers: &'a [u8], wanted: &str) -> Result<Option<&'a str>, BrokenFrame> {
    while let Some((length, rest)) = headers.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length)).ok_or(BrokenFrame)?;
        let (kind, rest) = rest.split_first().ok_or(BrokenFrame)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(BrokenFrame)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (value, rest) = rest.split_at_checked(length).ok_or(BrokenFrame)?;
        if *kind != TEXT {
            return Err(BrokenFrame);
        }
        if name == wanted.as_bytes() {
            return std::str::from_utf8(value).map(Some).map_err(|_| BrokenFrame);
        }
        headers = rest;
    }
    Ok(None)
}

/// A frame with these headers, which are texts.
fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        lines.push(u8::try_from(name.len()).unwrap_or_default());
        lines.extend_from_slice(name.as_bytes());
        lines.push(TEXT);
        lines.extend_from_slice(&u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
        lines.extend_from_slice(value.as_bytes());
    }
    let total = PRELUDE + lines.len() + payload.len() + CHECKSUM;
    let mut out = Vec::with_capacity(total);
    for number in [total, lines.len()] {
        out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out.extend_from_slice(&lines);
    out.extend_from_slice(payload.as_bytes());
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    out
}

/// Whole server-sent events of the vendor as AWS sends them: an error is an exception, everything else a chunk.
pub(crate) fn write(events: &[u8]) -> Vec<u8> {
    let mut decoder = SseDecoder::default();
    let mut out = Vec::new();
    // They were read with the same bound.
    drop(decoder.push(events));
    while let Some(SseFrame { event, data }) = decoder.next_frame() {
        if event == "error" {
            out.extend(write_error(&data));
            continue;
        }
        let payload = json!({ "bytes": BASE64.encode(data.as_bytes()) }).to_string();
        out.extend(frame(&CHUNK, &payload));
    }
    out
}

const CHUNK: [(&str, &str); 3] =
    [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")];

fn write_error(data: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let text_of = |place: &str| value.pointer(place).and_then(Value::as_str).unwrap_or_default();
    let name = match text_of("/error/type") {
        "rate_limit_error" => "throttlingException",
        "overloaded_error" => "serviceUnavailableException",
        "invalid_request_error" | "permission_error" => "validationException",
        _ => "internalServerException",
    };
    let headers =
        [(":exception-type", name), (":content-type", "application/json"), (":message-type", "exception")];
    frame(&headers, &json!({ "message": text_of("/error/message") }).to_string())
}

/// Frames as AWS sends them.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn chunk(event: &str) -> Vec<u8> {
        let payload = json!({ "bytes": BASE64.encode(event.as_bytes()), "p": "abc" }).to_string();
        frame(&[(":message-type", "event"), (":event-type", "chunk")], &payload)
    }

    /// All events of a stream, as server-sent ones.
    pub(crate) fn events(bytes: &[u8]) -> String {
        let mut decoder = EventStreamDecoder::default();
        decoder.push(bytes);
        let next = || decoder.next().unwrap();
        let events: Vec<u8> = std::iter::from_fn(next).flatten().collect();
        assert!(decoder.is_empty(), "it ends within a frame");
        String::from_utf8(events).unwrap()
    }

    /// One server-sent event of the vendor in a frame.
    pub(crate) fn framed(event: &[u8]) -> Vec<u8> {
        let text = std::str::from_utf8(event).unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        chunk(data)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::chunk;
    use super::*;

    #[test]
    fn events_pass_however_they_are_split() {
        let mut bytes = chunk(r#"{"type":"message_stop"}"#);
        bytes.extend(frame(
            &[(":message-type", "exception"), (":exception-type", "throttlingException")],
            r#"{"message":"slow down"}"#,
        ));
        let mut decoder = EventStreamDecoder::default();
        let mut out = String::new();
        for byte in bytes {
            decoder.push(&[byte]);
            while let Some(event) = decoder.next().unwrap() {
                out.push_str(std::str::from_utf8(&event).unwrap());
            }
        }
        assert!(decoder.is_empty());
        assert!(
            out.starts_with(
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\nevent: error\ndata: {"
            ),
            "{out}"
        );
        assert!(out.contains("\"rate_limit_error\"") && out.contains("\"slow down\""), "{out}");
    }

    #[test]
    fn a_frame_with_a_wrong_byte_is_broken() {
        let good = chunk(r#"{"type":"message_stop"}"#);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let mut decoder = EventStreamDecoder::default();
            decoder.push(&bytes);
            assert_eq!(decoder.next(), Err(BrokenFrame), "byte {at}");
        }
    }
}
