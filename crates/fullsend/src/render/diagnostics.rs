//! Problems of configuration files, as a compiler would show them, or as JSON lines.

use annotate_snippets::{Group, Level, Renderer, renderer::DecorStyle};
use serde_json::{Value as Json, json};
use yaml::{Diagnostic, DiagnosticSeverity, Sources, Span};

use super::excerpt::excerpts;
use super::workflow_commands::neutralise;

/// Whether to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Coloured,
}

/// A text that is safe to show: no credential, no control character for a terminal, no command for a CI.
pub fn clean_text(text: &str) -> String {
    static PATTERNS: std::sync::LazyLock<redact::Redactor> = std::sync::LazyLock::new(redact::Redactor::new);
    let text: String = PATTERNS.redact(text).chars().map(visible).collect();
    neutralise(&text)
}

/// Control characters, line ends of other systems and changes of the reading direction become visible.
fn visible(c: char) -> char {
    let is_hidden = (c.is_control() && c != '\n')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if is_hidden { '\u{fffd}' } else { c }
}

/// The same problem with texts that are safe to show.
pub fn clean(diagnostic: &Diagnostic) -> Diagnostic {
    Diagnostic {
        message: clean_text(&diagnostic.message),
        label: clean_text(&diagnostic.label),
        related: diagnostic.related.iter().map(|(at, what)| (*at, clean_text(what))).collect(),
        help: diagnostic.help.as_deref().map(clean_text),
        ..diagnostic.clone()
    }
}

/// One problem with its excerpt.
pub fn human(sources: &Sources, diagnostic: &Diagnostic, style: Style) -> String {
    let diagnostic = &clean(diagnostic);
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let level = match diagnostic.severity {
        DiagnosticSeverity::Error => Level::ERROR,
        DiagnosticSeverity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code);
    let excerpts = excerpts(sources, diagnostic);
    let mut group = Group::with_title(title);
    for excerpt in &excerpts {
        group = match excerpt.snippet() {
            Some(snippet) => group.element(snippet),
            None => group.element(excerpt.origin()),
        };
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help));
    }
    neutralise(&renderer.decor_style(DecorStyle::Ascii).term_width(110).render(&[group]))
}

/// One problem as a JSON object.
pub fn json(sources: &Sources, diagnostic: &Diagnostic) -> Json {
    let diagnostic = &clean(diagnostic);
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
        DiagnosticSeverity::Error => "error",
        DiagnosticSeverity::Warning => "warning",
    }
}
