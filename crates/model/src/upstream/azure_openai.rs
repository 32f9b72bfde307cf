//! OpenAI's models on Azure. A key goes into `api-key`, a token of Entra ID into `Authorization`. Without `api_version` the
//! requests go to the versionless `/openai/v1`.

use super::UpstreamError;
use super::base_url::BaseUrl;
use super::request::UpstreamRequest;
use super::service::{
    KeyHeader, NamedCredential, ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential,
    forget_key, headers_with_key,
};
use crate::wire::Wire;

pub(super) struct AzureOpenAi {
    key: Option<KeyHeader>,
    api_version: Option<String>,
    deployment: Option<String>,
}

impl AzureOpenAi {
    pub(super) fn open(settings: &ServiceSettings) -> Result<(BaseUrl, Self), ServiceError> {
        if settings.setting("base_url").is_none() {
            return Err(ServiceError::Missing {
                setting: "base_url",
                example: "https://RESOURCE.openai.azure.com",
            });
        }
        let mut base = settings.base("")?;
        let without_version = base.prefix.strip_suffix("/v1").unwrap_or(&base.prefix);
        base.prefix = without_version.strip_suffix("/openai").unwrap_or(without_version).to_owned();
        let key = settings.credentials.first().map(|NamedCredential { name, source }| {
            if name.ends_with("_TOKEN") {
                KeyHeader::bearer(source.clone())
            } else {
                KeyHeader::named("api-key", source.clone())
            }
        });
        let safe = |name: &'static str| match settings.setting(name) {
            Some(value)
                if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) =>
            {
                let expected = "letters, digits and `- _ .`";
                Err(ServiceError::Setting { setting: name, value: value.to_owned(), expected })
            }
            value => Ok(value.map(str::to_owned)),
        };
        let service = AzureOpenAi { key, api_version: safe("api_version")?, deployment: safe("deployment")? };
        Ok((base, service))
    }

    pub(super) async fn prepare(
        &self,
        at: ServiceHost<'_>,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<ServiceRequest, UpstreamError> {
        let (headers, credential) = headers_with_key(outgoing.headers, self.key.as_ref()).await?;
        let target = format!("{}{}", at.base.prefix, self.path(outgoing.wire));
        Ok(ServiceRequest { target, headers, body: outgoing.body.clone(), credential })
    }

    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        forget_key(self.key.as_ref(), refused).await
    }

    fn path(&self, wire: Wire) -> String {
        let operation = wire.path().strip_prefix("/v1").unwrap_or(wire.path());
        let Some(version) = &self.api_version else { return format!("/openai/v1{operation}") };
        match &self.deployment {
            Some(deployment) => {
                format!("/openai/deployments/{deployment}{operation}?api-version={version}")
            }
            None => format!("/openai{operation}?api-version={version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_and_the_deployment_choose_the_path() {
        let service = |version: Option<&str>, deployment: Option<&str>| AzureOpenAi {
            key: None,
            api_version: version.map(str::to_owned),
            deployment: deployment.map(str::to_owned),
        };
        for (version, deployment, wire, path) in [
            (None, None, Wire::Responses, "/openai/v1/responses"),
            (
                Some("2025-04-01-preview"),
                None,
                Wire::Responses,
                "/openai/responses?api-version=2025-04-01-preview",
            ),
            (
                Some("2024-10-21"),
                Some("gpt"),
                Wire::Chat,
                "/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
            ),
        ] {
            assert_eq!(service(version, deployment).path(wire), path);
        }
    }
}
