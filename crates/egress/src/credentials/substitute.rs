//! Replaces placeholders by values, encoded as each part of a request needs it: headers as they are, `Basic` inside its
//! base64, paths and queries percent-encoded, bodies by their format.

use super::placeholder::{contains_placeholder, find};
use super::placement::{CredentialPlacement, RequestPart};
use super::store::{CredentialScope, CredentialStore, SubstituteError};
use crate::http1::Fields;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str};
use zeroize::Zeroizing;

/// The characters to encode: all but the unreserved ones of RFC 3986.
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a value is inserted. It decides which values are refused; only `JsonString` escapes the value here, callers encode the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Header,
    Path,
    Query,
    JsonString,
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Form,
    Text,
}

impl BodyFormat {
    /// `None`: placeholders in such a body are not replaced.
    pub(crate) fn of(content_type: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
        let media_type = text.split(';').next().unwrap_or_default().trim();
        match media_type {
            "application/json" => Some(Self::Json),
            "application/x-www-form-urlencoded" => Some(Self::Form),
            _ if media_type.ends_with("+json") => Some(Self::Json),
            _ if media_type.starts_with("text/") => Some(Self::Text),
            _ => None,
        }
    }
}

impl CredentialStore {
    pub(crate) async fn substitute_fields(
        &self,
        fields: &mut Fields,
        scope: &CredentialScope<'_>,
    ) -> Result<(), SubstituteError> {
        for (name, value) in fields.iter_mut() {
            let part = RequestPart::Header(name);
            let is_authorization = name.eq_ignore_ascii_case(CredentialPlacement::AUTHORIZATION);
            if let (true, Some(plain)) = (is_authorization, decode_basic(value)) {
                let substituted = self.substitute(&plain, scope, part, Encoding::Header).await?;
                *value = format!("Basic {}", STANDARD.encode(&*substituted)).into_bytes();
            } else if contains_placeholder(value) {
                *value = self.substitute(value, scope, part, Encoding::Header).await?.to_vec();
            }
        }
        if let Some(token) = self.token(scope.host, scope.port) {
            fields.set("Authorization", format!("Bearer {}", token.reveal()).into_bytes());
        }
        Ok(())
    }

    pub(crate) async fn substitute_target(
        &self,
        target: &str,
        scope: &CredentialScope<'_>,
    ) -> Result<String, SubstituteError> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let mut out = self.substitute_path(path, scope).await?;
        if let Some(query) = query {
            out.push('?');
            out.push_str(&self.substitute_query(query, scope).await?);
        }
        Ok(out)
    }

    /// Segments without a placeholder keep their spelling.
    async fn substitute_path(
        &self,
        path: &str,
        scope: &CredentialScope<'_>,
    ) -> Result<String, SubstituteError> {
        let mut out = Vec::new();
        let mut start = 0;
        for segment in path.split('/') {
            let plain: Vec<u8> = percent_decode_str(segment).collect();
            let end = start + segment.len();
            out.push(match find(&plain) {
                Some((range, _)) if contains_placeholder(&plain[range.end..]) => {
                    return Err(SubstituteError::Twice);
                }
                Some((range, _)) => {
                    let text_before = String::from_utf8_lossy(&plain[..range.start]);
                    let before = format!("{}{text_before}", &path[..start]);
                    let after = format!("{}{}", String::from_utf8_lossy(&plain[range.end..]), &path[end..]);
                    let part = RequestPart::Path { before: &before, after: &after };
                    percent_encode(&self.substitute(&plain, scope, part, Encoding::Path).await?)
                }
                None => segment.to_owned(),
            });
            start = end + 1;
        }
        Ok(out.join("/"))
    }

    async fn substitute_query(
        &self,
        query: &str,
        scope: &CredentialScope<'_>,
    ) -> Result<String, SubstituteError> {
        let mut out = Vec::new();
        for pair in query.split('&') {
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (pair, None),
            };
            let plain_name: Vec<u8> = percent_decode_str(name).collect();
            if contains_placeholder(&plain_name) {
                return Err(SubstituteError::Misplaced { part: "names of query parameters" });
            }
            let plain: Vec<u8> = percent_decode_str(value.unwrap_or_default()).collect();
            out.push(if contains_placeholder(&plain) {
                let parameter = String::from_utf8_lossy(&plain_name);
                let part = RequestPart::QueryParameter(&parameter);
                let substituted = self.substitute(&plain, scope, part, Encoding::Query).await?;
                format!("{name}={}", percent_encode(&substituted))
            } else {
                pair.to_owned()
            });
        }
        Ok(out.join("&"))
    }

    pub(crate) async fn substitute_body(
        &self,
        body: &[u8],
        format: BodyFormat,
        scope: &CredentialScope<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, SubstituteError> {
        match format {
            BodyFormat::Json => self.substitute(body, scope, RequestPart::Body, Encoding::JsonString).await,
            BodyFormat::Text => self.substitute(body, scope, RequestPart::Body, Encoding::Text).await,
            BodyFormat::Form => self.substitute_form(&String::from_utf8_lossy(body), scope).await,
        }
    }

    async fn substitute_form(
        &self,
        form: &str,
        scope: &CredentialScope<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, SubstituteError> {
        let mut out = Zeroizing::new(Vec::new());
        for piece in form.split_inclusive(['&', '=']) {
            let text = piece.trim_end_matches(['&', '=']);
            let separator = &piece[text.len()..];
            let plain: Vec<u8> = percent_decode_str(text).collect();
            if contains_placeholder(&plain) {
                let substituted = self.substitute(&plain, scope, RequestPart::Body, Encoding::Query).await?;
                out.extend_from_slice(percent_encode(&substituted).as_bytes());
            } else {
                out.extend_from_slice(text.as_bytes());
            }
            out.extend_from_slice(separator.as_bytes());
        }
        Ok(out)
    }

    async fn substitute(
        &self,
        text: &[u8],
        scope: &CredentialScope<'_>,
        part: RequestPart<'_>,
        encoding: Encoding,
    ) -> Result<Zeroizing<Vec<u8>>, SubstituteError> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
        let mut rest = text;
        while let Some((whole, handle)) = find(rest) {
            out.extend_from_slice(&rest[..whole.start]);
            let name = String::from_utf8_lossy(&rest[handle]).into_owned();
            let (secret, key) = self.secret(&name, scope, part).await?;
            let unsuitable = |part| SubstituteError::Unsuitable { key: key.to_owned(), part };
            let value = secret.reveal();
            let control = value.bytes().any(|byte| byte < b' ' || byte == 0x7f);
            match encoding {
                Encoding::Header if control => return Err(unsuitable("header")),
                Encoding::Path if control || value.contains(['/', '\\']) || value.contains("..") => {
                    return Err(unsuitable("path"));
                }
                Encoding::JsonString => {
                    let quoted = Zeroizing::new(serde_json::Value::from(value).to_string());
                    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
                }
                Encoding::Header | Encoding::Path | Encoding::Query | Encoding::Text => {
                    out.extend_from_slice(value.as_bytes());
                }
            }
            rest = &rest[whole.end..];
        }
        out.extend_from_slice(rest);
        Ok(out)
    }
}

/// The decoded `Basic` authorization, if there is a placeholder in it.
fn decode_basic(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let plain = Zeroizing::new(STANDARD.decode(rest.trim_ascii()).ok()?);
    contains_placeholder(&plain).then_some(plain)
}

fn percent_encode(bytes: &[u8]) -> String {
    percent_encoding::percent_encode(bytes, ALL_BUT_UNRESERVED).to_string()
}
