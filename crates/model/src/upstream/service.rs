//! What every service that models come from needs: its settings, its address, and the headers that it gets.

use super::UpstreamError;
use super::base_url::{BaseUrl, PlainHttp, UrlError};
use super::token_cache::LearnSecret;
use crate::allowlist::without_date;
use bytes::Bytes;
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::sigv4::AwsKey;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, USER_AGENT};
use std::collections::BTreeMap;
use std::fmt;

/// The settings of the provider file, with variables expanded.
#[derive(Clone, Default)]
pub struct ServiceSettings {
    pub config: BTreeMap<String, String>,
    /// Empty before credentials are loaded.
    pub credentials: Vec<NamedCredential>,
    /// Gets the credentials that the service creates.
    pub learn: Option<LearnSecret>,
}

#[derive(Debug, Clone)]
pub struct NamedCredential {
    /// The variable under which the provider names it.
    pub name: String,
    pub source: CredentialSource,
}

#[derive(Debug)]
pub enum ServiceError {
    Url(UrlError),
    /// A setting that the service needs.
    Missing {
        setting: &'static str,
        example: &'static str,
    },
    Setting {
        setting: &'static str,
        value: String,
        expected: &'static str,
    },
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => error.fmt(f),
            Self::Missing { setting, example } => {
                write!(f, "`config.{setting}` is missing; add for example `{setting}: {example}`")
            }
            Self::Setting { setting, value, expected } => {
                write!(f, "`config.{setting}` is {value:?}, not {expected}")
            }
        }
    }
}

impl std::error::Error for ServiceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Url(error) => Some(error),
            Self::Missing { .. } | Self::Setting { .. } => None,
        }
    }
}

/// The service's address, and how to connect to it.
#[derive(Clone, Copy)]
pub(super) struct ServiceHost<'a> {
    pub(super) base: &'a BaseUrl,
    pub(super) dialer: &'a Dialer,
}

/// A request in the service's form.
pub(super) struct ServiceRequest {
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) credential: UsedCredential,
}

/// What a request was authenticated with, for the case that it has expired before its time.
pub(super) enum UsedCredential {
    Nothing,
    Secret(Secret),
    AwsKey(AwsKey),
}

impl UsedCredential {
    pub(super) fn is_secret(&self, other: &Secret) -> bool {
        matches!(self, Self::Secret(secret) if secret == other)
    }
}

impl ServiceSettings {
    /// `base_url`, or the vendor's own address.
    pub(super) fn base(&self, vendor: &str) -> Result<BaseUrl, ServiceError> {
        let url = self.setting("base_url").unwrap_or(vendor);
        BaseUrl::parse(url, self.plain_http()?).map_err(ServiceError::Url)
    }

    fn plain_http(&self) -> Result<PlainHttp, ServiceError> {
        match self.setting("plain_http") {
            None | Some("loopback") => Ok(PlainHttp::Loopback),
            Some("private") => Ok(PlainHttp::Private),
            Some(other) => Err(ServiceError::Setting {
                setting: "plain_http",
                value: other.to_owned(),
                expected: "`loopback` or `private`",
            }),
        }
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A setting that becomes a header.
    pub(super) fn header(&self, name: &'static str) -> Result<Option<HeaderValue>, ServiceError> {
        let wrong = |value: &str| ServiceError::Setting {
            setting: name,
            value: value.to_owned(),
            expected: "text that fits into a header",
        };
        self.setting(name).map(|value| HeaderValue::from_str(value).map_err(|_| wrong(value))).transpose()
    }
}

/// How a credential goes into a request: `x-api-key: KEY` or `authorization: Bearer KEY`.
#[derive(Debug, Clone)]
pub(super) struct KeyHeader {
    name: HeaderName,
    prefix: &'static str,
    source: CredentialSource,
}

impl KeyHeader {
    pub(super) fn named(name: &'static str, source: CredentialSource) -> Self {
        Self { name: HeaderName::from_static(name), prefix: "", source }
    }

    pub(super) fn bearer(source: CredentialSource) -> Self {
        Self { name: AUTHORIZATION, prefix: "Bearer ", source }
    }

    pub(super) async fn add_to(&self, headers: &mut HeaderMap) -> Result<UsedCredential, UpstreamError> {
        let secret: Secret = self.source.secret().await.map_err(UpstreamError::Credential)?;
        let mut value = HeaderValue::from_str(&format!("{}{}", self.prefix, secret.reveal()))
            .unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        headers.insert(&self.name, value);
        Ok(UsedCredential::Secret(secret))
    }

    /// Returns whether another credential can be had.
    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        self.source.forget(|secret| refused.is_secret(secret)).await
    }
}

/// The client's headers for the vendor, with the credential.
pub(super) async fn headers_with_key(
    from: &HeaderMap,
    key: Option<&KeyHeader>,
) -> Result<(HeaderMap, UsedCredential), UpstreamError> {
    let mut headers = vendor_headers(from);
    let used = match key {
        Some(key) => key.add_to(&mut headers).await?,
        None => UsedCredential::Nothing,
    };
    Ok((headers, used))
}

/// Returns whether another credential than the refused one can be had.
pub(super) async fn forget_key(key: Option<&KeyHeader>, refused: &UsedCredential) -> bool {
    match key {
        Some(key) => key.forget(refused).await,
        None => false,
    }
}

/// The client's headers that belong to the vendor's format: nothing that names a user, a cookie or a key.
pub(super) fn vendor_headers(from: &HeaderMap) -> HeaderMap {
    let wanted = |name: &str| {
        matches!(name, "anthropic-version" | "anthropic-beta" | "openai-beta" | "accept" | "x-app")
            || name == USER_AGENT
            || name.starts_with("x-stainless-")
    };
    let mut headers = HeaderMap::new();
    for (name, value) in from.iter().filter(|(name, _)| wanted(name.as_str())) {
        headers.append(name, value.clone());
    }
    headers
}

/// Betas that Google's and Amazon's services accept, without their date. They refuse a request with another one.
const HOSTED_BETAS: &[&str] = &[
    "computer-use",
    "context-1m",
    "context-management",
    "effort",
    "extended-cache-ttl",
    "fine-grained-tool-streaming",
    "interleaved-thinking",
    "output-128k",
    "structured-outputs",
    "token-efficient-tools",
    "tool-examples",
    "tool-search-tool",
];

/// Keeps the betas that a hosting service accepts, in one header.
pub(super) fn keep_hosted_betas(headers: &mut HeaderMap) {
    let given: Vec<&str> = headers.get_all(BETA).iter().filter_map(|value| value.to_str().ok()).collect();
    let betas = given.iter().flat_map(|value| value.split(',')).map(str::trim);
    let kept: Vec<&str> = betas.filter(|beta| HOSTED_BETAS.contains(&without_date(beta))).collect();
    let value = HeaderValue::from_str(&kept.join(",")).ok().filter(|value| !value.is_empty());
    match value {
        Some(value) => drop(headers.insert(BETA, value)),
        None => drop(headers.remove(BETA)),
    }
}

pub(super) const BETA: &str = "anthropic-beta";
