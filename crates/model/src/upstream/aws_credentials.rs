//! Keys for AWS, on the host: named by the provider, of a profile, from the container's endpoint, for a web identity, or for
//! the role of the instance.

use super::aws_key_document::{key_of, read};
use super::aws_profile::AwsProfile;
use super::fetch::{TokenHost, TokenRequest, encode, fetch, fetch_json};
use super::service::{NamedCredential, ServiceSettings};
use super::token_cache::IssuedToken;
use super::token_error::TokenError;
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::sigv4::AwsKey;
use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Where the container agent of ECS serves relative addresses.
const CONTAINER_HOST: &str = "http://169.254.170.2";
/// No provider can set it, because a `credential_process` in that file runs on the host.
pub(super) const CONFIG_FILE: &str = "config_file";
const INSTANCE_ROLE: &str = "/latest/meta-data/iam/security-credentials/";
/// Elsewhere than on an instance nobody answers at its address.
const INSTANCE_PATIENCE: Duration = Duration::from_secs(3);

pub(super) enum AwsOrigin {
    Named {
        id: CredentialSource,
        secret: CredentialSource,
        session_token: Option<CredentialSource>,
    },
    /// What a `credential_process` prints.
    Printed(CredentialSource),
    Profile(AwsProfile),
    Container {
        url: String,
        token: Option<String>,
        token_file: Option<String>,
    },
    WebIdentity {
        role: String,
        token_file: String,
        region: String,
        sts_url: Option<String>,
    },
    /// The role of an EC2 instance, from the metadata server at this address.
    Instance(String),
}

impl AwsOrigin {
    /// In the order in which AWS's own programs look for keys.
    pub(super) fn of(settings: &ServiceSettings, region: &str) -> Option<Self> {
        let named = |name: &str| {
            let found = settings.credentials.iter().find(|credential| credential.name == name);
            found.map(|NamedCredential { source, .. }| source.clone())
        };
        let setting = |name: &str| settings.setting(name).map(str::to_owned);
        if let (Some(id), Some(secret)) = (named("AWS_ACCESS_KEY_ID"), named("AWS_SECRET_ACCESS_KEY")) {
            return Some(Self::Named { id, secret, session_token: named("AWS_SESSION_TOKEN") });
        }
        if let Some(printed) = named("AWS_CREDENTIALS") {
            return Some(Self::Printed(printed));
        }
        if let (Some(role), Some(token_file)) = (setting("role"), setting("web_identity_token_file")) {
            let sts_url = setting("sts_url");
            return Some(Self::WebIdentity { role, token_file, region: region.to_owned(), sts_url });
        }
        let relative = setting("container_relative_uri").map(|path| format!("{CONTAINER_HOST}{path}"));
        if let Some(url) = relative.or_else(|| setting("container_uri")) {
            let token_file = setting("container_token_file");
            return Some(Self::Container { url, token: setting("container_token"), token_file });
        }
        let files = AwsProfile {
            credentials_file: setting("credentials_file"),
            config_file: setting(CONFIG_FILE),
            name: setting("profile").unwrap_or_else(|| "default".to_owned()),
        };
        if files.credentials_file.is_some() || files.config_file.is_some() {
            return Some(Self::Profile(files));
        }
        setting("metadata_endpoint").map(Self::Instance)
    }

    /// AWS refused this key: commands that gave it are asked again. Returns whether there is one.
    pub(super) async fn forget(&self, key: &AwsKey) -> bool {
        match self {
            Self::Named { id, secret, session_token } => {
                let mut can_change = id.forget(|value| *value == key.id).await;
                can_change |= secret.forget(|value| *value == key.secret).await;
                if let (Some(source), Some(token)) = (session_token, &key.session_token) {
                    can_change |= source.forget(|value| value == token).await;
                }
                can_change
            }
            Self::Printed(source) => {
                source.forget(|printed| printed.reveal().contains(key.secret.reveal())).await
            }
            // Read or fetched anew by `key`.
            Self::Profile(_) | Self::Container { .. } | Self::WebIdentity { .. } | Self::Instance(_) => false,
        }
    }

    pub(super) async fn key(&self, dialer: &Dialer) -> Result<IssuedToken<AwsKey>, TokenError> {
        match self {
            Self::Named { id, secret, session_token } => {
                let token = match session_token {
                    Some(source) => Some(reveal(source).await?),
                    None => None,
                };
                let value =
                    AwsKey { id: reveal(id).await?, secret: reveal(secret).await?, session_token: token };
                // The sources know when they expire.
                Ok(IssuedToken { value, until: Some(Instant::now()) })
            }
            Self::Printed(source) => {
                let value: Value = serde_json::from_str(reveal(source).await?.reveal())
                    .map_err(|_| "AWS_CREDENTIALS is not the JSON output of a credential_process")?;
                Ok(key_of(&value, "SessionToken")?)
            }
            Self::Profile(profile) => Ok(profile.key().await?),
            Self::Instance(endpoint) => {
                let key = tokio::time::timeout(INSTANCE_PATIENCE, instance_key(dialer, endpoint)).await;
                key.unwrap_or_else(|_| Err(format!("{endpoint} did not answer").into()))
                    .map_err(|error| error.within("the role of this EC2 instance is not available"))
            }
            Self::Container { url, token, token_file } => {
                let token = match token_file {
                    Some(path) => Some(read(path).await?.trim().to_owned()),
                    None => token.clone(),
                };
                let mut headers = HeaderMap::new();
                if let Some(token) = token {
                    let value = HeaderValue::from_str(&token).map_err(|error| error.to_string())?;
                    headers.insert(AUTHORIZATION, value);
                }
                let request =
                    TokenRequest { method: Method::GET, url, headers, body: None, host: TokenHost::Metadata };
                Ok(key_of(&fetch_json(dialer, request).await?, "Token")?)
            }
            Self::WebIdentity { role, token_file, region, sts_url } => {
                let own = format!("https://sts.{region}.amazonaws.com/");
                let token = read(token_file).await?;
                let url = format!(
                    "{}?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=fullsend&RoleArn={}&WebIdentityToken={}",
                    sts_url.as_deref().unwrap_or(&own),
                    encode(role, b"-._~"),
                    encode(token.trim(), b"-._~")
                );
                let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
                let request = TokenRequest {
                    method: Method::GET,
                    url: &url,
                    headers,
                    body: None,
                    host: TokenHost::Secure,
                };
                let answer = fetch_json(dialer, request).await?;
                let path = "/AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials";
                Ok(key_of(answer.pointer(path).unwrap_or(&Value::Null), "SessionToken")?)
            }
        }
    }
}

async fn reveal(source: &CredentialSource) -> Result<Secret, String> {
    source.secret().await.map_err(|error| error.to_string())
}

/// The key of the instance's role. The metadata server wants a token of its own first, which only a `PUT` gets.
async fn instance_key(dialer: &Dialer, endpoint: &str) -> Result<IssuedToken<AwsKey>, TokenError> {
    let endpoint = endpoint.trim_end_matches('/');
    let ask = async |method: Method, path: &str, header: (&'static str, &str)| {
        let value = HeaderValue::from_str(header.1).map_err(|error| error.to_string())?;
        let headers = HeaderMap::from_iter([(HeaderName::from_static(header.0), value)]);
        let url = format!("{endpoint}{path}");
        let request = TokenRequest { method, url: &url, headers, body: None, host: TokenHost::Metadata };
        let answer = fetch(dialer, request).await?;
        Ok::<String, TokenError>(String::from_utf8_lossy(&answer).into_owned())
    };
    let lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", "300");
    let token = ask(Method::PUT, "/latest/api/token", lifetime).await?;
    let with_token = ("x-aws-ec2-metadata-token", token.trim());
    let roles = ask(Method::GET, INSTANCE_ROLE, with_token).await?;
    let role = roles.lines().next().unwrap_or_default().trim();
    if role.is_empty() {
        return Err("it has none".into());
    }
    let path = format!("{INSTANCE_ROLE}{}", encode(role, b"-._~"));
    let printed = ask(Method::GET, &path, with_token).await?;
    let value: Value = serde_json::from_str(&printed).map_err(|error| error.to_string())?;
    Ok(key_of(&value, "Token")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egress::dial::testing::TestAuthority;
    use egress::resolver::FixedResolver;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A metadata server in its second version: nothing without the token that a `PUT` got.
    async fn metadata_server(role: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..length]).to_ascii_lowercase();
                let has_token = head.contains("x-aws-ec2-metadata-token: opened");
                let answer = if head.starts_with("put /latest/api/token") && head.contains("ttl-seconds: 300")
                {
                    (200, "opened")
                } else if !has_token {
                    (401, "")
                } else if head.contains("security-credentials/ci ") {
                    (
                        200,
                        r#"{"AccessKeyId":"A","SecretAccessKey":"B","Token":"C","Expiration":"2040-01-01T00:00:00Z"}"#,
                    )
                } else {
                    (200, role)
                };
                let (status, body) = answer;
                let text = format!("HTTP/1.1 {status} OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn the_role_of_an_instance_is_asked_with_a_token() {
        let dialer = Dialer::new(Arc::new(FixedResolver::default()), TestAuthority::new().roots());
        let key = AwsOrigin::Instance(metadata_server("ci\n").await).key(&dialer).await.unwrap();
        assert_eq!((key.value.id.reveal(), key.value.secret.reveal()), ("A", "B"));
        assert_eq!(key.value.session_token.as_ref().map(Secret::reveal), Some("C"));
        assert!(key.until.is_some(), "it expires");
        let none = AwsOrigin::Instance(metadata_server("").await).key(&dialer).await.err();
        let why = none.unwrap().to_string();
        assert_eq!(why, "the role of this EC2 instance is not available: it has none");
    }
}
