//! From the server to the client: frames are checked, credentials in them are masked, and they are passed on.

use super::super::admission::AdmittedConnection;
use super::super::response_mask::ResponseMask;
use super::super::stream::BoxStream;
use super::frames::{DirectionEnd, TimedFrames};
use crate::websocket::{FrameError, FrameHead, FrameOrder, FrameReadError, Opcode, WebSocketFrameReader};
use std::sync::atomic::Ordering;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

pub(super) struct ToClient<'a> {
    pub(super) connection: &'a AdmittedConnection,
    pub(super) reader: WebSocketFrameReader<ReadHalf<BoxStream>>,
    pub(super) order: FrameOrder,
    pub(super) frames: TimedFrames<'a>,
    /// One for messages, one for the control frames between their frames.
    pub(super) message_mask: ResponseMask,
    pub(super) control_mask: ResponseMask,
}

impl ToClient<'_> {
    /// Stops between two frames when `stop` is notified.
    pub(super) async fn run(&mut self, writer: &mut WriteHalf<BoxStream>, stop: &Notify) -> DirectionEnd {
        loop {
            let passed = tokio::select! {
                biased;
                () = stop.notified() => return DirectionEnd::Stopped,
                head = self.frames.read_head(&mut self.reader) => match head {
                    Ok(head) => self.pass(head, writer).await,
                    Err(end) => Err(end),
                },
            };
            match passed {
                Ok(Opcode::Close) => return DirectionEnd::Closed,
                Ok(_) => {}
                Err(end) => return end,
            }
        }
    }

    async fn pass(
        &mut self,
        head: FrameHead,
        writer: &mut WriteHalf<BoxStream>,
    ) -> Result<Opcode, DirectionEnd> {
        if head.mask.is_some() {
            return Err(FrameReadError::Frame(FrameError::Mask).into());
        }
        self.order.admit(&head).map_err(FrameReadError::Frame)?;
        self.frames.write(writer, &head.write()).await?;
        let is_control = head.opcode.is_control();
        let mask = if is_control { &mut self.control_mask } else { &mut self.message_mask };
        mask.refresh(self.connection);
        let mut left = head.length;
        while left > 0 {
            let portion = self.frames.read_portion(&mut self.reader, left).await?;
            self.frames.write(writer, &mask.push(&portion)).await?;
            left -= portion.len() as u64;
            self.frames.counts.inward.fetch_add(portion.len() as u64, Ordering::Relaxed);
        }
        // A frame has its length: nothing can be held back beyond its end.
        self.frames.write(writer, &mask.flush()).await?;
        Ok(head.opcode)
    }
}
