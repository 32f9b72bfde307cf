//! Picks the vendor format by `Wire`: the one place that knows all of them.

use super::fault::Fault;
use super::sse::Frame;
use super::{Answer, Delta, Request, Wire, messages};
use serde_json::Value;
use std::fmt;

/// A document or a frame that is not of its format.
#[derive(Debug)]
pub struct ReadError(String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl From<messages::ReadError> for ReadError {
    fn from(error: messages::ReadError) -> Self {
        Self(error.to_string())
    }
}

pub fn read_request(wire: Wire, body: &[u8]) -> Result<Request, ReadError> {
    match wire {
        Wire::Messages => Ok(messages::read_request(body)?),
    }
}

pub fn write_request(wire: Wire, request: &Request) -> Value {
    match wire {
        Wire::Messages => messages::write_request(request),
    }
}

pub fn read_answer(wire: Wire, body: &[u8]) -> Result<Answer, ReadError> {
    match wire {
        Wire::Messages => Ok(messages::read_answer(body)?),
    }
}

pub fn write_answer(wire: Wire, answer: &Answer) -> Value {
    match wire {
        Wire::Messages => messages::write_answer(answer),
    }
}

pub fn read_fault(wire: Wire, status: u16, body: &[u8]) -> Fault {
    match wire {
        Wire::Messages => messages::read_fault(status, body),
    }
}

pub fn write_fault(wire: Wire, fault: &Fault) -> Value {
    match wire {
        Wire::Messages => messages::write_fault(fault),
    }
}

/// The same frame with another text. A frame without text stays as it is.
pub fn set_text(wire: Wire, frame: Frame, text: &str) -> Frame {
    match wire {
        Wire::Messages => messages::set_text(frame, text),
    }
}

/// The frame that ends an answer, saying that no tool call follows.
pub fn end_turn(wire: Wire, frame: Frame) -> Frame {
    match wire {
        Wire::Messages => messages::end_turn(frame),
    }
}

/// A whole block of text in the place of another block; `None` where the format cannot do that in mid-stream.
pub fn text_block(wire: Wire, block: usize, text: &str) -> Option<Vec<Frame>> {
    match wire {
        Wire::Messages => Some(messages::text_block(block, text)),
    }
}

#[derive(Debug)]
pub enum FrameWriter {
    Messages(messages::FrameWriter),
}

impl FrameWriter {
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Messages => Self::Messages(messages::FrameWriter::default()),
        }
    }

    pub fn write(&mut self, delta: &Delta) -> Vec<Frame> {
        match self {
            Self::Messages(writer) => writer.write(delta),
        }
    }
}

/// Reads the frames of one stream.
#[derive(Debug)]
pub enum FrameReader {
    Messages,
}

impl FrameReader {
    pub fn new(wire: Wire) -> Self {
        match wire {
            Wire::Messages => Self::Messages,
        }
    }

    pub fn read(&mut self, frame: &Frame) -> Result<Vec<Delta>, ReadError> {
        match self {
            Self::Messages => Ok(messages::read_frame(frame)?),
        }
    }
}
