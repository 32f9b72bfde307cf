//! Websockets (RFC 6455), as far as a relay needs them: the handshake, and frames one by one. Extensions are removed from
//! the handshake, so that text is readable. Written by hand, because libraries accept ambiguous frames and do not relay in
//! portions.

mod frame;
mod handshake;
mod reader;

pub use frame::{FrameError, FrameHead, FrameOrder, MAX_MESSAGE_BYTES, Opcode, apply_mask};
pub use handshake::{is_accepted, prepare_handshake};
pub use reader::{FrameReadError, WebSocketFrameReader};
