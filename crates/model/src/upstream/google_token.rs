//! Access tokens for Google's services, made on the host: from a service account's key, a user's login, workload identity
//! federation, or the metadata server. No key file is needed inside the sandbox.

use super::fetch::{TokenHost, TokenRequest, fetch, fetch_json, form};
use super::token_cache::IssuedToken;
use super::token_error::TokenError;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use egress::credentials::Secret;
use egress::dial::Dialer;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const METADATA_HOST: &str = "metadata.google.internal";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const NO_METADATA: &str = "the provider names no credential, and this machine's metadata server of Google gives none; set \
                           GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`";
/// The requested lifetime; Google grants at most an hour.
const LIFE: Duration = Duration::from_secs(3600);

/// Where tokens come from.
#[derive(Clone)]
pub(super) enum GoogleSource {
    File(GoogleFile),
    /// A token that a command of the provider printed.
    Token(Secret),
    /// The metadata server of the machine, at this address.
    Metadata {
        host: String,
    },
}

/// A credential file as `gcloud` and the console write it.
#[derive(Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum GoogleFile {
    ServiceAccount {
        client_email: String,
        private_key: String,
        #[serde(default)]
        private_key_id: Option<String>,
        #[serde(default)]
        token_uri: Option<String>,
        #[serde(default)]
        project_id: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        #[serde(default)]
        token_uri: Option<String>,
        #[serde(default)]
        quota_project_id: Option<String>,
    },
    ExternalAccount {
        audience: String,
        subject_token_type: String,
        token_url: String,
        credential_source: SubjectSource,
        #[serde(default)]
        service_account_impersonation_url: Option<String>,
    },
}

/// Where the outside identity's own token is.
#[derive(Clone, Deserialize)]
pub(super) struct SubjectSource {
    #[serde(default)]
    file: Option<PathBuf>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    format: SubjectFormat,
}

#[derive(Clone, Default, Deserialize)]
struct SubjectFormat {
    #[serde(default)]
    subject_token_field_name: Option<String>,
}

impl GoogleSource {
    /// A credential's value: a credential file's contents, or a token.
    pub(super) fn parse(value: &Secret) -> Result<Self, String> {
        let text = value.reveal().trim();
        if !text.starts_with('{') {
            return Ok(Self::Token(value.clone()));
        }
        // Errors of the parser may quote the key.
        let file = serde_json::from_str(text).map_err(|_| {
            "the Google credential is not of the type service_account, authorized_user or external_account"
        });
        Ok(Self::File(file?))
    }

    pub(super) fn metadata(host: Option<&str>) -> Self {
        Self::Metadata { host: host.unwrap_or(METADATA_HOST).to_owned() }
    }

    pub(super) fn project(&self) -> Option<&str> {
        match self {
            Self::File(GoogleFile::ServiceAccount { project_id, .. }) => project_id.as_deref(),
            Self::File(GoogleFile::AuthorizedUser { quota_project_id, .. }) => quota_project_id.as_deref(),
            Self::File(GoogleFile::ExternalAccount { .. }) | Self::Token(_) | Self::Metadata { .. } => None,
        }
    }

    pub(super) async fn token(&self, dialer: &Dialer) -> Result<IssuedToken<Secret>, TokenError> {
        match self {
            Self::Token(token) => Ok(IssuedToken { value: token.clone(), until: None }),
            Self::Metadata { host } => {
                let url = format!(
                    "http://{host}/computeMetadata/v1/instance/service-accounts/default/token?scopes={SCOPE}"
                );
                let headers = HeaderMap::from_iter([(
                    HeaderName::from_static("metadata-flavor"),
                    HeaderValue::from_static("Google"),
                )]);
                let request = TokenRequest {
                    method: Method::GET,
                    url: &url,
                    headers,
                    body: None,
                    host: TokenHost::Metadata,
                };
                let answer = fetch_json(dialer, request).await;
                granted(&answer.map_err(|error| error.within(NO_METADATA))?)
            }
            Self::File(GoogleFile::ServiceAccount {
                client_email,
                private_key,
                private_key_id,
                token_uri,
                ..
            }) => {
                let url = token_uri.as_deref().unwrap_or(TOKEN_URL);
                let key = Key { email: client_email, pem: private_key, id: private_key_id.as_deref() };
                let assertion = assertion(&key, url, SystemTime::now())?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                post(dialer, url, &[("grant_type", grant), ("assertion", &assertion)]).await
            }
            Self::File(GoogleFile::AuthorizedUser {
                client_id,
                client_secret,
                refresh_token,
                token_uri,
                ..
            }) => {
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("client_id", client_id),
                    ("client_secret", client_secret),
                    ("refresh_token", refresh_token),
                ];
                post(dialer, token_uri.as_deref().unwrap_or(TOKEN_URL), &fields).await
            }
            Self::File(GoogleFile::ExternalAccount {
                audience,
                subject_token_type,
                token_url,
                credential_source,
                service_account_impersonation_url,
            }) => {
                let subject = subject_token(credential_source, dialer).await?;
                let fields = [
                    ("grant_type", EXCHANGE),
                    ("audience", audience),
                    ("scope", SCOPE),
                    ("requested_token_type", ACCESS_TOKEN),
                    ("subject_token_type", subject_token_type),
                    ("subject_token", &subject),
                ];
                let federated = post(dialer, token_url, &fields).await?;
                match service_account_impersonation_url {
                    Some(url) => impersonate(dialer, url, &federated.value).await,
                    None => Ok(federated),
                }
            }
        }
    }
}

async fn post(
    dialer: &Dialer,
    url: &str,
    fields: &[(&str, &str)],
) -> Result<IssuedToken<Secret>, TokenError> {
    let request = TokenRequest {
        method: Method::POST,
        url,
        headers: HeaderMap::new(),
        body: Some(form(fields)),
        host: TokenHost::Secure,
    };
    granted(&fetch_json(dialer, request).await?)
}

fn granted(answer: &Value) -> Result<IssuedToken<Secret>, TokenError> {
    let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
    let token = token.ok_or("the token service answered without an access_token")?;
    let life = answer["expires_in"].as_u64().map(Duration::from_secs);
    Ok(IssuedToken {
        value: Secret::new(token.to_owned()),
        until: life.and_then(|life| Instant::now().checked_add(life)),
    })
}

async fn subject_token(source: &SubjectSource, dialer: &Dialer) -> Result<String, TokenError> {
    let SubjectSource { file, url, headers, format } = source;
    let text = match (file, url) {
        (Some(path), _) => tokio::fs::read_to_string(path)
            .await
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?,
        (None, Some(url)) => {
            let mut sent = HeaderMap::new();
            for (name, value) in headers {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
                sent.insert(name, HeaderValue::from_str(value).map_err(|error| error.to_string())?);
            }
            let request =
                TokenRequest { method: Method::GET, url, headers: sent, body: None, host: TokenHost::Secure };
            String::from_utf8_lossy(&fetch(dialer, request).await?).into_owned()
        }
        (None, None) => return Err("its credential_source names neither a file nor a url".into()),
    };
    let Some(field) = &format.subject_token_field_name else { return Ok(text.trim().to_owned()) };
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    value[field]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| TokenError::from(format!("the subject token has no field `{field}`")))
}

async fn impersonate(dialer: &Dialer, url: &str, token: &Secret) -> Result<IssuedToken<Secret>, TokenError> {
    let mut authorization =
        HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(|error| error.to_string())?;
    authorization.set_sensitive(true);
    let body = json!({ "scope": [SCOPE], "lifetime": format!("{}s", LIFE.as_secs()) }).to_string();
    let request = TokenRequest {
        method: Method::POST,
        url,
        headers: HeaderMap::from_iter([(AUTHORIZATION, authorization)]),
        body: Some(("application/json", body)),
        host: TokenHost::Secure,
    };
    let answer = fetch_json(dialer, request).await?;
    let token = answer["accessToken"].as_str().ok_or("impersonation answered without an accessToken")?;
    Ok(IssuedToken { value: Secret::new(token.to_owned()), until: Some(Instant::now() + LIFE) })
}

/// A service account's key.
struct Key<'a> {
    email: &'a str,
    pem: &'a str,
    id: Option<&'a str>,
}

/// A signed JWT that says who asks for a token.
fn assertion(key: &Key<'_>, audience: &str, now: SystemTime) -> Result<String, String> {
    let now = now.duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?.as_secs();
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key.id });
    let claims = json!({
        "iss": key.email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + LIFE.as_secs(),
    });
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let unsigned = format!("{}.{}", part(&header), part(&claims));
    let pair = RsaKeyPair::from_pkcs8(&der(key.pem)?)
        .map_err(|_| "the private_key of the service account is not an RSA key in PKCS#8")?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), unsigned.as_bytes(), &mut signature)
        .map_err(|_| "the service account's key cannot sign")?;
    Ok(format!("{unsigned}.{}", BASE64URL_NOPAD.encode(&signature)))
}

fn der(pem: &str) -> Result<Vec<u8>, String> {
    let lines = pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("-----"));
    let text: String = lines.collect();
    BASE64.decode(text.as_bytes()).map_err(|_| "the private_key of the service account is not PEM".to_owned())
}
