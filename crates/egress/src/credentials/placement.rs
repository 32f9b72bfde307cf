//! Where in a request a credential may go. The profile of its provider says so: a value in a part of the request that the
//! server does not expect may come back in the response, in a log, or in a redirect.

use std::fmt;

/// One part of a request that a profile allows for a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlacement {
    /// A header; `Authorization` includes the inside of `Basic`.
    Header(String),
    /// The value of a query parameter.
    QueryParameter(String),
    /// The path. A template such as `/bot{token}/` gives the text before and after the value.
    Path { template: Option<String> },
}

/// The part of a request in which a placeholder was found.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestPart<'a> {
    Header(&'a str),
    QueryParameter(&'a str),
    /// The text of the path before and after the placeholder.
    Path {
        before: &'a str,
        after: &'a str,
    },
    /// A body or a websocket message. The policy's endpoint says whether placeholders in it are replaced.
    Body,
}

impl CredentialPlacement {
    pub const AUTHORIZATION: &'static str = "Authorization";

    pub(super) fn allows(&self, part: RequestPart<'_>) -> bool {
        match (self, part) {
            (Self::Header(allowed), RequestPart::Header(name)) => allowed.eq_ignore_ascii_case(name),
            (Self::QueryParameter(allowed), RequestPart::QueryParameter(name)) => allowed == name,
            (Self::Path { template: None }, RequestPart::Path { .. }) => true,
            (Self::Path { template: Some(template) }, RequestPart::Path { before, after }) => {
                matches_template(template, before, after)
            }
            _ => false,
        }
    }
}

/// The path before the value must equal the template's text before `{`, and the path after it must start with the text after `}`.
fn matches_template(template: &str, before: &str, after: &str) -> bool {
    let Some((start, rest)) = template.split_once('{') else { return false };
    let Some((_, end)) = rest.split_once('}') else { return false };
    let end = end.trim_end_matches('*');
    before == start && after.starts_with(end)
}

impl fmt::Display for CredentialPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::QueryParameter(name) => write!(f, "the query parameter `{name}`"),
            Self::Path { template: None } => f.write_str("the path"),
            Self::Path { template: Some(template) } => write!(f, "the path `{template}`"),
        }
    }
}

impl fmt::Display for RequestPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::QueryParameter(name) => write!(f, "the query parameter `{name}`"),
            Self::Path { .. } => f.write_str("the path"),
            Self::Body => f.write_str("the body"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fixes_the_text_around_the_value() {
        let check = |template: &str, path: (&str, &str), expected: bool| {
            let placement = CredentialPlacement::Path { template: Some(template.to_owned()) };
            let part = RequestPart::Path { before: path.0, after: path.1 };
            assert_eq!(placement.allows(part), expected, "{template} {path:?}");
        };
        check("/bot{token}/**", ("/bot", "/send"), true);
        check("/bot{token}", ("/bot", ""), true);
        check("/bot{token}/**", ("/echo/bot", "/send"), false);
        check("/bot{token}/**", ("/bot", "send"), false);
        check("/no-braces", ("/no-braces", ""), false);
    }
}
