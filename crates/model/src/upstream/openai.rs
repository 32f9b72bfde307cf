//! OpenAI's own API, and compatible services: OpenRouter, LiteLLM, vLLM, Ollama.

use super::UpstreamError;
use super::base_url::BaseUrl;
use super::request::UpstreamRequest;
use super::service::{
    KeyHeader, ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential, forget_key,
    headers_with_key,
};
use hyper::header::HeaderValue;

pub(super) struct OpenAi {
    key: Option<KeyHeader>,
    organization: Option<HeaderValue>,
    project: Option<HeaderValue>,
}

impl OpenAi {
    pub(super) fn open(settings: &ServiceSettings) -> Result<(BaseUrl, Self), ServiceError> {
        let base = settings.base("https://api.openai.com")?;
        let key = settings.credentials.first().map(|credential| KeyHeader::bearer(credential.source.clone()));
        let service = OpenAi {
            key,
            organization: settings.header("organization")?,
            project: settings.header("project")?,
        };
        Ok((base, service))
    }

    pub(super) async fn prepare(
        &self,
        at: ServiceHost<'_>,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<ServiceRequest, UpstreamError> {
        let (mut headers, credential) = headers_with_key(outgoing.headers, self.key.as_ref()).await?;
        let own = [("openai-organization", &self.organization), ("openai-project", &self.project)];
        for (name, value) in own {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        let target = at.base.target(outgoing.wire.path(), outgoing.query);
        Ok(ServiceRequest { target, headers, body: outgoing.body.clone(), credential })
    }

    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        forget_key(self.key.as_ref(), refused).await
    }
}
