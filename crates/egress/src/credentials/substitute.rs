//! Puts values in the place of placeholders, written as each place of a request needs it: headers as they are, `Basic`
//! inside its base64, paths and queries percent-encoded, bodies by their kind.

use super::placeholder::{find, is_in};
use super::store::{CredentialError, CredentialStore, Place};
use crate::http1::Fields;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

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
pub(crate) enum BodyKind {
    Json,
    Form,
    Text,
}

impl BodyKind {
    /// `None`: a kind whose bodies are not changed.
    pub(crate) fn of(content_type: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
        let kind = text.split(';').next().unwrap_or_default().trim();
        match kind {
            "application/json" => Some(Self::Json),
            "application/x-www-form-urlencoded" => Some(Self::Form),
            _ if kind.ends_with("+json") => Some(Self::Json),
            _ if kind.starts_with("text/") => Some(Self::Text),
            _ => None,
        }
    }
}

impl CredentialStore {
    pub(crate) async fn fill_fields(
        &self,
        fields: &mut Fields,
        place: &Place<'_>,
    ) -> Result<(), CredentialError> {
        for (name, value) in fields.iter_mut() {
            let authorizes = name.eq_ignore_ascii_case("authorization");
            if let (true, Some(plain)) = (authorizes, basic(value)) {
                let filled = self.fill(&plain, place, Encoding::Text).await?;
                if filled.contains(&b'\r') || filled.contains(&b'\n') {
                    return Err(CredentialError::Misplaced { place: "Basic authorization" });
                }
                *value = format!("Basic {}", STANDARD.encode(&*filled)).into_bytes();
            } else if is_in(value) {
                *value = self.fill(value, place, Encoding::Header).await?.to_vec();
            }
        }
        if let Some(token) = self.token(place.host, place.port) {
            fields.set("Authorization", format!("Bearer {}", token.reveal()).into_bytes());
        }
        Ok(())
    }

    pub(crate) async fn fill_target(
        &self,
        target: &str,
        place: &Place<'_>,
    ) -> Result<String, CredentialError> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let mut out = self.fill_parts(path, '/', place, Encoding::Path).await?;
        if let Some(query) = query {
            let mut filled = Vec::new();
            for pair in query.split('&') {
                filled.push(self.fill_parts(pair, '=', place, Encoding::Query).await?);
            }
            out.push('?');
            out.push_str(&filled.join("&"));
        }
        Ok(out)
    }

    /// Parts without a placeholder keep their spelling.
    async fn fill_parts(
        &self,
        text: &str,
        separator: char,
        place: &Place<'_>,
        encoding: Encoding,
    ) -> Result<String, CredentialError> {
        let mut out = Vec::new();
        for part in text.split(separator) {
            let plain = percent_decode(part);
            out.push(if is_in(&plain) {
                percent_encode(&self.fill(&plain, place, encoding).await?)
            } else {
                part.to_owned()
            });
        }
        Ok(out.join(&separator.to_string()))
    }

    pub(crate) async fn fill_body(
        &self,
        body: &[u8],
        kind: BodyKind,
        place: &Place<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
        match kind {
            BodyKind::Json => self.fill(body, place, Encoding::JsonString).await,
            BodyKind::Text => self.fill(body, place, Encoding::Text).await,
            BodyKind::Form => {
                let text = String::from_utf8_lossy(body).into_owned();
                let mut filled = Vec::new();
                for pair in text.split('&') {
                    filled.push(self.fill_parts(pair, '=', place, Encoding::Query).await?);
                }
                Ok(Zeroizing::new(filled.join("&").into_bytes()))
            }
        }
    }

    async fn fill(
        &self,
        text: &[u8],
        place: &Place<'_>,
        encoding: Encoding,
    ) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
        let mut rest = text;
        while let Some((whole, handle)) = find(rest) {
            out.extend_from_slice(&rest[..whole.start]);
            let name = String::from_utf8_lossy(&rest[handle]).into_owned();
            let (secret, key) = self.secret(&name, place).await?;
            let unfit = |place| CredentialError::Unfit { key: key.to_owned(), place };
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

/// What a `Basic` authorization holds, if there is a placeholder in it.
fn basic(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let plain = Zeroizing::new(STANDARD.decode(rest.trim_ascii()).ok()?);
    is_in(&plain).then_some(plain)
}

fn percent_decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

fn percent_encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
