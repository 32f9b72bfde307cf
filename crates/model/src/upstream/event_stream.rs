//! The event stream of AWS (`application/vnd.amazon.eventstream`): frames with a length, headers, a payload and two
//! checksums. Those of a model's answer become the server-sent events that the vendor itself sends.

use bytes::{Bytes, BytesMut};
use data_encoding::BASE64;
use serde_json::{Value, json};

/// Larger than any event of a model.
const MAX_FRAME: usize = 16 << 20;
const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// The type of a header's value that is a text.
const TEXT: u8 = 7;

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
        if !fits || crc32(&prelude[..8]) != number(prelude, 8) {
            return Err(BrokenFrame);
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let frame = self.buffer.split_to(total).freeze();
        let end = total - CHECKSUM;
        if crc32(&frame[..end]) != number(&frame, end) {
            return Err(BrokenFrame);
        }
        let payload = &frame[PRELUDE + headers..end];
        event(&frame[PRELUDE..PRELUDE + headers], payload).map(Some)
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn event(headers: &[u8], payload: &[u8]) -> Result<Bytes, BrokenFrame> {
    let value: Value = serde_json::from_slice(payload).map_err(|_| BrokenFrame)?;
    match text_header(headers, ":message-type")? {
        Some("event") => {
            let bytes = value["bytes"].as_str().ok_or(BrokenFrame)?;
            let data = BASE64.decode(bytes.as_bytes()).map_err(|_| BrokenFrame)?;
            let event: Value = serde_json::from_slice(&data).map_err(|_| BrokenFrame)?;
            let kind = event["type"].as_str().ok_or(BrokenFrame)?;
            Ok(format!("event: {kind}\ndata: {event}\n\n").into())
        }
        Some("exception" | "error") => {
            let name = text_header(headers, ":exception-type")?.unwrap_or("error");
            let kind = match name {
                "throttlingException" => "rate_limit_error",
                "serviceUnavailableException" | "modelTimeoutException" => "overloaded_error",
                "validationException" => "invalid_request_error",
                _ => "api_error",
            };
            let message = value["message"].as_str().unwrap_or(name);
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

/// CRC-32 as in zip files.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// Frames as AWS sends them.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut lines = Vec::new();
        for (name, value) in headers {
            lines.push(u8::try_from(name.len()).unwrap());
            lines.extend_from_slice(name.as_bytes());
            lines.push(TEXT);
            lines.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
            lines.extend_from_slice(value.as_bytes());
        }
        let total = u32::try_from(PRELUDE + lines.len() + payload.len() + CHECKSUM).unwrap();
        let mut out = total.to_be_bytes().to_vec();
        out.extend_from_slice(&u32::try_from(lines.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&crc32(&out).to_be_bytes());
        out.extend_from_slice(&lines);
        out.extend_from_slice(payload.as_bytes());
        let sum = crc32(&out);
        out.extend_from_slice(&sum.to_be_bytes());
        out
    }

    pub(crate) fn chunk(event: &str) -> Vec<u8> {
        let payload = json!({ "bytes": BASE64.encode(event.as_bytes()), "p": "abc" }).to_string();
        frame(&[(":message-type", "event"), (":event-type", "chunk")], &payload)
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
    use super::testing::{chunk, frame};
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn events_pass_whatever_the_borders_of_portions_are() {
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
