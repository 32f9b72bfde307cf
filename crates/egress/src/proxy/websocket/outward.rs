//! From the client to the server: unmasked, judged, and masked anew. Text that gets credentials is kept until its message
//! is whole; everything else passes in portions.

use super::super::requests::{Decided, Site};
use super::super::upstream::BoxStream;
use super::super::watch::Watch;
use super::{End, POLICY_VIOLATION, Pace, TextRule};
use crate::websocket::{FrameError, FrameHead, FrameSource, Opcode, Order, SourceError, apply_mask};
use std::sync::atomic::Ordering;
use tokio::io::{ReadHalf, WriteHalf};
use zeroize::Zeroizing;

/// A message into which credentials are put is kept whole; a larger one is refused.
const MAX_FILLED_MESSAGE: usize = 256 << 10;

pub(super) struct Outward<'a> {
    site: &'a Site,
    decided: &'a Decided,
    source: FrameSource<ReadHalf<BoxStream>>,
    order: Order,
    pace: Pace<'a>,
    rule: TextRule,
    /// The text of a message that is not whole yet; `None` where text is not changed.
    text: Option<Zeroizing<Vec<u8>>>,
    watch: Watch,
}

impl<'a> Outward<'a> {
    pub(super) fn new(
        site: &'a Site,
        decided: &'a Decided,
        source: FrameSource<ReadHalf<BoxStream>>,
        pace: Pace<'a>,
    ) -> Self {
        let fills = site.admission.admitted.credentials(Some(&decided.path)).rewrite_websocket;
        Self {
            site,
            decided,
            source,
            order: Order::default(),
            pace,
            rule: site.text_rule(decided),
            text: fills.then(Zeroizing::default),
            watch: watch(site),
        }
    }

    pub(super) async fn run(&mut self, sink: &mut WriteHalf<BoxStream>) -> End {
        loop {
            let passed = match self.pace.head(&mut self.source).await {
                Ok(head) => self.pass(head, sink).await,
                Err(end) => Err(end),
            };
            match passed {
                Ok(Opcode::Close) => return End::Closed,
                Ok(_) => {}
                Err(end) => return self.tell(end),
            }
        }
    }

    /// A refusal is an event of its own, beside that of the handshake.
    fn tell(&self, end: End) -> End {
        if let End::Refused { refusal, .. } = &end {
            self.site.text_attempt(self.decided).refused(refusal);
        }
        end
    }

    async fn pass(&mut self, head: FrameHead, sink: &mut WriteHalf<BoxStream>) -> Result<Opcode, End> {
        let refused = |error| End::of(SourceError::Frame(error));
        let mask = head.mask.ok_or_else(|| refused(FrameError::Mask))?;
        let kind = self.order.admit(&head).map_err(refused)?;
        if head.opcode == Opcode::Text {
            self.judge()?;
        }
        if matches!(head.opcode, Opcode::Text | Opcode::Binary) {
            self.watch.next_message();
        }
        if kind == Opcode::Text && self.text.is_some() {
            self.keep(head.length, mask).await?;
            if head.last {
                self.send_filled(sink).await?;
            }
        } else {
            self.relay(head, mask, sink).await?;
        }
        Ok(head.opcode)
    }

    fn judge(&mut self) -> Result<(), End> {
        match std::mem::replace(&mut self.rule, TextRule::Pass) {
            TextRule::Pass => Ok(()),
            // Said once: every further message would say the same.
            TextRule::Audit(refusal) => {
                self.site.text_attempt(self.decided).audited(&refusal);
                Ok(())
            }
            TextRule::Refuse(refusal) => Err(End::Refused { refusal, code: POLICY_VIOLATION }),
        }
    }

    async fn keep(&mut self, length: u64, mask: [u8; 4]) -> Result<(), End> {
        let mut offset = 0;
        while offset < length {
            let mut portion = self.pace.portion(&mut self.source, length - offset).await?;
            apply_mask(&mut portion, mask, offset);
            offset += portion.len() as u64;
            let text = self.text.get_or_insert_default();
            if text.len() + portion.len() > MAX_FILLED_MESSAGE {
                return Err(End::of(SourceError::Frame(FrameError::TooLarge)));
            }
            text.extend_from_slice(&portion);
        }
        Ok(())
    }

    async fn send_filled(&mut self, sink: &mut WriteHalf<BoxStream>) -> Result<(), End> {
        let text = std::mem::take(self.text.get_or_insert_default());
        let filled = self.site.fill_text(&text, self.decided).await;
        let mut filled = filled.map_err(|refusal| End::Refused { refusal, code: POLICY_VIOLATION })?;
        let mask = fresh_mask()?;
        let length = filled.len() as u64;
        let head = FrameHead { last: true, opcode: Opcode::Text, mask: Some(mask), length };
        apply_mask(&mut filled, mask, 0);
        self.pace.put(sink, &head.write()).await?;
        self.pace.put(sink, &filled).await?;
        self.pace.moved.out.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    async fn relay(
        &mut self,
        head: FrameHead,
        mask: [u8; 4],
        sink: &mut WriteHalf<BoxStream>,
    ) -> Result<(), End> {
        let own = fresh_mask()?;
        self.pace.put(sink, &FrameHead { mask: Some(own), ..head }.write()).await?;
        // It stands between the frames of a message and is no part of it.
        let mut control = head.opcode.is_control().then(|| watch(self.site));
        let mut offset = 0;
        while offset < head.length {
            let mut portion = self.pace.portion(&mut self.source, head.length - offset).await?;
            apply_mask(&mut portion, mask, offset);
            let seen = control.as_mut().unwrap_or(&mut self.watch).sees(&portion);
            if let Some(refusal) = seen {
                return Err(End::Refused { refusal, code: POLICY_VIOLATION });
            }
            apply_mask(&mut portion, own, offset);
            self.pace.put(sink, &portion).await?;
            offset += portion.len() as u64;
            self.pace.moved.out.fetch_add(portion.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn watch(site: &Site) -> Watch {
    Watch::new("websocket message", site.proxy.look(&site.admission.destination))
}

fn fresh_mask() -> Result<[u8; 4], End> {
    let mut mask = [0; 4];
    getrandom::fill(&mut mask).map_err(|error| End::Broken(error.to_string()))?;
    Ok(mask)
}
