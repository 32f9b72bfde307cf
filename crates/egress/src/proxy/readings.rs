//! What else a server may read in a request. Some servers decode a path twice, and some take the method from a header, the
//! query or a form (`form_method.rs`). A request passes only if every reading of it may.

use super::refusal::Refusal;
use crate::http1::{Framing, RequestHead};
use policy::{CanonicalPath, EncodedSlash, Query};

/// Headers and query parameters that override the method in some frameworks. A `-` also matches `_`.
const METHOD_NAMES: &[&str] = &["-method", "x-http-method", "x-method"];
const METHOD_WORDS: &[&str] = &["method-override", "methodoverride", "override-method"];

/// Headers that replace the path, in the frameworks and gateways that know them: `x-original-url`, `X_Rewrite_Path`.
const PATH_STARTS: &[&str] =
    &["x-original-", "x-rewrite-", "x-override-", "x-envoy-original-", "x-forwarded-"];
const PATH_ENDS: &[&str] = &["url", "uri", "path", "prefix"];
const PATH_NAMES: &[&str] = &["x-http-destinationurl", "x-proxy-url", "x-request-uri"];

/// How often a path may be encoded.
const MAX_DECODINGS: usize = 4;

/// The methods, that of the request first.
pub(super) fn methods(head: &RequestHead, query: &Query) -> Result<Vec<String>, Refusal> {
    let mut all = vec![head.method.clone()];
    let headers = head.fields.iter().filter(|(name, _)| replaces_method(name)).map(|(_, value)| value);
    let is_replaced = |(name, _): &(&[u8], &[u8])| replaces_method(&String::from_utf8_lossy(name));
    let parameters = query.pairs().chain(query.pairs().flat_map(|(_, value)| after_semicolons(value)));
    for value in headers.chain(parameters.filter(is_replaced).map(|(_, value)| value)) {
        let method = std::str::from_utf8(value).unwrap_or_default().trim().to_ascii_uppercase();
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            return Err(Refusal::unreadable("the request has an invalid method override".to_owned()));
        }
        if !all.contains(&method) {
            all.push(method);
        }
    }
    Ok(all)
}

/// The parameters inside the value of another one, for servers that also separate parameters with `;`.
fn after_semicolons(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|byte| *byte == b';').skip(1).filter_map(|parameter| {
        let at = parameter.iter().position(|byte| *byte == b'=')?;
        Some((&parameter[..at], &parameter[at + 1..]))
    })
}

/// Servers that pass names on as variables treat `_`, `-`, `.` and a space as equal, and most ignore the case.
fn normalised(name: &str) -> String {
    // Some servers end a name at a zero byte.
    let name = name.trim_start().split(['[', '\0']).next().unwrap_or_default();
    name.to_ascii_lowercase().replace(['_', '.', ' '], "-")
}

pub(super) fn replaces_method(name: &str) -> bool {
    let name = normalised(name);
    METHOD_NAMES.contains(&name.as_str()) || METHOD_WORDS.iter().any(|word| name.contains(word))
}

fn replaces_path(name: &str) -> bool {
    let name = normalised(name);
    let has_end = |rest: &str| PATH_ENDS.contains(&rest);
    PATH_NAMES.contains(&name.as_str())
        || PATH_STARTS.iter().any(|start| name.strip_prefix(start).is_some_and(has_end))
}

/// A path in a header was not decided.
pub(super) fn check_path_headers(head: &RequestHead) -> Result<(), Refusal> {
    match head.fields.iter().map(|(name, _)| name).find(|name| replaces_path(name)) {
        Some(name) => Err(Refusal::unreadable(format!("the request replaces its path by the header {name}"))),
        None => Ok(()),
    }
}

/// The paths, that of the request first.
pub(super) fn paths(path: &CanonicalPath) -> Result<Vec<CanonicalPath>, Refusal> {
    let mut all = vec![path.clone()];
    let mut text = path.as_str().to_owned();
    // These bytes are not valid UTF-8, but some decoders read them as `.` and `/`.
    if text.contains("%C0") || text.contains("%C1") {
        return Err(Refusal::path(format!("{path} is not in UTF-8")));
    }
    if text.contains("%5C") {
        let decoded = CanonicalPath::new(&text.replace("%5C", "/"), EncodedSlash::Keep)
            .map_err(|error| Refusal::path(format!("{path} holds a `\\`, and with `/` instead {error}")))?;
        all.push(decoded);
    }
    for _ in 0..MAX_DECODINGS {
        let Some(next) = decode_again(&text) else { return Ok(all) };
        let decoded = CanonicalPath::new(&next, EncodedSlash::Keep)
            .map_err(|error| Refusal::path(format!("{path} is encoded twice, and decoded {error}")))?;
        if !all.contains(&decoded) {
            all.push(decoded);
        }
        text = next;
    }
    Err(Refusal::path(format!("{path} is encoded more than {MAX_DECODINGS} times")))
}

/// The path once more decoded, with separators as a server would see them; `None` if nothing is encoded twice.
fn decode_again(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find("%25") {
        out.push_str(&rest[..at]);
        rest = &rest[at + 3..];
        let digits = rest.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.map(str::to_ascii_uppercase).as_deref() {
            Some("2F" | "5C") => out.push('/'),
            Some(digits) => out.push_str(&format!("%{digits}")),
            None => {
                out.push_str("%25");
                continue;
            }
        }
        changed = true;
        rest = &rest[2..];
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// A server that ignores the body of such a request would read it as another request.
pub(super) fn check_body(head: &RequestHead) -> Result<(), Refusal> {
    let needs_none = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&head.method.as_str());
    match head.framing {
        Framing::None | Framing::Length(0) => Ok(()),
        _ if !needs_none => Ok(()),
        _ => Err(Refusal::unreadable(format!(
            "a {} request with a body: a server that ignores the body would read it as another request",
            head.method
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_as_often_as_it_is_encoded() {
        let read = |path: &str| {
            let path = CanonicalPath::new(path, EncodedSlash::Keep).unwrap();
            let all = paths(&path).map_err(|refusal| refusal.detail)?;
            Ok::<_, String>(all.iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(read("/a/b").unwrap(), "/a/b");
        assert_eq!(read("/100%25/x").unwrap(), "/100%25/x");
        assert_eq!(read("/open/%252e%252e/secret").unwrap(), "/open/%252e%252e/secret /secret");
        assert_eq!(read("/open/..%252fsecret").unwrap(), "/open/..%252fsecret /secret");
        assert_eq!(read("/open/%252e%252e%255csecret").unwrap(), "/open/%252e%252e%255csecret /secret");
        assert_eq!(read("/open/%25252e%25252e/s").unwrap(), "/open/%25252e%25252e/s /open/%252e%252e/s /s");
        assert_eq!(read("/open/a%5Csecret").unwrap(), "/open/a%5Csecret /open/a/secret");
        assert!(read("/open/%C0%AE%c0%ae/secret").is_err());
        assert!(read("/%252e%252e/x").is_err() && read("/a%2500").is_err());
        assert!(read("/%252525252525252e").is_err());
    }
}
