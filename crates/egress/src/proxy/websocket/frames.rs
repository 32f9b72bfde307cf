//! Reads and writes frames of one direction with time limits.

use super::super::refusal::Refusal;
use super::super::stream::BoxStream;
use super::super::tunnel::ByteCounts;
use crate::websocket::{FrameHead, FrameReadError, WebSocketFrameReader};
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, WriteHalf};

/// The close code for what a policy refuses.
pub(super) const POLICY_VIOLATION: u16 = 1008;
/// The close code for what finds no memory.
pub(super) const TRY_AGAIN_LATER: u16 = 1013;

/// How one direction ended.
pub(super) enum DirectionEnd {
    /// With a close frame, or between two frames.
    Closed,
    /// Between two frames, because it was asked to stop.
    Stopped,
    Broken(String),
    Refused {
        refusal: Refusal,
        close_code: u16,
    },
}

impl From<FrameReadError> for DirectionEnd {
    fn from(error: FrameReadError) -> Self {
        match error {
            FrameReadError::Frame(error) => Self::Refused {
                refusal: Refusal::unreadable(format!("websocket: {error}")),
                close_code: error.close_code(),
            },
            error => Self::Broken(format!("websocket: {error}")),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct TimedFrames<'a> {
    pub(super) counts: &'a ByteCounts,
    /// How long both sides may send nothing.
    pub(super) quiet: Duration,
    /// How long the next bytes of a frame may take.
    pub(super) within_frame: Duration,
}

impl TimedFrames<'_> {
    /// The next frame; `Err` where this direction ends.
    pub(super) async fn read_head<R: AsyncRead + Unpin>(
        &self,
        reader: &mut WebSocketFrameReader<R>,
    ) -> Result<FrameHead, DirectionEnd> {
        loop {
            let before = self.counts.totals();
            match tokio::time::timeout(self.quiet, reader.head()).await {
                Ok(Ok(Some(head))) => return Ok(head),
                Ok(Ok(None)) => return Err(DirectionEnd::Closed),
                Ok(Err(error)) => return Err(error.into()),
                Err(_) if self.counts.totals() != before => {}
                Err(_) => {
                    return Err(DirectionEnd::Broken("the websocket was quiet for too long".to_owned()));
                }
            }
        }
    }

    pub(super) async fn read_portion<R: AsyncRead + Unpin>(
        &self,
        reader: &mut WebSocketFrameReader<R>,
        most: u64,
    ) -> Result<BytesMut, DirectionEnd> {
        match tokio::time::timeout(self.within_frame, reader.portion(most)).await {
            Ok(Ok(portion)) => Ok(portion),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(slow_frame()),
        }
    }

    pub(super) async fn write(
        &self,
        writer: &mut WriteHalf<BoxStream>,
        bytes: &[u8],
    ) -> Result<(), DirectionEnd> {
        let writing = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        match tokio::time::timeout(self.within_frame, writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(DirectionEnd::Broken(format!("websocket: {error}"))),
            Err(_) => Err(slow_frame()),
        }
    }
}

fn slow_frame() -> DirectionEnd {
    DirectionEnd::Broken("no byte of a frame moved for too long".to_owned())
}
