//! The OpenAI Responses format. A conversation is a list of items; neighbouring items of the model are one turn.

mod read;
mod stream;
mod write;

pub use read::{read_answer, read_request};
pub use stream::{ResponsesReader, ResponsesWriter, set_text, text_block, without_calls};
pub use write::{write_answer, write_request};
