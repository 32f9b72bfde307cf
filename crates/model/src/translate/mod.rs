//! Translation where the runtime and the service speak different wire formats: one file for each direction. Everything that the
//! other format can carry is carried. What it cannot carry is refused with its name, unless leaving it out changes nothing
//! that the model reads or does; those cases are listed in `docs/models.md`.

mod chat_to_messages;
mod messages_to_chat;
#[cfg(test)]
mod tests;

pub use messages_to_chat::OutputLimit;

use crate::wire::error::WireError;
use crate::wire::sse::FrameTooLarge;
use crate::wire::{Wire, codec};
use chat_to_messages::MessagesStream;
use std::fmt;

/// A request that the other wire format cannot carry.
#[derive(Debug)]
pub struct TranslateError {
    to: Wire,
    reason: String,
}

impl TranslateError {
    pub(crate) fn new(to: Wire, reason: impl Into<String>) -> Self {
        Self { to, reason: reason.into() }
    }
}

impl fmt::Display for TranslateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request cannot be sent to {}: {}", self.to.path(), self.reason)
    }
}

impl std::error::Error for TranslateError {}

/// The wire format of a service into which requests of a runtime are translated. `None`: there is no translation.
pub fn target(from: Wire, taken: &[Wire]) -> Option<Wire> {
    (from == Wire::Messages && taken.contains(&Wire::Chat)).then_some(Wire::Chat)
}

/// The body of a request in the service's format.
pub(crate) fn request(to: Wire, body: &[u8], limit: OutputLimit) -> Result<Vec<u8>, TranslateError> {
    messages_to_chat::request(body, limit).map_err(|reason| TranslateError::new(to, reason))
}

/// A whole answer of the service in the runtime's format.
pub(crate) fn answer(from: Wire, to: Wire, body: &[u8]) -> Result<Vec<u8>, WireError> {
    let answer = chat_to_messages::mended(codec::read_answer(from, body)?);
    Ok(codec::write_answer(to, &answer).to_string().into_bytes())
}

/// The words for a conversation that does not fit, by which Claude Code knows that it should compact.
const TOO_LONG: &str = "prompt is too long";

/// An error of the service in the runtime's format, with the service's own words.
pub(crate) fn fault(from: Wire, to: Wire, status: u16, body: &[u8]) -> Vec<u8> {
    let mut fault = codec::read_fault(from, status, body);
    if codec::is_too_long(status, body) && !fault.message.contains(TOO_LONG) {
        fault.message = format!("{TOO_LONG}: {}", fault.message);
    }
    codec::write_fault(to, &fault).to_string().into_bytes()
}

/// A streamed answer of the service in the runtime's format.
pub(crate) struct StreamTranslator(MessagesStream);

impl StreamTranslator {
    pub(crate) fn new() -> Self {
        Self(MessagesStream::default())
    }

    /// What the bytes add to the translated stream. `Err`: the stream is broken.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, BrokenStream> {
        self.0.push(bytes)
    }
}

#[derive(Debug)]
pub(crate) struct BrokenStream;

impl From<FrameTooLarge> for BrokenStream {
    fn from(_: FrameTooLarge) -> Self {
        Self
    }
}

impl From<WireError> for BrokenStream {
    fn from(_: WireError) -> Self {
        Self
    }
}
