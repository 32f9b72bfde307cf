//! Strict HTTP/1.1: every head and every body boundary has exactly one interpretation, and anything ambiguous is
//! refused. This is written by hand, because libraries accept what servers read differently (bare LF, repeated
//! Content-Length, folded lines), and such differences smuggle requests past a proxy.

mod body;
mod fields;
mod head;
mod reader;
#[cfg(test)]
mod tests;

pub use body::{BodyError, BodyFilter, Framing, collect_body, relay_message};
pub use fields::{Fields, HeadError};
pub use head::{HttpVersion, RequestHead, RequestTarget, ResponseHead};
pub use reader::{HeadReader, MAX_HEAD_BYTES};
