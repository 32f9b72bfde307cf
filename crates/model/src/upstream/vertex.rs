//! Claude on Google's Vertex AI. The model is part of the path, the version part of the body, and the token is made here.

use super::UpstreamError;
use super::base_url::BaseUrl;
use super::fetch::encode;
use super::google_token::GoogleSource;
use super::request::{Operation, UpstreamRequest};
use super::service::{
    ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential, keep_hosted_betas,
    vendor_headers,
};
use super::token_cache::{IssuedToken, LearnSecret, TokenCache};
use super::token_error::TokenError;
use bytes::Bytes;
use egress::credentials::{CredentialSource, Secret};
use hyper::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Instant;

const VERSION: &str = "vertex-2023-10-16";

pub(super) struct Vertex {
    /// `None`: in the credential file.
    project: Option<String>,
    region: String,
    origin: TokenOrigin,
    tokens: TokenCache<GoogleToken>,
    learn: Option<LearnSecret>,
}

#[derive(Clone)]
struct GoogleToken {
    token: Secret,
    project: Option<String>,
}

/// What tokens are made from.
enum TokenOrigin {
    Credential(CredentialSource),
    File(PathBuf),
    Metadata { host: Option<String> },
}

fn is_project(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-:.".contains(&byte))
}

/// Regions have hosts of their own, multi-regions others.
fn host(region: &str) -> String {
    match region {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

impl Vertex {
    pub(super) fn open(settings: &ServiceSettings) -> Result<(BaseUrl, Self), ServiceError> {
        let region = settings.setting("region").unwrap_or("global");
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let expected = "a region such as `europe-west1` or `global`";
            return Err(ServiceError::Setting { setting: "region", value: region.to_owned(), expected });
        }
        let project = settings.setting("project").map(str::to_owned);
        if let Some(value) = project.clone().filter(|name| !is_project(name)) {
            let expected = "a project's id";
            return Err(ServiceError::Setting { setting: "project", value, expected });
        }
        let file = settings.setting("credentials_file").map(PathBuf::from);
        let metadata_host = settings.setting("metadata_host").map(str::to_owned);
        let origin = match (settings.credentials.first(), file) {
            (Some(credential), _) => TokenOrigin::Credential(credential.source.clone()),
            (None, Some(path)) => TokenOrigin::File(path),
            (None, None) => TokenOrigin::Metadata { host: metadata_host },
        };
        let learn = settings.learn.clone();
        let tokens = TokenCache::new();
        let service = Vertex { project, region: region.to_owned(), origin, tokens, learn };
        Ok((settings.base(&host(region))?, service))
    }

    pub(super) async fn prepare(
        &self,
        at: ServiceHost<'_>,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<ServiceRequest, UpstreamError> {
        let GoogleToken { token, project } =
            self.tokens.get(|| self.make_token(at)).await.map_err(UpstreamError::Token)?;
        let project = self.project.as_deref().or(project.as_deref());
        let project = project.ok_or_else(|| UpstreamError::Token(NO_PROJECT.into()))?;
        let mut headers = vendor_headers(outgoing.headers);
        keep_hosted_betas(&mut headers);
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| UpstreamError::Token("the token does not fit into a header".into()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        let model = model_name(&outgoing.request.model);
        let call = match (outgoing.operation, outgoing.request.stream) {
            (Operation::CountTokens, _) => "count-tokens:rawPredict".to_owned(),
            (Operation::Answer, true) => format!("{}:streamRawPredict", encode(&model, b"-._@")),
            (Operation::Answer, false) => format!("{}:rawPredict", encode(&model, b"-._@")),
        };
        let region = &self.region;
        let path = format!("/v1/projects/{project}/locations/{region}/publishers/anthropic/models/{call}");
        let model_in_body = (outgoing.operation == Operation::CountTokens).then_some(model.as_str());
        let body = with_version(outgoing.body, model_in_body).map_err(UpstreamError::Body)?;
        let target = at.base.target(&path, None);
        Ok(ServiceRequest { target, headers, body, credential: UsedCredential::Secret(token) })
    }

    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        let is_made = self.tokens.forget(|made| refused.is_secret(&made.token)).await;
        let TokenOrigin::Credential(source) = &self.origin else { return is_made };
        // The token of an `exec:` command.
        let is_fetched = source.forget(|secret| refused.is_secret(secret)).await;
        is_made || is_fetched
    }

    async fn make_token(&self, at: ServiceHost<'_>) -> Result<IssuedToken<GoogleToken>, TokenError> {
        let source = match &self.origin {
            TokenOrigin::Metadata { host } => GoogleSource::metadata(host.as_deref()),
            TokenOrigin::File(path) => GoogleSource::parse(&read(path).await?)?,
            TokenOrigin::Credential(source) => {
                let value = source.secret().await.map_err(|error| error.to_string())?;
                // A variable such as GOOGLE_APPLICATION_CREDENTIALS holds the path of the file.
                match value.reveal().strip_prefix('/') {
                    Some(_) => GoogleSource::parse(&read(Path::new(value.reveal())).await?)?,
                    None => GoogleSource::parse(&value)?,
                }
            }
        };
        let IssuedToken { value: token, until } = source.token(at.dialer).await?;
        if let Some(learn) = &self.learn {
            learn(token.reveal());
        }
        let project = source.project().filter(|name| is_project(name)).map(str::to_owned);
        // A command's token is asked for at each request: its own source knows when it expires.
        let until = if matches!(source, GoogleSource::Token(_)) { Some(Instant::now()) } else { until };
        Ok(IssuedToken { value: GoogleToken { token, project }, until })
    }
}

const NO_PROJECT: &str = "no Google project is known: add `project` to the provider's `config`, or set ANTHROPIC_VERTEX_PROJECT_ID";

async fn read(path: &Path) -> Result<Secret, String> {
    let text = tokio::fs::read_to_string(path).await;
    text.map(Secret::new).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Vertex puts the date of a model behind `@`.
fn model_name(model: &str) -> String {
    let model = model.strip_suffix("[1m]").unwrap_or(model);
    let dated = model.rsplit_once('-').filter(|(_, date)| date.len() == 8 && date.parse::<u32>().is_ok());
    dated.map_or_else(|| model.to_owned(), |(name, date)| format!("{name}@{date}"))
}

/// The version in the body; the model is in the path, but for a count of tokens.
fn with_version(body: &[u8], model: Option<&str>) -> Result<Bytes, serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_slice(body)?;
    fields.remove("model");
    fields.extend(model.map(|model| ("model".to_owned(), Value::from(model))));
    fields.insert("anthropic_version".to_owned(), Value::from(VERSION));
    serde_json::to_vec(&fields).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_names_are_vertexs_own() {
        for (region, expected) in [
            ("global", "https://aiplatform.googleapis.com"),
            ("eu", "https://aiplatform.eu.rep.googleapis.com"),
            ("europe-west1", "https://europe-west1-aiplatform.googleapis.com"),
        ] {
            assert_eq!(host(region), expected);
        }
        for (name, expected) in [
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5@20250929"),
            ("claude-opus-5-5[1m]", "claude-opus-5-5"),
            ("claude-opus-4-1@20250805", "claude-opus-4-1@20250805"),
            ("../x", "../x"),
        ] {
            assert_eq!(model_name(name), expected);
        }
        let body = with_version(br#"{"model":"m","stream":true}"#, None).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body, serde_json::json!({ "anthropic_version": VERSION, "stream": true }));
    }
}
