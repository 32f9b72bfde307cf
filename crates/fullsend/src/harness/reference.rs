//! References from one file to another: a path inside the layers, or a URL with the digest of its content. Parsing
//! decides the kind of a reference. Nothing here reads the disk or checks whether a reference exists.

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

/// A remote file, archive or commit, and its pin: `https://HOST/FILE#sha256=DIGEST`, an archive with `//PATH` after its
/// digest, or `git+https://HOST/REPOSITORY@COMMIT//PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PinnedUrl {
    /// The https address that is asked.
    pub url: String,
    pub pin: UrlPin,
    /// The file or directory in the archive or the commit; empty for all of it.
    pub path: String,
}

/// How the content of a URL is pinned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UrlPin {
    /// The SHA-256 digest of the bytes.
    Sha256(String),
    /// The id of a git commit.
    Commit(String),
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
            Self::Url(url) if url.path.is_empty() => url.url.split('?').next().unwrap_or_default(),
            Self::Url(url) => &url.path,
        };
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        [".md", ".yaml", ".yml"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
    }
}

impl std::fmt::Display for Ref {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(path) => f.write_str(path.as_str()),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl LocalPath {
    pub fn parse(text: &str) -> Result<Self, String> {
        // Already a path of the layers: the variable names their nearest directory.
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
            return Err(format!("must stay inside its layer: `{text}` leaves it with `..`"));
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
        if let Some(rest) = text.strip_prefix("git+") {
            return Self::parse_commit(rest);
        }
        if !text.starts_with("https://") {
            return Err(format!("must be an https URL, not `{text}`"));
        }
        let Some((url, fragment)) = text.split_once('#') else {
            return Err(
                "must have the digest of its content: add `#sha256=` and 64 hexadecimal digits".to_owned()
            );
        };
        check_host(url)?;
        let (fragment, path) = fragment.split_once("//").unwrap_or((fragment, ""));
        let digest = fragment.strip_prefix("sha256=").unwrap_or("");
        if !is_hexadecimal(digest, 64) {
            return Err("must end in `#sha256=` and 64 hexadecimal digits".to_owned());
        }
        let path = inner_path(path)?;
        let pinned = Self { url: url.to_owned(), pin: UrlPin::Sha256(digest.to_ascii_lowercase()), path };
        if !pinned.path.is_empty() && !pinned.is_archive() {
            return Err(
                "has a path after its digest, which only a `.tar.gz`, `.tgz` or `.tar` may have".to_owned()
            );
        }
        Ok(pinned)
    }

    /// `https://HOST/REPOSITORY@COMMIT//PATH`
    fn parse_commit(text: &str) -> Result<Self, String> {
        let form = "must be `git+https://HOST/REPOSITORY@COMMIT//PATH`";
        let rest = text.strip_prefix("https://").ok_or(form)?;
        let (before, path) = rest.split_once("//").unwrap_or((rest, ""));
        let (repository, commit) = before.rsplit_once('@').ok_or(form)?;
        let url = format!("https://{}", repository.trim_end_matches('/'));
        check_host(&url)?;
        if url.contains(['?', '#']) {
            return Err(form.to_owned());
        }
        if !is_hexadecimal(commit, 40) {
            return Err(format!("{form}, with the whole id of a commit: a branch or a tag can move"));
        }
        Ok(Self { url, pin: UrlPin::Commit(commit.to_ascii_lowercase()), path: inner_path(path)? })
    }

    /// As a harness writes it, with its digest or commit.
    pub fn written(&self) -> String {
        match &self.pin {
            UrlPin::Sha256(digest) if self.path.is_empty() => format!("{}#sha256={digest}", self.url),
            UrlPin::Sha256(digest) => format!("{}#sha256={digest}//{}", self.url, self.path),
            UrlPin::Commit(_) => self.to_string(),
        }
    }

    /// Whether the URL names an archive, by its ending.
    pub fn is_archive(&self) -> bool {
        let file = self.url.split('?').next().unwrap_or_default();
        matches!(self.pin, UrlPin::Sha256(_))
            && [".tar.gz", ".tgz", ".tar"].iter().any(|end| file.ends_with(end))
    }

    /// The address to compare with allowed prefixes: files of a commit are below their repository.
    fn location(&self) -> String {
        match self.pin {
            UrlPin::Sha256(_) => self.url.clone(),
            UrlPin::Commit(_) => format!("{}/{}", self.url, self.path),
        }
    }

    /// Whether an allowed prefix covers this URL, as it would be after the server resolved its path.
    pub fn is_under(&self, prefix: &UrlPrefix) -> bool {
        let location = self.location();
        is_plain(&location) && location.starts_with(prefix.as_str())
    }
}

/// As it is written, without a digest.
impl std::fmt::Display for PinnedUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.pin {
            UrlPin::Sha256(_) => f.write_str(&self.url)?,
            UrlPin::Commit(commit) => write!(f, "git+{}@{commit}", self.url)?,
        }
        if self.path.is_empty() { Ok(()) } else { write!(f, "//{}", self.path) }
    }
}

fn check_host(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://").unwrap_or_default();
    let host = rest.split(['/', '?']).next().unwrap_or("");
    if host.is_empty() || host.contains('@') {
        return Err("must name a host, without a user name".to_owned());
    }
    Ok(())
}

fn is_hexadecimal(text: &str, length: usize) -> bool {
    text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// A path inside an archive or a commit; it may be empty.
fn inner_path(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    LocalPath::parse(text).map(|path| path.0).map_err(|why| format!("has a path that {why}"))
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

    /// Whether a URL lies below it.
    pub fn covers_url(&self, url: &str) -> bool {
        is_plain(url) && url.starts_with(&self.0)
    }

    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

/// A host of an internal network, with its port where that is not 443.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalHost(String);

impl InternalHost {
    fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = text.split_once(':').unwrap_or((text, "443"));
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        if host.is_empty() || !host.chars().all(is_name) || port.parse::<u16>().is_err() {
            return Err("must be a host such as `git.corp.example` or `git.corp.example:8443`".to_owned());
        }
        let host = host.to_ascii_lowercase();
        Ok(Self(if port == "443" { host } else { format!("{host}:{port}") }))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Shape for InternalHost {
    fn decode(node: &Node, decoder: &mut Decoder) -> Option<Self> {
        decode_with(node, decoder, Self::parse)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9.-]+(:[0-9]+)?$" })
    }
}

/// Comparing prefixes is only safe for a path that no server would rewrite.
fn is_plain(url: &str) -> bool {
    !url.contains(['%', '\\']) && !url.split('/').any(|part| part == ".." || part == ".")
}

pub fn looks_like_url(text: &str) -> bool {
    text.contains("://")
}

/// Reads and parses a text, and reports an error.
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
        check("a/../../b", Err("leaves it"));
        check("a/${X}", Err("not expanded"));
        check("http://example.com/x", Err("https"));
        check("file:///etc/passwd", Err("https"));
        check("https://example.com/x", Err("digest"));
        check("https://u@example.com/x#sha256=00", Err("user name"));
        check("https://example.com/x#sha256=zz", Err("64 hexadecimal"));
        check(&format!("https://example.com/x#sha256={digest}"), Ok("https://example.com/x"));
        check(&format!("https://example.com/x#sha256={digest}//a"), Err("only a `.tar.gz`"));
        check(
            &format!("https://example.com/x.tgz#sha256={digest}//a/b.yaml"),
            Ok("https://example.com/x.tgz//a/b.yaml"),
        );
        check(&format!("https://example.com/x.tgz#sha256={digest}//../b"), Err("leaves it"));
        let commit = "b".repeat(40);
        let written = format!("git+https://example.com/acme/agents@{commit}//harness/x.yaml");
        check(&written, Ok(&written));
        check(
            &format!("git+https://example.com/agents@{commit}"),
            Ok(&format!("git+https://example.com/agents@{commit}")),
        );
        check("git+https://example.com/agents@main//x", Err("a branch or a tag can move"));
        check("git+https://example.com/agents//x", Err("must be `git+https"));
        check(&format!("git+https://u:p@example.com/agents@{commit}//x"), Err("user name"));
        check(&format!("git+ssh://example.com/agents@{commit}//x"), Err("must be `git+https"));
        check(&format!("git+https://example.com/agents@{commit}//a/../../x"), Err("leaves it"));
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
        let of_commit = |path: &str| {
            let text = format!("git+https://example.com/skills@{}//{path}", "b".repeat(40));
            PinnedUrl::parse(&text).unwrap().is_under(&prefix)
        };
        assert!(of_commit("a"));
        assert!(of_commit(""));
        assert!(!of_commit("%2e%2e/x"));
        assert!(UrlPrefix::parse("https://example.com/skills").is_err());
        assert!(UrlPrefix::parse("http://example.com/skills/").is_err());
    }
}
