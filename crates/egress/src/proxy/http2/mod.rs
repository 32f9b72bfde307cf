//! HTTP/2 on an inspected connection. Each stream is decided by itself, by the same rules as HTTP/1.1 heads. All
//! streams share one connection to the server. Bodies are streamed and never stored.

mod bodies;
mod connection;
mod head;
mod pool;
mod serve;
mod stream;
mod tasks;

pub(super) use pool::HTTP_2;
pub(super) use serve::{refuse_all, serve};
