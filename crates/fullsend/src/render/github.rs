//! Annotations of GitHub Actions: lines that the runner turns into marks on a file.

use yaml::{Diagnostic, Sources};

use super::diagnostics::{clean, severity};

pub fn annotation(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let diagnostic = &clean(diagnostic);
    let place = sources.locate(diagnostic.at);
    let mut message = diagnostic.message.clone();
    for extra in [Some(&diagnostic.label).filter(|label| !label.is_empty()), diagnostic.help.as_ref()]
        .into_iter()
        .flatten()
    {
        message.push_str("; ");
        message.push_str(extra);
    }
    mark(severity(diagnostic), &place.name, (place.line, place.column), diagnostic.code, &message)
}

/// A mark on one line of a file.
pub fn mark(level: &str, file: &str, (line, column): (usize, usize), title: &str, message: &str) -> String {
    // The runner calls a note a notice.
    let level = if level == "note" { "notice" } else { level };
    let file = property(file);
    let title = property(title);
    let message = data(message);
    format!("::{level} file={file},line={line},col={column},title={title}::{message}")
}

/// Characters that would end the message early are escaped as the runner expects.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
