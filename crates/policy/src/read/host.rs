//! Hosts of endpoints: a name, an address, or a pattern that is narrow enough to belong to one owner.

use yaml::{Diagnostic, Spanned};

use super::Reader;
use crate::address::{classify, parse_literal, unmap};
use crate::glob::{Pattern, Separator};
use crate::host::is_label;
use crate::model::HostPattern;

impl Reader {
    /// `None` after a problem was reported.
    pub(super) fn host(&mut self, path: &str, host: &Spanned<String>) -> Option<HostPattern> {
        let text = host.to_ascii_lowercase();
        let read = if text.contains('*') { pattern(&text) } else { plain(&text) };
        match read {
            Ok(HostPattern::Address(address)) => {
                let class = classify(address);
                if class.never_allowed() {
                    let message =
                        format!("`{path}` can never be reached: a {class} address is always refused");
                    self.warn("unreachable", host.at, message);
                }
                Some(HostPattern::Address(address))
            }
            Ok(read) => Some(read),
            Err((why, help)) => {
                let problem = Diagnostic::error("host", host.at, format!("`{path}` {why}"));
                self.report(match help {
                    Some(help) => problem.help(help),
                    None => problem,
                });
                None
            }
        }
    }
}

type Problem = (String, Option<String>);

fn plain(text: &str) -> Result<HostPattern, Problem> {
    match parse_literal(text) {
        Ok(Some(address)) => {
            let usual = address.to_string();
            if text.trim_matches(['[', ']']).parse() == Ok(address) {
                return Ok(HostPattern::Address(unmap(address)));
            }
            let why = "is an address in an unusual spelling".to_owned();
            Err((why, Some(format!("write `{usual}`"))))
        }
        Ok(None) => match text.split('.').find(|label| !is_label(label)) {
            Some("") if text.ends_with('.') => Err(("must not end in a dot".to_owned(), None)),
            Some(label) => Err((format!("has a part that no host name has: `{label}`"), None)),
            None if text.len() > 253 => Err(("is longer than 253 bytes".to_owned(), None)),
            None => Ok(HostPattern::Name(text.to_owned())),
        },
        Err(error) => Err((format!("is not a host: {error}"), None)),
    }
}

fn pattern(text: &str) -> Result<HostPattern, Problem> {
    let labels: Vec<&str> = text.split('.').collect();
    let last = labels.len() - 1;
    let too_wide = Some("name at least two labels after the wildcard, such as `*.example.com`".to_owned());
    if labels.len() < 3 || labels[last].contains('*') {
        return Err(("matches too many hosts".to_owned(), too_wide));
    }
    for (index, label) in labels.iter().enumerate() {
        let stars = label.bytes().filter(|byte| *byte == b'*').count();
        let rest = label.replace('*', "");
        let shape_is_good = match (index, *label) {
            (0, "**") | (_, "*") => true,
            // `*-x` or `x-*` at the front.
            (0, _) if stars == 1 && (label.starts_with('*') || label.ends_with('*')) => is_label(&rest),
            (_, _) => stars == 0 && is_label(label),
        };
        if !shape_is_good {
            let why = format!("has a wildcard where none is allowed: `{label}`");
            let help =
                "`*` must be a whole label or start or end the first one, and `**` must be the first label"
                    .to_owned();
            return Err((why, Some(help)));
        }
    }
    if labels[last - 1] == "*" && labels[..last].iter().all(|label| label.contains('*')) {
        return Err(("matches too many hosts".to_owned(), too_wide));
    }
    Pattern::glob(text, Separator::Dot).map(HostPattern::Glob).map_err(|error| (error.to_string(), None))
}
