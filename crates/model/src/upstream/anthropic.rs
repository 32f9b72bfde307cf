//! Anthropic's own API, and compatible services. An API key goes into `x-api-key`; a token goes into `Authorization`.

use super::UpstreamError;
use super::base_url::BaseUrl;
use super::request::{Operation, UpstreamRequest};
use super::service::{
    KeyHeader, NamedCredential, ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential,
    forget_key, headers_with_key,
};
use hyper::header::HeaderValue;

/// The token of a Claude subscription. The API accepts it only with this beta.
const SUBSCRIPTION_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const SUBSCRIPTION_BETA: &str = "oauth-2025-04-20";

pub(super) struct Anthropic {
    key: Option<KeyHeader>,
    is_subscription: bool,
}

impl Anthropic {
    pub(super) fn open(settings: &ServiceSettings) -> Result<(BaseUrl, Self), ServiceError> {
        let base = settings.base("https://api.anthropic.com")?;
        let credential = settings.credentials.first();
        let key = credential.map(|NamedCredential { name, source }| match name.as_str() {
            "ANTHROPIC_AUTH_TOKEN" | SUBSCRIPTION_TOKEN => KeyHeader::bearer(source.clone()),
            _ => KeyHeader::named("x-api-key", source.clone()),
        });
        let is_subscription = credential.is_some_and(|credential| credential.name == SUBSCRIPTION_TOKEN);
        Ok((base, Anthropic { key, is_subscription }))
    }

    pub(super) async fn prepare(
        &self,
        at: ServiceHost<'_>,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<ServiceRequest, UpstreamError> {
        let (mut headers, credential) = headers_with_key(outgoing.headers, self.key.as_ref()).await?;
        if self.is_subscription {
            headers.append("anthropic-beta", HeaderValue::from_static(SUBSCRIPTION_BETA));
        }
        let path = match outgoing.operation {
            Operation::Answer => outgoing.wire.path().to_owned(),
            Operation::CountTokens => format!("{}/count_tokens", outgoing.wire.path()),
        };
        let target = at.base.target(&path, outgoing.query);
        Ok(ServiceRequest { target, headers, body: outgoing.body.clone(), credential })
    }

    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        forget_key(self.key.as_ref(), refused).await
    }
}
