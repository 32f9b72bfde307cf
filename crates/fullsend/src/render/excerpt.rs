//! The lines of a file that a diagnostic shows: only those around its places, however large the file is. Credentials in
//! them are masked.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Origin, Snippet};
use yaml::{Diagnostic, Location, Source, Sources, Span};

/// The most bytes of one file that one message shows.
const MAX_BYTES: usize = 32 << 10;

/// Bytes before and after the lines shown that are also read, so that a credential of several lines is recognised.
const AROUND: usize = 4 << 10;

/// One file's part of a message.
pub struct Excerpt<'a> {
    name: &'a str,
    place: Location,
    /// `None` if the file is empty or the line is too long.
    shown: Option<DisplayedSource>,
    notes: Vec<Note<'a>>,
}

struct DisplayedSource {
    text: String,
    first_line: usize,
}

struct Note<'a> {
    kind: AnnotationKind,
    range: Range<usize>,
    label: &'a str,
}

/// The excerpts of a message, the one with its own place first.
pub fn excerpts<'a>(sources: &'a Sources, diagnostic: &'a Diagnostic) -> Vec<Excerpt<'a>> {
    let own = (diagnostic.at, AnnotationKind::Primary, diagnostic.label.as_str());
    let related = diagnostic.related.iter().map(|(at, what)| (*at, AnnotationKind::Context, what.as_str()));
    let places: Vec<_> = std::iter::once(own).chain(related).collect();
    let (beside, apart): (Vec<_>, Vec<_>) = places
        .iter()
        .partition(|(at, ..)| at.source == diagnostic.at.source && near(sources, *at, diagnostic.at));
    let mut excerpts = vec![excerpt(sources, diagnostic, &beside)];
    excerpts.extend(apart.into_iter().map(|place| excerpt(sources, diagnostic, &[place])));
    excerpts
}

/// Whether two places of one file fit into one excerpt.
fn near(sources: &Sources, one: Span, other: Span) -> bool {
    let one = first_line(sources, one);
    let other = first_line(sources, other);
    one.end.max(other.end) - one.start.min(other.start) <= MAX_BYTES
}

type NotePlace<'a> = (Span, AnnotationKind, &'a str);

fn excerpt<'a>(sources: &'a Sources, diagnostic: &Diagnostic, places: &[&NotePlace<'a>]) -> Excerpt<'a> {
    let at = places.first().map_or(diagnostic.at, |(at, ..)| *at);
    let source = sources.get(at.source);
    let note =
        |(at, kind, label): &&NotePlace<'a>| Note { kind: *kind, range: first_line(sources, *at), label };
    let mut notes: Vec<Note<'a>> = places.iter().map(note).collect();
    let window = window(source, &notes);
    for note in &mut notes {
        let offset = window.as_ref().map_or(0, |window| window.start);
        note.range = note.range.start - offset..note.range.end - offset;
    }
    let shown = window.map(|window| DisplayedSource {
        first_line: sources.locate(Span { source: at.source, ..start_at(at, window.start) }).line,
        text: masked(source, at, &window, diagnostic),
    });
    Excerpt { name: &source.name, place: sources.locate(at), shown, notes }
}

fn start_at(at: Span, byte: usize) -> Span {
    let start = u32::try_from(byte).unwrap_or(u32::MAX);
    Span { start, end: start, ..at }
}

/// The first line of the span: a value that spans many lines would print all of them.
fn first_line(sources: &Sources, span: Span) -> Range<usize> {
    let text = &sources.get(span.source).text;
    let start = text.floor_char_boundary(span.start as usize);
    let end = text.floor_char_boundary(span.end as usize).max(start);
    let line = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
    start..end.min(line).max(start)
}

/// Whole lines around all notes, or `None` if they are too long to show.
fn window(source: &Source, notes: &[Note<'_>]) -> Option<Range<usize>> {
    let text = &source.text;
    let start = notes.iter().map(|note| note.range.start).min()?;
    let end = notes.iter().map(|note| note.range.end).max()?;
    let begin = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let finish = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
    if text.is_empty() || finish - begin > MAX_BYTES {
        return None;
    }
    let far = text.floor_char_boundary(begin.saturating_sub(AROUND));
    let before =
        if far == 0 { 0 } else { text[far..begin].find('\n').map_or(begin, |newline| far + newline + 1) };
    let beyond = text.floor_char_boundary(finish + AROUND);
    let after = if beyond == text.len() {
        beyond
    } else {
        text[finish..beyond].rfind('\n').map_or(finish, |n| finish + n)
    };
    Some(before..after)
}

/// The text of the window with its credentials masked. Masked text keeps its length and its lines, so that the marks stay
/// in place.
fn masked(source: &Source, at: Span, window: &Range<usize>, diagnostic: &Diagnostic) -> String {
    let text = &source.text[window.clone()];
    let mut bytes = text.as_bytes().to_vec();
    let is_own = diagnostic.code == "literal-credential" && diagnostic.at.source == at.source;
    let own = is_own.then_some(diagnostic.at.start as usize..diagnostic.at.end as usize);
    let own = own.map(|own| inside(own.start, window)..inside(own.end, window));
    let known = redact::find_secrets(text).into_iter().map(|secret| secret.range);
    for range in known.chain(by_field(text)).chain(own) {
        bytes[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b'*');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Values that are credentials because of their key.
fn by_field(text: &str) -> Vec<Range<usize>> {
    let mut offset = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        for pair in line.split_inclusive(['{', ',']) {
            if let Some((key, value)) = pair.split_once(": ") {
                let name = key.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let bare = value.trim_matches(&[' ', '\n', '\r', '"', '\'', '}', ','][..]);
                if !bare.contains("${") && redact::find_secret_in_field(name, bare).is_some() {
                    let start = offset + key.len() + 2 + value.find(bare).unwrap_or(0);
                    found.push(start..start + bare.len());
                }
            }
            offset += pair.len();
        }
    }
    found
}

fn inside(byte: usize, window: &Range<usize>) -> usize {
    byte.clamp(window.start, window.end) - window.start
}

impl<'a> Excerpt<'a> {
    /// The lines with their marks, if there are lines to show.
    pub fn snippet(&'a self) -> Option<Snippet<'a, Annotation<'a>>> {
        let shown = self.shown.as_ref()?;
        let snippet = Snippet::source(&shown.text).line_start(shown.first_line).path(self.name);
        let note = |note: &'a Note<'a>| note.kind.span(note.range.clone()).label(note.label);
        Some(self.notes.iter().fold(snippet, |snippet, mark| snippet.annotation(note(mark))))
    }

    /// The place alone.
    pub fn origin(&self) -> Origin<'a> {
        let origin = Origin::path(self.name);
        match self.place.line {
            1 if self.place.column == 1 => origin,
            line => origin.line(line).char_column(self.place.column),
        }
    }
}
