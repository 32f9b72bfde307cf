//! Joins the lines of wrapped base64 for the search.

use std::ops::Range;

/// Encoders do not wrap at shorter lines.
const MIN_LINE: usize = 40;

pub(super) struct Block {
    pub(super) joined: String,
    /// For each line of the block: where it begins in `joined` and where in the text.
    starts: Vec<(usize, usize)>,
}

impl Block {
    /// The bytes of the text that a range of the joined block came from, line ends included.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        self.place(range.start)..self.place(range.end - 1) + 1
    }

    fn place(&self, at: usize) -> usize {
        let line = self.starts.partition_point(|(joined, _)| *joined <= at) - 1;
        let (joined, original) = self.starts[line];
        original + (at - joined)
    }
}

/// Two or more lines of base64, all but the last equally long.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut block = Block { joined: String::new(), starts: Vec::new() };
    let mut width = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        let continues = !block.starts.is_empty() && is_encoded(body) && body.len() <= width;
        if !continues {
            finish(&mut block, &mut blocks);
            width = body.len();
        }
        if continues || is_full_line(body) {
            block.starts.push((block.joined.len(), offset));
            block.joined.push_str(body);
        }
        if continues && body.len() < width {
            finish(&mut block, &mut blocks);
        }
        offset += line.len();
    }
    finish(&mut block, &mut blocks);
    blocks
}

/// Whether a line could be continued by the next one.
pub(super) fn is_full_line(body: &str) -> bool {
    body.len() >= MIN_LINE && is_encoded(body)
}

fn finish(block: &mut Block, blocks: &mut Vec<Block>) {
    let finished = std::mem::replace(block, Block { joined: String::new(), starts: Vec::new() });
    if finished.starts.len() > 1 {
        blocks.push(finished);
    }
}

fn is_encoded(body: &str) -> bool {
    let is_symbol =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    !body.is_empty() && body.bytes().all(is_symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_places_kept() {
        let line = "QUJD".repeat(19);
        let text = format!("x y\n{line}\r\n{line}\nQUI=\nrest of it\n");
        let blocks = blocks(&text);
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].joined, format!("{line}{line}QUI="));
        assert_eq!(&text[blocks[0].original(&(74..78))], "JD\r\nQU");
    }
}
