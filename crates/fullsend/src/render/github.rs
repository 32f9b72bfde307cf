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
    format!(
        "::{} file={},line={},col={},title={}::{}",
        severity(diagnostic),
        property(&place.name),
        place.line,
        place.column,
        property(diagnostic.code),
        data(&message)
    )
}

/// What would end the message early is written as the runner's own escapes.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
