//! The texts that were read, and places in them. A span is three numbers, so that every node can keep one.

use std::sync::{Arc, OnceLock};

/// One text that was read, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(u32);

/// A range of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub source: SourceId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// The place before the first byte: where a message about a whole file points.
    pub fn start_of(source: SourceId) -> Self {
        Self { source, start: 0, end: 0 }
    }
}

/// A text and the name a person knows it by.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: String,
    pub text: Arc<str>,
    /// The start of each line; computed on first use.
    lines: OnceLock<Vec<usize>>,
}

impl Source {
    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let newlines = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(newlines.map(|(index, _)| index + 1)).collect()
        })
    }
}

/// All texts of one command, so that any span can be shown to a person.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    all: Vec<Source>,
}

/// The start of a span. Lines and columns count from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub name: String,
    pub line: usize,
    pub column: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.line, self.column)
    }
}

impl Sources {
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceId {
        let id = SourceId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(Source { name: name.into(), text: text.into(), lines: OnceLock::new() });
        id
    }

    pub fn get(&self, id: SourceId) -> &Source {
        &self.all[id.0 as usize]
    }

    pub fn slice(&self, span: Span) -> &str {
        self.get(span.source).text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    pub fn locate(&self, span: Span) -> Location {
        let source = self.get(span.source);
        let start = source.text.floor_char_boundary(span.start as usize);
        let line = source.lines().partition_point(|first| *first <= start);
        let first = source.lines()[line - 1];
        Location { name: source.name.clone(), line, column: source.text[first..start].chars().count() + 1 }
    }
}
