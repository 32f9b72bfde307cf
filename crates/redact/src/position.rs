//! Turns byte offsets into lines and columns. Built only when there is a finding. It counts newlines per block, because most
//! lines are not needed.

use crate::finding::TextSpan;

const BLOCK: usize = 4096;
/// In a longer line, columns are counted in bytes.
const MAX_LINE: usize = 64 * 1024;

pub struct LineIndex<'t> {
    text: &'t str,
    /// How many newlines come before each block.
    before_block: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub fn new(text: &'t str) -> Self {
        let blocks = text.as_bytes().chunks(BLOCK).scan(0, |lines, block| {
            let before = *lines;
            *lines += newlines(block);
            Some(before)
        });
        LineIndex { text, before_block: blocks.collect() }
    }

    pub fn span(&self, start: usize, end: usize) -> TextSpan {
        let before = &self.text[self.line_start(start)..start];
        // Counting the characters of a very long line for each finding would be quadratic.
        let column = if before.len() > MAX_LINE { before.len() } else { before.chars().count() } + 1;
        TextSpan { start, end, line: saturate(self.newlines_before(start) + 1), column: saturate(column) }
    }

    /// The bytes of the line that holds `at`, without its newline; a very long line is cut.
    pub fn line_range(&self, at: usize) -> (usize, usize) {
        let to = self.text.floor_char_boundary((at + MAX_LINE).min(self.text.len()));
        let end = memchr::memchr(b'\n', &self.text.as_bytes()[at..to]).map_or(to, |newline| at + newline);
        (self.line_start(at), end)
    }

    fn newlines_before(&self, at: usize) -> usize {
        // The last byte may end the last block.
        let block = (at / BLOCK).min(self.before_block.len().saturating_sub(1));
        let counted = self.before_block.get(block).copied().unwrap_or(0);
        counted + newlines(&self.text.as_bytes()[block * BLOCK..at])
    }

    fn line_start(&self, at: usize) -> usize {
        let line = self.newlines_before(at);
        // The newline before the line is in the last block with fewer newlines before it.
        let Some(block) = self.before_block.partition_point(|before| *before < line).checked_sub(1) else {
            return 0;
        };
        let start = block * BLOCK;
        let part = &self.text.as_bytes()[start..at.min(start + BLOCK)];
        memchr::memrchr(b'\n', part).map_or(0, |newline| start + newline + 1)
    }
}

fn newlines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as counting through the whole text, on both sides of each block border.
    #[test]
    fn lines_are_found_across_blocks() {
        for gap in [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let text = format!("{}\n", "x".repeat(gap)).repeat(4 * BLOCK / gap + 2);
            let index = LineIndex::new(&text);
            for at in (0..=text.len()).filter(|at| (at + 2) % BLOCK < 5 || at + 2 > text.len()) {
                let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
                let TextSpan { line, column, .. } = index.span(at, at);
                assert_eq!(line as usize, text[..at].matches('\n').count() + 1, "{at} of {gap}");
                assert_eq!(column as usize, at - line_start + 1, "{at} of {gap}");
                let line_end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
                assert_eq!(index.line_range(at), (line_start, line_end), "{at} of {gap}");
            }
        }
    }

    #[test]
    fn columns_count_characters() {
        let index = LineIndex::new("ab\ncüd\n");
        assert_eq!(index.span(0, 1), TextSpan { start: 0, end: 1, line: 1, column: 1 });
        assert_eq!(index.span(6, 7), TextSpan { start: 6, end: 7, line: 2, column: 3 });
        assert_eq!(index.span(8, 8).line, 3);
        assert_eq!(index.line_range(4), (3, 7));
    }
}
