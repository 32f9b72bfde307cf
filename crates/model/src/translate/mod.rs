//! Translation where the runtime and the service use different wire formats. Requests: one file per source format. Answers:
//! `chat_answers.rs`. The target is always Chat Completions. A field that Chat Completions lacks is refused by name, unless
//! the model's answer does not depend on it; those cases are listed in `docs/models.md`.

mod called_tools;
mod chat_answers;
mod chat_form;
mod messages_to_chat;
mod responses_to_chat;
#[cfg(test)]
mod tests;

pub use chat_form::OutputLimit;

use crate::wire::error::WireError;
use crate::wire::sse::FrameTooLarge;
use crate::wire::{ModelAnswer, Wire, codec};
use called_tools::CalledTools;
use chat_answers::TranslatedStream;
use std::fmt;

/// A request that the other wire format cannot express.
#[derive(Debug)]
pub struct TranslateError {
    to: Wire,
    reason: String,
}

impl fmt::Display for TranslateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request cannot be sent to {}: {}", self.to.path(), self.reason)
    }
}

impl std::error::Error for TranslateError {}

/// The format to translate a runtime's requests into. `None`: there is no translation.
pub fn target(from: Wire, accepted: &[Wire]) -> Option<Wire> {
    let to_chat = from != Wire::Chat && accepted.contains(&Wire::Chat);
    to_chat.then_some(Wire::Chat)
}

/// A request in the service's wire format, and the way back for its answer.
pub(crate) struct TranslatedRequest {
    pub(crate) body: Vec<u8>,
    pub(crate) answers: AnswerTranslation,
}

/// From Chat Completions into the wire format of the runtime.
pub(crate) struct AnswerTranslation {
    to: Wire,
    tools: CalledTools,
}

pub(crate) fn request(
    from: Wire,
    body: &[u8],
    limit: OutputLimit,
) -> Result<TranslatedRequest, TranslateError> {
    let translated = match from {
        Wire::Messages => messages_to_chat::request(body, limit).map(|body| (body, CalledTools::default())),
        Wire::Responses => responses_to_chat::request(body, limit),
        Wire::Chat => Ok((body.to_vec(), CalledTools::default())),
    };
    let (body, tools) = translated.map_err(|reason| TranslateError { to: Wire::Chat, reason })?;
    Ok(TranslatedRequest { body, answers: AnswerTranslation { to: from, tools } })
}

/// Claude Code compacts the conversation when an error contains this text.
const TOO_LONG: &str = "prompt is too long";

impl AnswerTranslation {
    /// A whole answer of the service.
    pub(crate) fn answer(&self, body: &[u8]) -> Result<Vec<u8>, WireError> {
        let answer = chat_answers::with_complete_calls(codec::read_answer(Wire::Chat, body)?);
        let answer = match self.to {
            Wire::Responses => ModelAnswer { blocks: self.tools.items(answer.blocks), ..answer },
            Wire::Messages | Wire::Chat => answer,
        };
        Ok(codec::write_answer(self.to, &answer).to_string().into_bytes())
    }

    /// An error of the service, with the service's own words.
    pub(crate) fn fault(&self, status: u16, body: &[u8]) -> Vec<u8> {
        let mut fault = codec::read_fault(Wire::Chat, status, body);
        let is_too_long = codec::is_too_long(status, body) && !fault.message.contains(TOO_LONG);
        if is_too_long {
            fault.message = format!("{TOO_LONG}: {}", fault.message);
        }
        codec::write_fault(self.to, &fault).to_string().into_bytes()
    }

    /// A streamed answer of the service.
    pub(crate) fn stream(self) -> StreamTranslator {
        StreamTranslator(TranslatedStream::new(self.to, self.tools))
    }
}

pub(crate) struct StreamTranslator(TranslatedStream);

impl StreamTranslator {
    /// What the bytes add to the translated stream. `Err`: the stream is broken.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, BrokenStream> {
        self.0.push(bytes)
    }

    /// What the end of the service's stream adds; nothing if the stream has ended itself.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.0.finish()
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
