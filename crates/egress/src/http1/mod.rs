//! HTTP/1.1 as strictly as it can be read: every head and every body border has exactly one reading, and what has two is
//! refused. The proxy relays with this and not with a library, because libraries forgive what upstreams read differently.

mod body;
mod fields;
mod head;
mod reader;
#[cfg(test)]
mod tests;

pub use body::{BodyError, Framing, PortionCheck, collect_body, relay_body, relay_message};
pub use fields::{Fields, HeadError};
pub use head::{HttpVersion, RequestHead, RequestTarget, ResponseHead};
pub use reader::{HeadReader, MAX_HEAD_BYTES, ReadHeadError};
