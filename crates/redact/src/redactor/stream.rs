//! Masks text that arrives in pieces. The pieces make no difference: the text is cut at places that depend on its content
//! alone, at line ends outside of keys and known values or at a fixed length, and only complete parts are returned. Known
//! values that are broken into lines are overwritten before.

use super::{Redactor, StreamMasker, wrapped};
use crate::secrets::open_block;

/// A longer line or key is masked in parts.
const MAX_HELD: usize = 64 * 1024;
/// How much of an over-long part is held back, so that a token at its end stays whole.
const KEPT: usize = 16 * 1024;

/// Feed it with `push`, end it with `finish`; both return masked bytes that may be passed on. The redactor is given each
/// time, because a run learns values while it goes on.
pub struct StreamRedactor {
    held: Vec<u8>,
    /// `held` has no place to cut before this.
    searched: usize,
    over_lines: StreamMasker,
}

impl Default for StreamRedactor {
    fn default() -> Self {
        Self { held: Vec::new(), searched: 0, over_lines: StreamMasker::over_lines() }
    }
}

impl StreamRedactor {
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    pub fn push(&mut self, redactor: &Redactor, piece: &[u8]) -> Vec<u8> {
        let piece = self.over_lines.push(redactor, piece);
        self.push_lines(redactor, &piece)
    }

    /// The rest, once nothing more will come.
    pub fn finish(mut self, redactor: &Redactor) -> Vec<u8> {
        let piece = self.over_lines.flush(redactor);
        let mut rest = self.push_lines(redactor, &piece);
        rest.extend_from_slice(&redactor.redact_bytes(&self.held));
        rest
    }

    fn push_lines(&mut self, redactor: &Redactor, piece: &[u8]) -> Vec<u8> {
        let mut masked = Vec::new();
        for part in piece.chunks(KEPT) {
            self.held.extend_from_slice(part);
            self.drain(redactor, &mut masked);
        }
        masked
    }

    fn drain(&mut self, redactor: &Redactor, masked: &mut Vec<u8>) {
        while let Some(newline) = memchr::memchr(b'\n', &self.held[self.searched..]) {
            let end = self.searched + newline + 1;
            if end > MAX_HELD {
                break;
            }
            self.searched = end;
            if self.may_cut(redactor, end) {
                self.emit(redactor, end, masked);
            }
        }
        while self.held.len() >= bound(redactor) {
            let cut = self.forced_cut(redactor);
            self.emit(redactor, cut, masked);
        }
    }

    fn emit(&mut self, redactor: &Redactor, end: usize, masked: &mut Vec<u8>) {
        masked.extend_from_slice(&redactor.redact_bytes(&self.held[..end]));
        self.held.drain(..end);
        self.searched = 0;
    }

    /// Whether no secret can span the line end before `end`.
    fn may_cut(&self, redactor: &Redactor, end: usize) -> bool {
        let part = &self.held[..end];
        let is_inside_known = redactor.known.forms_over_lines().any(|form| {
            memchr::memchr_iter(b'\n', form).any(|at| at + 1 < form.len() && part.ends_with(&form[..=at]))
        });
        let line_start = part[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = String::from_utf8_lossy(&part[line_start..end]);
        !is_inside_known
            && !wrapped::is_full_line(line.trim_end())
            && open_block(&String::from_utf8_lossy(part)).is_none()
    }

    /// Somewhere in the first `MAX_HELD` bytes, but not inside anything that is masked and not inside a character.
    fn forced_cut(&self, redactor: &Redactor) -> usize {
        let mut cut = MAX_HELD;
        while cut > 1 && self.held.get(cut).is_some_and(|byte| byte & 0xc0 == 0x80) {
            cut -= 1;
        }
        let Ok(text) = std::str::from_utf8(&self.held) else { return cut };
        let crossing =
            redactor.masks(text).into_iter().find(|mask| mask.range.start < cut && cut < mask.range.end);
        match crossing {
            // A mask fills the whole part, so it is masked in two.
            Some(mask) if mask.range.start == 0 => mask.range.end.min(self.held.len()),
            Some(mask) => mask.range.start,
            None => cut,
        }
    }
}

/// The most that is held back.
pub(super) fn bound(redactor: &Redactor) -> usize {
    MAX_HELD + KEPT.max(redactor.reach())
}
