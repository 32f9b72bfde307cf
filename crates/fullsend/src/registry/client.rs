//! Requests to one registry for one repository: manifests and blobs, with the login that it requires. A token is
//! fetched when the registry requires one, and all downloads share it.

use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use egress::credentials::Secret;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, RANGE, WWW_AUTHENTICATE};
use serde::Deserialize;

use super::challenge::{self, Challenge};
use super::documents::{self, Blob, DocumentError, RegistryDocument};
use super::error::PullError;
use super::login::RegistryLogin;
use crate::fetch::{Answer, FetchError, FetchRequest, Fetcher, HostNetwork, NetworkPlace, WebAddress};
use crate::harness::image::{DOCKER_HUB, ImageName};
use crate::image::BlobDigest;

/// A manifest is text of a few kilobytes.
const MAX_MANIFEST_BYTES: usize = 4 << 20;
const MAX_TOKEN_BYTES: usize = 1 << 20;

/// What all downloads of one image share.
pub struct RegistrySession {
    /// The server that is asked: the registry of the name, or a mirror.
    pub name: ImageName,
    network: HostNetwork,
    login: Option<RegistryLogin>,
    /// The value of `Authorization` that worked last.
    authorization: Mutex<Option<Secret>>,
}

/// Sends requests one after another.
pub struct RegistryClient<'a> {
    session: &'a RegistrySession,
    fetcher: Fetcher,
}

/// A manifest or an index, and the bytes that it was read from.
pub struct ServedDocument {
    pub document: RegistryDocument,
    pub digest: BlobDigest,
    pub bytes: Vec<u8>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl RegistrySession {
    pub fn new(name: ImageName, network: HostNetwork, login: Option<RegistryLogin>) -> Self {
        Self { name, network, login, authorization: Mutex::default() }
    }

    pub fn client(&self) -> Result<RegistryClient<'_>, PullError> {
        let fetcher = Fetcher::new(self.network.clone()).map_err(|source| self.unreachable(source))?;
        Ok(RegistryClient { session: self, fetcher })
    }

    fn unreachable(&self, source: FetchError) -> PullError {
        PullError::Unreachable { name: self.name.to_string(), source }
    }

    fn login_failed(&self, why: impl Into<String>) -> PullError {
        PullError::Login { registry: self.name.registry.clone(), why: why.into() }
    }

    fn address(&self, path: &str) -> Result<WebAddress, PullError> {
        let host = match self.name.registry.as_str() {
            // The registry `docker.io` is served by another host.
            DOCKER_HUB => "registry-1.docker.io",
            host => host,
        };
        let scheme = if self.network.is_plain(host) { "http" } else { "https" };
        let text = format!("{scheme}://{host}/v2/{}/{path}", self.name.repository);
        WebAddress::parse(&text).map_err(|why| self.unreachable(FetchError::Address { why }))
    }
}

impl RegistryClient<'_> {
    /// The document of a tag or a digest, which it must have.
    pub fn document(&self, digest: Option<&BlobDigest>) -> Result<ServedDocument, PullError> {
        let name = &self.session.name;
        let reference = match digest {
            Some(digest) => format!("sha256:{}", digest.hexadecimal()),
            None => name.tag.clone().unwrap_or_else(|| "latest".to_owned()),
        };
        let accept = [(ACCEPT, documents::ACCEPTED.join(", "))];
        let answer = self.ask(&format!("manifests/{reference}"), &accept)?;
        if !answer.status.is_success() {
            return Err(self.answered(answer));
        }
        let content_type = answer.header(&CONTENT_TYPE).map(str::to_owned);
        let bytes = answer.read_all(MAX_MANIFEST_BYTES).map_err(|source| self.session.unreachable(source))?;
        let refused = |why: String| PullError::Refused { name: name.to_string(), why };
        let found = BlobDigest::of(&bytes);
        if digest.is_some_and(|digest| *digest != found) {
            return Err(refused(format!(
                "the registry sent a manifest with the digest sha256:{}",
                found.hexadecimal()
            )));
        }
        let document = documents::read(&bytes, content_type.as_deref()).map_err(|error| match error {
            DocumentError::Refused(why) => refused(why),
            DocumentError::Unusable(why) => PullError::Unusable { name: name.to_string(), why },
        })?;
        Ok(ServedDocument { document, digest: found, bytes })
    }

    /// The bytes of a blob, from `start` on if the registry can do that.
    pub fn blob(&self, blob: &Blob, start: u64) -> Result<Answer<'_>, PullError> {
        let range: Vec<(HeaderName, String)> =
            (start > 0).then(|| (RANGE, format!("bytes={start}-"))).into_iter().collect();
        self.ask(&format!("blobs/sha256:{}", blob.digest.hexadecimal()), &range)
    }

    pub fn answered(&self, answer: Answer<'_>) -> PullError {
        let name = self.session.name.to_string();
        let status = answer.status.as_u16();
        if matches!(status, 401 | 403) && self.session.login.is_none() {
            let registry = &self.session.name.registry;
            let why = format!(
                "it answered {status}, and no login for it was found: run `docker login {registry}` or `podman login {registry}`"
            );
            return self.session.login_failed(why);
        }
        let body = answer.read_all(1 << 16).unwrap_or_default();
        PullError::Answered { name, status, message: message(&body) }
    }

    fn ask(&self, path: &str, headers: &[(HeaderName, String)]) -> Result<Answer<'_>, PullError> {
        let address = self.session.address(path)?;
        let send = |authorization: Option<&Secret>| {
            let answer =
                self.fetcher.send(&FetchRequest { headers, authorization, ..FetchRequest::new(&address) });
            answer.map_err(|source| self.session.unreachable(source))
        };
        let known = || self.session.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let used = known();
        let answer = send(used.as_ref())?;
        if answer.status.as_u16() != 401 || !answer.address.has_same_origin(&address) {
            return Ok(answer);
        }
        // Another download may have a new token already.
        let authorization = match known() {
            Some(newer) if Some(&newer) != used.as_ref() => newer,
            _ => match self.authorize(&answer)? {
                Some(authorization) => authorization,
                None => return Ok(answer),
            },
        };
        *self.session.authorization.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(authorization.clone());
        send(Some(&authorization))
    }

    /// The `Authorization` value to send after this refusal; `None` if there is no login and no anonymous token.
    fn authorize(&self, refusal: &Answer<'_>) -> Result<Option<Secret>, PullError> {
        let headers = refusal.headers.get_all(WWW_AUTHENTICATE);
        let challenge = challenge::parse(headers.iter().filter_map(|value| value.to_str().ok()));
        match (challenge, &self.session.login) {
            (Some(Challenge::Bearer { realm, service }), login) => {
                self.token(&realm, service.as_deref(), login.as_ref(), refusal.place).map(Some)
            }
            (Some(Challenge::Basic), Some(RegistryLogin::Password { user, password })) => {
                Ok(Some(basic(user, password)))
            }
            (Some(Challenge::Basic), Some(RegistryLogin::IdentityToken(_))) => {
                Err(self.session.login_failed("it wants a password, and the login is a token"))
            }
            (Some(Challenge::Basic), None) => Ok(None),
            (None, _) => {
                Err(self.session.login_failed("it answered 401 without a usable WWW-Authenticate header"))
            }
        }
    }

    fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        login: Option<&RegistryLogin>,
        registry: NetworkPlace,
    ) -> Result<Secret, PullError> {
        let failed = |why: String| self.session.login_failed(why);
        let scope = format!("repository:{}:pull", self.session.name.repository);
        let mut query = format!("scope={}", escaped(&scope));
        if let Some(service) = service {
            query.push_str(&format!("&service={}", escaped(service)));
        }
        let mut address = WebAddress::parse(realm).map_err(failed)?;
        let answer = if let Some(RegistryLogin::IdentityToken(token)) = login {
            let token = escaped(token.reveal());
            let form = format!("grant_type=refresh_token&client_id=fullsend&refresh_token={token}&{query}");
            let form = Secret::new(form);
            self.fetcher.send(&FetchRequest {
                form: Some(&form),
                named_by: Some(registry),
                ..FetchRequest::new(&address)
            })
        } else {
            let separator = if address.target.contains('?') { '&' } else { '?' };
            address.target.push_str(&format!("{separator}{query}"));
            let password = match login {
                Some(RegistryLogin::Password { user, password }) => Some(basic(user, password)),
                _ => None,
            };
            let ask = FetchRequest {
                authorization: password.as_ref(),
                named_by: Some(registry),
                ..FetchRequest::new(&address)
            };
            self.fetcher.send(&ask)
        };
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let status = answer.status;
        let body = answer.read_all(MAX_TOKEN_BYTES).map_err(|error| failed(error.to_string()))?;
        if !status.is_success() {
            return Err(failed(format!("{address} answered {}: {}", status.as_u16(), message(&body))));
        }
        // The parser's own message would show a part of the token.
        let tokens: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| failed(format!("the answer of {address} has no token")))?;
        let token = tokens.token.or(tokens.access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| failed(format!("the answer of {address} has no token")))?;
        Ok(Secret::new(format!("Bearer {token}")))
    }
}

fn basic(user: &str, password: &Secret) -> Secret {
    let both = Secret::new(format!("{user}:{}", password.reveal()));
    Secret::new(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(both.reveal())))
}

/// Percent-encoding for queries and forms.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[derive(Deserialize)]
struct Complaints {
    errors: Option<Vec<Complaint>>,
    details: Option<String>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// A registry's reason for a refusal, on one line.
fn message(body: &[u8]) -> String {
    let read: Option<Complaints> = serde_json::from_slice(body).ok();
    let reason = read.map(|read| match (read.errors.unwrap_or_default().first(), read.details) {
        (Some(first), _) if first.message.is_empty() => first.code.clone(),
        (Some(first), _) => first.message.clone(),
        (None, details) => details.unwrap_or_default(),
    });
    let reason = reason.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|letter| !letter.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::{escaped, message};

    #[test]
    fn queries_are_escaped_and_complaints_one_short_line() {
        assert_eq!(escaped("repository:a/b:pull&x=1"), "repository%3Aa%2Fb%3Apull%26x%3D1");
        let unknown = br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest\nunknown"}]}"#;
        assert_eq!(message(unknown), "manifest unknown");
        assert_eq!(message(b"<html>\n\x1b[2J no"), "<html> [2J no");
        assert_eq!(message(&[b'x'; 1000]).len(), 300);
    }
}
