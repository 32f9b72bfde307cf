//! The Anthropic Messages format. Reading is tolerant: unknown fields are passed over, unknown blocks are kept as they
//! are. Writing is exact.

mod read;
mod stream;
mod write;

pub use read::{read_answer, read_fault, read_request, thinking_tokens};
pub use stream::{MessagesWriter, end_turn, read_frame, set_text, text_block};
pub use write::{write_answer, write_fault, write_request};

#[cfg(test)]
mod tests;
