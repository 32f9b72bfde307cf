//! Turns byte offsets into lines and columns. Built only when there is something to report, because a clean text
//! needs no lines.

use crate::finding::Span;

const MAX_COUNTED: usize = 64 * 1024;

pub(crate) struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let after_newlines = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
        LineIndex { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        let line = self.starts.partition_point(|line_start| *line_start <= start) - 1;
        let before = &self.text[self.starts[line]..start];
        // Counting characters again for each finding of a giant line would be quadratic; there, bytes do.
        let column = if before.len() > MAX_COUNTED { before.len() } else { before.chars().count() } + 1;
        Span { start, end, line: saturate(line + 1), column: saturate(column) }
    }

    /// The bytes of the line that holds `at`, without its newline.
    pub(crate) fn line_range(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|line_start| *line_start <= at) - 1;
        let end = self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1);
        (self.starts[line], end)
    }
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let index = LineIndex::new("ab\ncüd\n");
        assert_eq!(index.span(0, 1), Span { start: 0, end: 1, line: 1, column: 1 });
        assert_eq!(index.span(6, 7), Span { start: 6, end: 7, line: 2, column: 3 });
        assert_eq!(index.span(8, 8).line, 3);
        assert_eq!(index.line_range(4), (3, 7));
    }
}
