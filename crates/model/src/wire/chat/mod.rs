//! The OpenAI Chat Completions format, as many gateways and local servers speak it.

mod read;
mod stream;
mod write;

pub use read::{read_answer, read_request};
pub use stream::{ChatReader, ChatWriter, end_turn, is_usage_only, set_text, text_block};
pub use write::{ask_for_usage, write_answer, write_request};
