//! From the client to the server: frames are unmasked, checked, and masked anew. Text that gets credentials is collected
//! until its message is complete; everything else passes in portions.

use super::super::admission::AdmittedConnection;
use super::super::decide::DecidedRequest;
use super::super::held_bodies::HeldBody;
use super::super::outgoing_check::{MessageCheck, watch};
use super::super::outgoing_request::substitute_text;
use super::super::stream::BoxStream;
use super::frames::{DirectionEnd, POLICY_VIOLATION, TRY_AGAIN_LATER, TimedFrames};
use super::text_rule::{TextRule, text_record, text_rule};
use crate::websocket::{
    FrameError, FrameHead, FrameOrder, FrameReadError, Opcode, WebSocketFrameReader, apply_mask,
};
use std::sync::atomic::Ordering;
use tokio::io::{ReadHalf, WriteHalf};
use zeroize::Zeroizing;

/// A message with credentials is collected whole; a larger one is refused.
const MAX_SUBSTITUTED_MESSAGE: usize = 256 << 10;

pub(super) struct ToServer<'a> {
    connection: &'a AdmittedConnection,
    decided: &'a DecidedRequest,
    reader: WebSocketFrameReader<ReadHalf<BoxStream>>,
    order: FrameOrder,
    frames: TimedFrames<'a>,
    rule: TextRule,
    /// The text of an incomplete message; `None` where text is not changed.
    text: Option<Zeroizing<Vec<u8>>>,
    /// The memory of that text.
    held: HeldBody,
    check: MessageCheck,
}

impl<'a> ToServer<'a> {
    pub(super) fn new(
        connection: &'a AdmittedConnection,
        decided: &'a DecidedRequest,
        reader: WebSocketFrameReader<ReadHalf<BoxStream>>,
        frames: TimedFrames<'a>,
    ) -> Self {
        let substitutes = connection.admitted.credentials(Some(&decided.path)).rewrite_websocket;
        Self {
            connection,
            decided,
            reader,
            order: FrameOrder::default(),
            frames,
            rule: text_rule(connection, decided),
            text: substitutes.then(Zeroizing::default),
            held: connection.proxy.held_bodies.empty(),
            check: message_check(connection),
        }
    }

    pub(super) async fn run(&mut self, writer: &mut WriteHalf<BoxStream>) -> DirectionEnd {
        loop {
            let passed = match self.frames.read_head(&mut self.reader).await {
                Ok(head) => self.pass(head, writer).await,
                Err(end) => Err(end),
            };
            match passed {
                Ok(Opcode::Close) => return DirectionEnd::Closed,
                Ok(_) => {}
                Err(end) => {
                    // A refusal is an event of its own, beside that of the handshake.
                    if let DirectionEnd::Refused { refusal, .. } = &end {
                        text_record(self.connection, self.decided).refused(refusal);
                    }
                    return end;
                }
            }
        }
    }

    async fn pass(
        &mut self,
        head: FrameHead,
        writer: &mut WriteHalf<BoxStream>,
    ) -> Result<Opcode, DirectionEnd> {
        let mask = head.mask.ok_or(FrameReadError::Frame(FrameError::Mask))?;
        let message = self.order.admit(&head).map_err(FrameReadError::Frame)?;
        if head.opcode == Opcode::Text {
            self.apply_rule()?;
        }
        if matches!(head.opcode, Opcode::Text | Opcode::Binary) {
            self.check.next_message();
        }
        if message == Opcode::Text && self.text.is_some() {
            self.collect(head.length, mask).await?;
            if head.last {
                self.send_substituted(writer).await?;
            }
        } else {
            self.relay(head, mask, writer).await?;
        }
        Ok(head.opcode)
    }

    fn apply_rule(&mut self) -> Result<(), DirectionEnd> {
        match std::mem::replace(&mut self.rule, TextRule::Allow) {
            TextRule::Allow => Ok(()),
            // Recorded once: further messages would repeat it.
            TextRule::Audit(refusal) => {
                text_record(self.connection, self.decided).audited(&refusal);
                Ok(())
            }
            TextRule::Deny(refusal) => Err(DirectionEnd::Refused { refusal, close_code: POLICY_VIOLATION }),
        }
    }

    async fn collect(&mut self, length: u64, mask: [u8; 4]) -> Result<(), DirectionEnd> {
        let mut offset = 0;
        while offset < length {
            let mut portion = self.frames.read_portion(&mut self.reader, length - offset).await?;
            apply_mask(&mut portion, mask, offset);
            offset += portion.len() as u64;
            let text = self.text.get_or_insert_default();
            if text.len() + portion.len() > MAX_SUBSTITUTED_MESSAGE {
                return Err(FrameReadError::Frame(FrameError::TooLarge).into());
            }
            self.held
                .grow(portion.len() as u64)
                .map_err(|refusal| DirectionEnd::Refused { refusal, close_code: TRY_AGAIN_LATER })?;
            text.extend_from_slice(&portion);
        }
        Ok(())
    }

    async fn send_substituted(&mut self, writer: &mut WriteHalf<BoxStream>) -> Result<(), DirectionEnd> {
        let text = std::mem::take(self.text.get_or_insert_default());
        let mut held = std::mem::replace(&mut self.held, self.connection.proxy.held_bodies.empty());
        let mut substituted = substitute_text(self.connection, &text, self.decided)
            .await
            .map_err(|refusal| DirectionEnd::Refused { refusal, close_code: POLICY_VIOLATION })?;
        let mask = random_mask()?;
        let length = substituted.len() as u64;
        held.grow(length)
            .map_err(|refusal| DirectionEnd::Refused { refusal, close_code: TRY_AGAIN_LATER })?;
        let head = FrameHead { last: true, opcode: Opcode::Text, mask: Some(mask), length };
        apply_mask(&mut substituted, mask, 0);
        self.frames.write(writer, &head.write()).await?;
        self.frames.write(writer, &substituted).await?;
        self.frames.counts.out.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    async fn relay(
        &mut self,
        head: FrameHead,
        mask: [u8; 4],
        writer: &mut WriteHalf<BoxStream>,
    ) -> Result<(), DirectionEnd> {
        let own_mask = random_mask()?;
        self.frames.write(writer, &FrameHead { mask: Some(own_mask), ..head }.write()).await?;
        // A control frame may come between the frames of a message and does not belong to it.
        let mut control = head.opcode.is_control().then(|| message_check(self.connection));
        let mut offset = 0;
        while offset < head.length {
            let mut portion = self.frames.read_portion(&mut self.reader, head.length - offset).await?;
            apply_mask(&mut portion, mask, offset);
            if let Some(refusal) = control.as_mut().unwrap_or(&mut self.check).refusal(&portion) {
                return Err(DirectionEnd::Refused { refusal, close_code: POLICY_VIOLATION });
            }
            apply_mask(&mut portion, own_mask, offset);
            self.frames.write(writer, &portion).await?;
            offset += portion.len() as u64;
            self.frames.counts.out.fetch_add(portion.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn message_check(connection: &AdmittedConnection) -> MessageCheck {
    let watcher = watch(connection.proxy.config.leak_watcher.as_ref(), &connection.destination);
    MessageCheck::new("websocket message", watcher)
}

fn random_mask() -> Result<[u8; 4], DirectionEnd> {
    let mut mask = [0; 4];
    getrandom::fill(&mut mask).map_err(|error| DirectionEnd::Broken(error.to_string()))?;
    Ok(mask)
}
