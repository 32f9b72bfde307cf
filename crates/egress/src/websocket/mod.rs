//! Websockets (RFC 6455), as far as a relay must read them: the handshake, and frames one by one. No extension is ever
//! agreed on, so that text is text.

mod frame;
mod handshake;
mod reader;

pub use frame::{FrameError, FrameHead, FrameOrder, MAX_MESSAGE_BYTES, Opcode, apply_mask};
pub use handshake::{agreed, prepare_handshake};
pub use reader::{FrameReadError, FrameReader};
