//! Keys for AWS, on the host: named by the provider, in a profile file, from the container's endpoint, or for a web
//! identity.

use super::aws_time;
use super::fetch::{TokenHost, TokenRequest, encode, fetch_json};
use super::service::{NamedCredential, ServiceSettings};
use super::token_cache::IssuedToken;
use egress::credentials::{CredentialSource, Secret};
use egress::dial::Dialer;
use egress::sigv4::AwsKey;
use hyper::Method;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Where the container agent of ECS serves relative addresses.
const CONTAINER_HOST: &str = "http://169.254.170.2";

pub(super) enum AwsOrigin {
    Named {
        id: CredentialSource,
        secret: CredentialSource,
        session_token: Option<CredentialSource>,
    },
    /// What a `credential_process` prints.
    Printed(CredentialSource),
    ProfileFile {
        path: String,
        profile: String,
    },
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
        let path = setting("credentials_file")?;
        Some(Self::ProfileFile { path, profile: setting("profile").unwrap_or_else(|| "default".to_owned()) })
    }

    pub(super) async fn key(&self, dialer: &Dialer) -> Result<IssuedToken<AwsKey>, String> {
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
                    .map_err(|_| "AWS_CREDENTIALS is not what a credential_process prints")?;
                key_of(&value, "SessionToken")
            }
            Self::ProfileFile { path, profile } => profile_key(&read(path).await?, profile)
                .ok_or_else(|| format!("{path} has no key for the profile `{profile}`")),
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
                key_of(&fetch_json(dialer, request).await?, "Token")
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
                key_of(answer.pointer(path).unwrap_or(&Value::Null), "SessionToken")
            }
        }
    }
}

async fn reveal(source: &CredentialSource) -> Result<Secret, String> {
    source.secret().await.map_err(|error| error.to_string())
}

async fn read(path: &str) -> Result<String, String> {
    let text = tokio::fs::read_to_string(Path::new(path)).await;
    text.map_err(|error| format!("{path} cannot be read: {error}"))
}

fn key_of(value: &Value, token_name: &str) -> Result<IssuedToken<AwsKey>, String> {
    let text = |name: &str| value[name].as_str().map(|text| Secret::new(text.to_owned()));
    let (Some(id), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err("AWS answered without a key".to_owned());
    };
    let by_text = value["Expiration"].as_str().and_then(aws_time::parse);
    let by_number =
        value["Expiration"].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let expires = by_text.or_else(|| by_number.map(|since| SystemTime::UNIX_EPOCH + since));
    let until = expires.map(|at| Instant::now() + at.duration_since(SystemTime::now()).unwrap_or_default());
    Ok(IssuedToken { value: AwsKey { id, secret, session_token: text(token_name) }, until })
}

/// The key of one profile in an INI file.
fn profile_key(text: &str, profile: &str) -> Option<IssuedToken<AwsKey>> {
    let mut inside = false;
    let mut found = std::collections::BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == profile;
        } else if let (true, Some((name, value))) = (inside, line.split_once('=')) {
            found.insert(name.trim(), Secret::new(value.trim().to_owned()));
        }
    }
    let value = AwsKey {
        id: found.remove("aws_access_key_id")?,
        secret: found.remove("aws_secret_access_key")?,
        session_token: found.remove("aws_session_token"),
    };
    // The file may be renewed at any time.
    Some(IssuedToken { value, until: Some(Instant::now()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_the_file_is_found() {
        let file = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n# c\n[ci]\naws_access_key_id=C\naws_secret_access_key=D=\naws_session_token=E\n";
        let key = |profile: &str| {
            let key = profile_key(file, profile)?.value;
            let text = |secret: &Secret| secret.reveal().to_owned();
            Some((text(&key.id), text(&key.secret), key.session_token.as_ref().map(text)))
        };
        assert_eq!(key("default"), Some(("A".to_owned(), "B".to_owned(), None)));
        assert_eq!(key("ci"), Some(("C".to_owned(), "D=".to_owned(), Some("E".to_owned()))));
        assert_eq!(key("other"), None);
    }
}
