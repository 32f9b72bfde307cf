//! Frames of a websocket: heads, masks, and the order in which frames may come. An ambiguous head is an error.

use std::fmt;

/// The largest payload of one message, over all its frames.
pub const MAX_MESSAGE_BYTES: u64 = 64 << 20;
const MAX_CONTROL_BYTES: u64 = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// The last frame of its message.
    pub last: bool,
    pub opcode: Opcode,
    pub mask: Option<[u8; 4]>,
    pub length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    Extension,
    Opcode,
    Mask,
    Length,
    Control,
    Order,
    TooLarge,
}

impl FrameError {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Extension => "a frame uses an extension that was not agreed on",
            Self::Opcode => "a frame has an unknown opcode",
            Self::Mask => "frames of a client are masked, and those of a server are not",
            Self::Length => "the length of a frame is not written in its shortest form",
            Self::Control => "a control frame is too long or in pieces",
            Self::Order => "the frames of two messages are mixed",
            Self::TooLarge => "a message is too large",
        }
    }

    /// The code for the close frame.
    pub fn close_code(self) -> u16 {
        if self == Self::TooLarge { 1009 } else { 1002 }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for FrameError {}

impl Opcode {
    fn of(number: u8) -> Result<Self, FrameError> {
        Ok(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return Err(FrameError::Opcode),
        })
    }

    fn number(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

impl FrameHead {
    /// The head and its length; `None` if more bytes are needed.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(FrameError::Extension);
        }
        let opcode = Opcode::of(first & 0x0f)?;
        let (length, wide) = match second & 0x7f {
            126 => {
                let Some(two) = rest.first_chunk::<2>() else { return Ok(None) };
                (u64::from(u16::from_be_bytes(*two)), 2)
            }
            127 => {
                let Some(eight) = rest.first_chunk::<8>() else { return Ok(None) };
                (u64::from_be_bytes(*eight), 8)
            }
            short => (u64::from(short), 0),
        };
        let least = match wide {
            0 => 0,
            2 => 126,
            _ => 1 << 16,
        };
        if length < least || length >> 63 != 0 {
            return Err(FrameError::Length);
        }
        let masked = second & 0x80 != 0;
        let mask = match (masked, rest[wide..].first_chunk::<4>()) {
            (false, _) => None,
            (true, Some(mask)) => Some(*mask),
            (true, None) => return Ok(None),
        };
        let head = Self { last: first & 0x80 != 0, opcode, mask, length };
        Ok(Some((head, 2 + wide + if masked { 4 } else { 0 })))
    }

    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![self.opcode.number() | if self.last { 0x80 } else { 0 }];
        let mask_bit = if self.mask.is_some() { 0x80 } else { 0 };
        match (u8::try_from(self.length), u16::try_from(self.length)) {
            (Ok(short), _) if short < 126 => out.push(mask_bit | short),
            (_, Ok(middle)) => {
                out.push(mask_bit | 126);
                out.extend_from_slice(&middle.to_be_bytes());
            }
            _ => {
                out.push(mask_bit | 127);
                out.extend_from_slice(&self.length.to_be_bytes());
            }
        }
        out.extend_from_slice(self.mask.as_ref().map_or(&[], |mask| &mask[..]));
        out
    }
}

/// Masks or unmasks bytes at `offset` in their frame.
pub fn apply_mask(bytes: &mut [u8], mask: [u8; 4], offset: u64) {
    let shift = usize::try_from(offset % 4).unwrap_or_default();
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= mask[(at + shift) % 4];
    }
}

/// The message that is incomplete in one direction.
#[derive(Debug, Default)]
pub struct FrameOrder {
    /// Text or binary, and its length so far.
    within: Option<(Opcode, u64)>,
}

impl FrameOrder {
    /// The opcode of the message that a frame belongs to; a control frame is its own message.
    pub fn admit(&mut self, head: &FrameHead) -> Result<Opcode, FrameError> {
        if head.opcode.is_control() {
            let fits = head.last && head.length <= MAX_CONTROL_BYTES;
            return if fits { Ok(head.opcode) } else { Err(FrameError::Control) };
        }
        let (kind, before) = match (self.within, head.opcode) {
            (Some(message), Opcode::Continuation) => message,
            (None, Opcode::Text | Opcode::Binary) => (head.opcode, 0),
            _ => return Err(FrameError::Order),
        };
        let total = before.saturating_add(head.length);
        if total > MAX_MESSAGE_BYTES {
            return Err(FrameError::TooLarge);
        }
        self.within = (!head.last).then_some((kind, total));
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(bytes: &[u8]) -> Result<Option<(FrameHead, usize)>, FrameError> {
        FrameHead::parse(bytes)
    }

    #[test]
    fn heads_have_one_reading() {
        let text = FrameHead { last: true, opcode: Opcode::Text, mask: None, length: 5 };
        assert_eq!(head(b"\x81\x05hello"), Ok(Some((text, 2))));
        for (bytes, error) in [
            (&b"\xc1\x00"[..], FrameError::Extension),
            (b"\x83\x00", FrameError::Opcode),
            (b"\x8f\x00", FrameError::Opcode),
            (b"\x81\x7e\x00\x05", FrameError::Length),
            (b"\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", FrameError::Length),
            (b"\x81\x7f\xff\x00\x00\x00\x00\x00\x00\x00", FrameError::Length),
        ] {
            assert_eq!(head(bytes), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn frames_come_in_order() {
        let frame = |opcode, last, length| FrameHead { last, opcode, mask: None, length };
        let check = |frames: &[(Opcode, bool, u64)], expected: Result<Opcode, FrameError>| {
            let mut order = FrameOrder::default();
            let mut last = Err(FrameError::Opcode);
            for (opcode, ends, length) in frames {
                last = order.admit(&frame(*opcode, *ends, *length));
            }
            assert_eq!(last, expected, "{frames:?}");
        };
        use Opcode::{Binary, Close, Continuation, Ping, Text};
        check(&[(Text, true, 1)], Ok(Text));
        check(&[(Text, false, 1), (Ping, true, 0), (Continuation, true, 1)], Ok(Text));
        check(&[(Binary, false, 1), (Continuation, true, 1), (Text, true, 1)], Ok(Text));
        check(&[(Text, false, 1), (Text, true, 1)], Err(FrameError::Order));
        check(&[(Continuation, true, 1)], Err(FrameError::Order));
        check(&[(Close, false, 1)], Err(FrameError::Control));
        check(&[(Ping, true, 126)], Err(FrameError::Control));
        check(&[(Text, true, MAX_MESSAGE_BYTES + 1)], Err(FrameError::TooLarge));
        check(&[(Text, false, MAX_MESSAGE_BYTES), (Continuation, true, 1)], Err(FrameError::TooLarge));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            last: bool, kind in 0..6_usize, mask: Option<[u8; 4]>,
            length in prop_oneof![0..300_u64, 65_000..66_000_u64, 0..u64::MAX / 2],
        ) {
            use Opcode::{Binary, Close, Continuation, Ping, Pong, Text};
            let opcode = [Continuation, Text, Binary, Close, Ping, Pong][kind];
            let head = FrameHead { last, opcode, mask, length };
            let bytes = head.write();
            prop_assert_eq!(FrameHead::parse(&bytes), Ok(Some((head, bytes.len()))));
            for cut in 0..bytes.len() {
                prop_assert_eq!(FrameHead::parse(&bytes[..cut]), Ok(None));
            }
        }

        /// Everything that can be parsed is written as the same bytes, so that it has no other interpretation.
        #[test]
        fn what_is_read_has_one_spelling(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            if let Ok(Some((head, length))) = FrameHead::parse(&bytes) {
                prop_assert_eq!(head.write(), &bytes[..length]);
            }
        }

        #[test]
        fn masks_do_not_care_about_portions(
            bytes in proptest::collection::vec(any::<u8>(), 0..40), mask: [u8; 4], at in 0..40_usize,
        ) {
            let mut whole = bytes.clone();
            apply_mask(&mut whole, mask, 0);
            let mut parts = bytes.clone();
            let at = at.min(parts.len());
            let (left, right) = parts.split_at_mut(at);
            apply_mask(left, mask, 0);
            apply_mask(right, mask, at as u64);
            prop_assert_eq!(whole, parts);
        }
    }
}
