//! References from one file to another: a path inside the layers, or a URL with the digest of what it must hold.
//! Parsing decides what a reference is; whether it exists is asked later, and nothing here reads a disk.

use yaml::macros::{Json, json};
use yaml::{Decoder, Node, Schemas, Shape};

/// A file or directory of the layers, or a remote one pinned by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ref {
    Local(LocalPath),
    Url(PinnedUrl),
}

/// A relative path that cannot leave its layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalPath(String);

/// An https URL with `#sha256=` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PinnedUrl {
    pub url: String,
    pub sha256: String,
}

/// An https prefix that ends in a slash: everything below it may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPrefix(String);

impl Ref {
    pub fn parse(text: &str) -> Result<Self, String> {
        if looks_like_url(text) {
            PinnedUrl::parse(text).map(Self::Url)
        } else {
            LocalPath::parse(text).map(Self::Local)
        }
    }

    pub fn local(&self) -> Option<&LocalPath> {
        match self {
            Self::Local(path) => Some(path),
            Self::Url(_) => None,
        }
    }

    /// The last part of the path, without the `.md` or `.yaml` that files carry.
    pub fn stem(&self) -> &str {
        let path = match self {
            Self::Local(path) => path.as_str(),
            Self::Url(url) => &url.url,
        };
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        [".md", ".yaml", ".yml"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
    }
}

impl std::fmt::Display for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(path) => f.write_str(path.as_str()),
            Self::Url(url) => f.write_str(&url.url),
        }
    }
}

impl LocalPath {
    pub fn parse(text: &str) -> Result<Self, String> {
        // A path of the layers already: the variable names their nearest directory.
        let text = text.strip_prefix("${FULLSEND_DIR}/").unwrap_or(text);
        if text.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if text.contains(['\0', '\n']) {
            return Err("must not contain control characters".to_owned());
        }
        if text.starts_with('/') || text.starts_with('~') {
            return Err(format!(
                "must be a path inside its layer, not `{text}`: write it relative to the layer's directory"
            ));
        }
        if text.split('/').any(|part| part == "..") {
            return Err(format!("must stay inside its layer: `{text}` climbs out of it with `..`"));
        }
        if text.contains("${") {
            return Err("must be written out: `${…}` is not expanded here".to_owned());
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() { Err("names no file".to_owned()) } else { Ok(Self(parts.join("/"))) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PinnedUrl {
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("https://") else {
            return Err(format!("must be an https URL, not `{text}`"));
        };
        let Some((url, fragment)) = text.split_once('#') else {
            return Err(
                "must name the digest of what it points at: add `#sha256=` and 64 hexadecimal digits"
                    .to_owned(),
            );
        };
        let host = rest.split(['/', '#', '?']).next().unwrap_or("");
        if host.is_empty() || host.contains('@') {
            return Err("must name a host, without a user name".to_owned());
        }
        let digest = fragment.strip_prefix("sha256=").unwrap_or("");
        if digest.len() != 64 || !digest.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err("must end in `#sha256=` and 64 hexadecimal digits".to_owned());
        }
        Ok(Self { url: url.to_owned(), sha256: digest.to_ascii_lowercase() })
    }

    /// Whether an allowed prefix covers this URL, as it would be after the server resolved its path.
    pub fn is_under(&self, prefix: &UrlPrefix) -> bool {
        is_plain(&self.url) && self.url.starts_with(prefix.as_str())
    }
}

impl UrlPrefix {
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with("https://") || !text.ends_with('/') || text.len() <= "https:///".len() {
            return Err("must be an https URL that ends in `/`".to_owned());
        }
        if !is_plain(text) || text.contains(['?', '#', '@']) {
            return Err("must be written plainly: no `%`, `..`, `\\`, `?`, `#` or user name".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

/// A prefix comparison is only sound on a path that no server would rewrite.
fn is_plain(url: &str) -> bool {
    !url.contains(['%', '\\']) && !url.split('/').any(|part| part == ".." || part == ".")
}

pub fn looks_like_url(text: &str) -> bool {
    text.contains("://")
}

/// Reads a text and parses it, reporting why it cannot be.
fn decode_with<T>(
    node: &Node,
    decoder: &mut Decoder,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let text = String::decode(node, decoder)?;
    match parse(&text) {
        Ok(value) => Some(value),
        Err(why) => {
            decoder.wrong_value(node, why);
            None
        }
    }
}

impl Shape for Ref {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        decode_with(node, decoder, Self::parse)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
}

impl Shape for LocalPath {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        decode_with(node, decoder, |text| {
            if looks_like_url(text) {
                return Err(
                    "must be a file of this layer: what runs or decides here is never fetched from a URL"
                        .to_owned(),
                );
            }
            Self::parse(text)
        })
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
}

impl Shape for UrlPrefix {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        decode_with(node, decoder, Self::parse)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "pattern": "^https://.+/$" })
    }
}

#[cfg(test)]
mod tests {
    use super::{PinnedUrl, Ref, UrlPrefix};

    #[test]
    fn references_are_told_apart_and_bad_ones_refused() {
        let digest = "a".repeat(64);
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = Ref::parse(text).map(|reference| reference.to_string());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
            }
        };
        check("agents/triage.md", Ok("agents/triage.md"));
        check("./agents//triage.md", Ok("agents/triage.md"));
        check("", Err("empty"));
        check("/etc/passwd", Err("inside its layer"));
        check("~/x", Err("inside its layer"));
        check("a/../../b", Err("climbs out"));
        check("a/${X}", Err("not expanded"));
        check("http://example.com/x", Err("https"));
        check("file:///etc/passwd", Err("https"));
        check("https://example.com/x", Err("digest"));
        check("https://u@example.com/x#sha256=00", Err("user name"));
        check("https://example.com/x#sha256=zz", Err("64 hexadecimal"));
        check(&format!("https://example.com/x#sha256={digest}"), Ok("https://example.com/x"));
    }

    #[test]
    fn a_prefix_covers_only_what_lies_below_it() {
        let prefix = UrlPrefix::parse("https://example.com/skills/").unwrap();
        let covered = |path: &str| {
            let text = format!("https://example.com/{path}#sha256={}", "a".repeat(64));
            PinnedUrl::parse(&text).unwrap().is_under(&prefix)
        };
        assert!(covered("skills/a"));
        assert!(!covered("skills"));
        assert!(!covered("skills/../secrets"));
        assert!(!covered("skills/%2e%2e/secrets"));
        assert!(!covered("other/skills/"));
        assert!(UrlPrefix::parse("https://example.com/skills").is_err());
        assert!(UrlPrefix::parse("http://example.com/skills/").is_err());
    }
}
