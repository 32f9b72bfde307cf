//! Replaces placeholders by values, encoded as each part of a request needs it: headers as they are, `Basic` inside its
//! base64, paths and queries percent-encoded, bodies by their format.

use super::placeholder::{find, is_in};
use super::store::{CredentialScope, CredentialStore, SubstituteError};
use crate::http1::Fields;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str};
use zeroize::Zeroizing;

/// Everything but the unreserved characters of RFC 3986 is encoded.
const UNRESERVED_KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How the text around a placeholder is encoded.
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
    /// `None`: a body that is not changed.
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
            let authorizes = name.eq_ignore_ascii_case("authorization");
            if let (true, Some(plain)) = (authorizes, basic(value)) {
                let filled = self.substitute(&plain, scope, Encoding::Text).await?;
                if filled.contains(&b'\r') || filled.contains(&b'\n') {
                    return Err(SubstituteError::Misplaced { part: "Basic authorization" });
                }
                *value = format!("Basic {}", STANDARD.encode(&*filled)).into_bytes();
            } else if is_in(value) {
                *value = self.substitute(value, scope, Encoding::Header).await?.to_vec();
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
        let mut out = self.substitute_parts(path, '/', scope, Encoding::Path).await?;
        if let Some(query) = query {
            let mut filled = Vec::new();
            for pair in query.split('&') {
                filled.push(self.substitute_parts(pair, '=', scope, Encoding::Query).await?);
            }
            out.push('?');
            out.push_str(&filled.join("&"));
        }
        Ok(out)
    }

    /// Parts without a placeholder keep their spelling.
    async fn substitute_parts(
        &self,
        text: &str,
        separator: char,
        scope: &CredentialScope<'_>,
        encoding: Encoding,
    ) -> Result<String, SubstituteError> {
        let mut out = Vec::new();
        for part in text.split(separator) {
            let plain: Vec<u8> = percent_decode_str(part).collect();
            out.push(if is_in(&plain) {
                percent_encode(&self.substitute(&plain, scope, encoding).await?)
            } else {
                part.to_owned()
            });
        }
        Ok(out.join(&separator.to_string()))
    }

    pub(crate) async fn substitute_body(
        &self,
        body: &[u8],
        format: BodyFormat,
        scope: &CredentialScope<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, SubstituteError> {
        match format {
            BodyFormat::Json => self.substitute(body, scope, Encoding::JsonString).await,
            BodyFormat::Text => self.substitute(body, scope, Encoding::Text).await,
            BodyFormat::Form => {
                let text = String::from_utf8_lossy(body).into_owned();
                let mut filled = Vec::new();
                for pair in text.split('&') {
                    filled.push(self.substitute_parts(pair, '=', scope, Encoding::Query).await?);
                }
                Ok(Zeroizing::new(filled.join("&").into_bytes()))
            }
        }
    }

    async fn substitute(
        &self,
        text: &[u8],
        scope: &CredentialScope<'_>,
        encoding: Encoding,
    ) -> Result<Zeroizing<Vec<u8>>, SubstituteError> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
        let mut rest = text;
        while let Some((whole, handle)) = find(rest) {
            out.extend_from_slice(&rest[..whole.start]);
            let name = String::from_utf8_lossy(&rest[handle]).into_owned();
            let (secret, key) = self.secret(&name, scope).await?;
            let unfit = |part| SubstituteError::Unfit { key: key.to_owned(), part };
            let value = secret.reveal();
            let control = value.bytes().any(|byte| byte < b' ' || byte == 0x7f);
            match encoding {
                Encoding::Header if control => return Err(unfit("header")),
                Encoding::Path if control || value.contains(['/', '\\']) || value.contains("..") => {
                    return Err(unfit("path"));
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
fn basic(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let plain = Zeroizing::new(STANDARD.decode(rest.trim_ascii()).ok()?);
    is_in(&plain).then_some(plain)
}

fn percent_encode(bytes: &[u8]) -> String {
    percent_encoding::percent_encode(bytes, UNRESERVED_KEPT).to_string()
}
