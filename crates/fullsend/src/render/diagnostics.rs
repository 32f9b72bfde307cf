//! Problems of configuration files, as a compiler would show them, or as JSON lines.

use std::collections::HashMap;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value as Json, json};
use yaml::{Diagnostic, Severity, SourceId, Sources, Span};

/// Whether to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Coloured,
}

/// One problem with its excerpt.
pub fn human(sources: &Sources, diagnostic: &Diagnostic, style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code);
    let shown = masked(sources, diagnostic);
    let mut group = excerpts(sources, &shown, diagnostic, title);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.decor_style(DecorStyle::Ascii).term_width(110).render(&[group])
}

fn excerpts<'a>(
    sources: &'a Sources,
    shown: &'a HashMap<SourceId, String>,
    diagnostic: &'a Diagnostic,
    title: annotate_snippets::Title<'a>,
) -> Group<'a> {
    let main = sources.get(diagnostic.at.source);
    if main.text.is_empty() {
        return title.element(Origin::path(&main.name));
    }
    let primary = AnnotationKind::Primary.span(range(sources, diagnostic.at)).label(&diagnostic.label);
    let mut snippet = Snippet::source(&shown[&diagnostic.at.source]).path(&main.name).annotation(primary);
    let mut others = Vec::new();
    for (at, what) in &diagnostic.related {
        if at.source == diagnostic.at.source {
            snippet = snippet.annotation(AnnotationKind::Context.span(range(sources, *at)).label(what));
        } else {
            others.push((*at, what));
        }
    }
    let mut group = title.element(snippet);
    for (at, what) in others {
        let source = sources.get(at.source);
        let note = AnnotationKind::Context.span(range(sources, at)).label(what);
        group = group.element(Snippet::source(&shown[&at.source]).path(&source.name).annotation(note));
    }
    group
}

/// The texts that a message shows, with every credential struck out: a message must not publish what it warns of.
/// Places stay true, because what is struck keeps its length.
fn masked(sources: &Sources, diagnostic: &Diagnostic) -> HashMap<SourceId, String> {
    let places = std::iter::once(diagnostic.at).chain(diagnostic.related.iter().map(|(at, _)| *at));
    places.map(|at| (at.source, struck(&sources.get(at.source).text, at.source, diagnostic))).collect()
}

fn struck(text: &str, source: SourceId, diagnostic: &Diagnostic) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let own = (diagnostic.code == "literal-credential" && diagnostic.at.source == source)
        .then_some(diagnostic.at.start as usize..diagnostic.at.end as usize);
    for range in scan::find_secrets(text).into_iter().map(|secret| secret.range).chain(own) {
        bytes[range].fill(b'*');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The first line of the span: a value that spans many lines would print all of them.
fn range(sources: &Sources, span: Span) -> std::ops::Range<usize> {
    let text = &sources.get(span.source).text;
    let start = (span.start as usize).min(text.len());
    let end = (span.end as usize).clamp(start, text.len());
    let line = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
    start..end.min(line).max(start)
}

/// One problem as a JSON object.
pub fn json(sources: &Sources, diagnostic: &Diagnostic) -> Json {
    let place = |at: Span| {
        let location = sources.locate(at);
        json!({ "file": location.name, "line": location.line, "column": location.column })
    };
    let related = |(at, what): &(Span, String)| {
        let mut related = place(*at);
        related["message"] = json!(what);
        related
    };
    let mut object = place(diagnostic.at);
    object["severity"] = json!(severity(diagnostic));
    object["code"] = json!(diagnostic.code);
    object["message"] = json!(diagnostic.message);
    object["label"] = json!(diagnostic.label);
    object["help"] = json!(diagnostic.help);
    object["related"] = diagnostic.related.iter().map(related).collect();
    object
}

pub fn severity(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
