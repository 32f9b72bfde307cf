//! Text to tree, within bounds: size, depth and number of nodes, aliases counted at their full size.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};

use crate::{Diagnostic, MapEntry, Node, SourceId, Sources, Span, Value};

/// How large a document may be. The defaults are far above what a person writes.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    pub bytes: usize,
    pub depth: usize,
    pub nodes: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { bytes: 1 << 20, depth: 64, nodes: 100_000 }
    }
}

/// Parses one document. An empty text is `null`. The first problem ends the parse: what follows it cannot be trusted.
pub fn parse(sources: &Sources, source: SourceId, limits: ParseLimits) -> Result<Node, Box<Diagnostic>> {
    parse_part(sources, source, 0..sources.get(source).text.len(), limits)
}

/// Parses a part of a text, such as the frontmatter of a Markdown file; places are those of the whole text.
pub fn parse_part(
    sources: &Sources,
    source: SourceId,
    part: Range<usize>,
    limits: ParseLimits,
) -> Result<Node, Box<Diagnostic>> {
    let whole = Span::start_of(source);
    let text = sources.get(source).text.get(part.clone()).unwrap_or("");
    let bom_length = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if text.len() > limits.bytes {
        let message = format!("the file has {} bytes; at most {} are read", text.len(), limits.bytes);
        return Err(Diagnostic::error("too-large", whole, message).into());
    }
    let mut builder = Builder {
        source,
        limits,
        bytes_before: part.start + bom_length,
        length: part.start + text.len(),
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        documents: 0,
        root: None,
    };
    for event in Parser::new_from_str(&text[bom_length..]) {
        match event {
            Ok((event, span)) => {
                let at = builder.span(&span);
                builder.event(event, at)?;
            }
            Err(error) => return Err(builder.syntax(&error, &text[bom_length..]).into()),
        }
    }
    Ok(builder.root.unwrap_or(Node::new(whole, Value::Null)))
}

/// A list or map whose end has not been seen.
struct Open {
    at: Span,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<MapEntry>, seen: HashMap<String, Span>, key: Option<(String, Span)> },
}

struct Builder {
    source: SourceId,
    limits: ParseLimits,
    bytes_before: usize,
    length: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
}

type Step = Result<(), Box<Diagnostic>>;

/// Finds the tab in the indentation that the parser complains about. The parser reports it at the end of the token before, a
/// line too early.
fn tab_after(text: &str, byte: Option<usize>, message: &str) -> Option<usize> {
    if !message.contains("tab") {
        return None;
    }
    let from = text.floor_char_boundary(byte?);
    let start = text[..from].rfind('\n').map_or(0, |newline| newline + 1);
    let mut line_start = start;
    for line in text[start..].split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..indent].find('\t') {
            return Some(line_start + tab);
        }
        line_start += line.len();
    }
    None
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Span) -> Step {
        match event {
            Event::DocumentStart(..) => self.document(at),
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(text, style, tag.as_deref(), at)?;
                self.complete(Node::new(at, value), anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "seq", at)?;
                self.open(Open { at, anchor, kind: Kind::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "map", at)?;
                let kind = Kind::Map { entries: Vec::new(), seen: HashMap::new(), key: None };
                self.open(Open { at, anchor, kind })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at),
            Event::Alias(anchor) => self.alias(anchor, at),
            _ => Ok(()),
        }
    }

    fn document(&mut self, at: Span) -> Step {
        self.documents += 1;
        if self.documents > 1 {
            return Err(Diagnostic::error(
                "documents",
                at,
                "a second document starts here; a file may contain only one",
            )
            .into());
        }
        Ok(())
    }

    fn open(&mut self, open: Open) -> Step {
        if self.open.len() >= self.limits.depth {
            return Err(self.too_deep(open.at).into());
        }
        if let Some(Open { kind: Kind::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(Diagnostic::error("key", open.at, "a key must be text").into());
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self, at: Span) -> Step {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let span = Span { end: at.end.max(open.at.end), ..open.at };
        let value = match open.kind {
            Kind::List(items) => Value::List(items),
            Kind::Map { entries, .. } => Value::Map(entries),
        };
        self.complete(Node::new(span, value), open.anchor)
    }

    fn alias(&mut self, anchor: usize, at: Span) -> Step {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(Diagnostic::error("alias", at, "this alias is inside the value that it names").into());
        };
        self.count(size(node), at)?;
        match self.anchors.get(&anchor).cloned() {
            Some(node) => self.complete(node, 0),
            None => Ok(()),
        }
    }

    /// Counts values before they are made. An anchored value counts twice, for itself and for the copy that is kept; an alias counts
    /// as everything it repeats.
    fn count(&mut self, more: usize, at: Span) -> Step {
        self.nodes += more;
        if self.nodes > self.limits.nodes {
            let message = format!("more than {} values, counting what aliases repeat", self.limits.nodes);
            return Err(Diagnostic::error("too-many", at, message).into());
        }
        Ok(())
    }

    /// A whole value: it becomes a key, a value, an item or the document itself.
    fn complete(&mut self, node: Node, anchor: usize) -> Step {
        self.count(1, node.at)?;
        if anchor > 0 {
            self.count(size(&node), node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { entries, seen, key }) => match key.take() {
                None => *key = Some(as_key(&node, seen)?),
                Some((key, key_at)) => {
                    seen.insert(key.clone(), key_at);
                    entries.push(MapEntry { key, key_at, node });
                }
            },
        }
        Ok(())
    }

    fn syntax(&self, error: &ScanError, text: &str) -> Diagnostic {
        let byte = error.marker().byte_offset();
        let byte = tab_after(text, byte, &error.info()).or(byte);
        let at = self.place(byte);
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => self.too_deep(at),
            _ => Diagnostic::error("syntax", at, format!("this is not valid YAML: {}", error.info())),
        }
    }

    fn too_deep(&self, at: Span) -> Diagnostic {
        Diagnostic::error("too-deep", at, format!("nested deeper than {} levels", self.limits.depth))
    }

    fn span(&self, span: &granit_parser::Span) -> Span {
        let range = span.byte_range().unwrap_or(0..0);
        let offset =
            |byte: usize| u32::try_from((byte + self.bytes_before).min(self.length)).unwrap_or(u32::MAX);
        Span { source: self.source, start: offset(range.start), end: offset(range.end) }
    }

    fn place(&self, byte: Option<usize>) -> Span {
        let start =
            u32::try_from((byte.unwrap_or(0) + self.bytes_before).min(self.length)).unwrap_or(u32::MAX);
        Span { source: self.source, start, end: start }
    }
}

fn as_key(node: &Node, seen: &HashMap<String, Span>) -> Result<(String, Span), Box<Diagnostic>> {
    let Some(key) = node.scalar() else {
        return Err(Diagnostic::error("key", node.at, "a key must be text").into());
    };
    if key == "<<" {
        let help = "write the values out, or let a harness extend another with `base:`";
        return Err(Diagnostic::error("key", node.at, "YAML merge keys are not supported").help(help).into());
    }
    if let Some(first) = seen.get(key) {
        return Err(Diagnostic::error("duplicate-key", node.at, format!("`{key}` is set twice"))
            .label("the second time")
            .related(*first, "the first time")
            .help("keep one of them")
            .into());
    }
    Ok((key.to_owned(), node.at))
}

fn scalar(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: Span,
) -> Result<Value, Box<Diagnostic>> {
    match tag.map(Tag::suffix) {
        Some("str" | "!" | "") => return Ok(Value::Text(text.into_owned())),
        Some("int" | "float" | "bool" | "null") | None => {}
        Some(other) => return Err(unknown_tag(other, at)),
    }
    Ok(if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text.into_owned()) })
}

fn collection_tag(tag: Option<&Tag>, expected: &str, at: Span) -> Step {
    match tag.map(Tag::suffix) {
        Some(suffix) if suffix != expected => Err(unknown_tag(suffix, at)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &str, at: Span) -> Box<Diagnostic> {
    Diagnostic::error("tag", at, format!("the tag `!{tag}` has no meaning here"))
        .help("remove the tag")
        .into()
}

/// The core schema of YAML 1.2: `yes`, `no`, `on` and `off` are text.
fn plain(text: Cow<'_, str>) -> Value {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number if is_number(number) => Value::Number(text.into_owned()),
        _ => Value::Text(text.into_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts_well = digits.starts_with(|c: char| c.is_ascii_digit()) || digits.starts_with('.');
    starts_well
        && digits.contains(|c: char| c.is_ascii_digit())
        && (digits.parse::<f64>().is_ok() || is_radix(digits, "0x", 16) || is_radix(digits, "0o", 8))
}

fn is_radix(digits: &str, prefix: &str, radix: u32) -> bool {
    digits.strip_prefix(prefix).is_some_and(|rest| u64::from_str_radix(rest, radix).is_ok())
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|entry| 1 + size(&entry.node)).sum::<usize>(),
        _ => 1,
    }
}
