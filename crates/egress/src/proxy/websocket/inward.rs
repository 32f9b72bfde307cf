//! From the server to the client: frames are checked for their borders and passed as they are.

use super::super::upstream::BoxStream;
use super::{End, Pace};
use crate::websocket::{FrameError, FrameSource, Opcode, Order, SourceError};
use std::sync::atomic::Ordering;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

pub(super) struct Inward<'a> {
    source: FrameSource<ReadHalf<BoxStream>>,
    order: Order,
    pace: Pace<'a>,
}

impl<'a> Inward<'a> {
    pub(super) fn new(source: FrameSource<ReadHalf<BoxStream>>, pace: Pace<'a>) -> Self {
        Self { source, order: Order::default(), pace }
    }

    /// Stops between two frames when it is told to.
    pub(super) async fn run(&mut self, sink: &mut WriteHalf<BoxStream>, stop: &Notify) -> End {
        loop {
            let passed = tokio::select! {
                biased;
                () = stop.notified() => return End::Stopped,
                head = self.pace.head(&mut self.source) => match head {
                    Ok(head) => self.pass(head, sink).await,
                    Err(end) => Err(end),
                },
            };
            match passed {
                Ok(Opcode::Close) => return End::Closed,
                Ok(_) => {}
                Err(end) => return end,
            }
        }
    }

    async fn pass(
        &mut self,
        head: crate::websocket::FrameHead,
        sink: &mut WriteHalf<BoxStream>,
    ) -> Result<Opcode, End> {
        let refused = |error| End::of(SourceError::Frame(error));
        if head.mask.is_some() {
            return Err(refused(FrameError::Mask));
        }
        self.order.admit(&head).map_err(refused)?;
        self.pace.put(sink, &head.write()).await?;
        let mut left = head.length;
        while left > 0 {
            let portion = self.pace.portion(&mut self.source, left).await?;
            self.pace.put(sink, &portion).await?;
            left -= portion.len() as u64;
            self.pace.moved.inward.fetch_add(portion.len() as u64, Ordering::Relaxed);
        }
        Ok(head.opcode)
    }
}
