//! The services that models come from: one row and one file each. A service says where its requests go, how they are
//! authenticated and what must change in them.

use super::UpstreamError;
use super::anthropic::Anthropic;
use super::azure_openai::AzureOpenAi;
use super::base_url::BaseUrl;
use super::bedrock::Bedrock;
use super::openai::OpenAi;
use super::request::UpstreamRequest;
use super::service::{ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential};
use super::vertex::Vertex;
use crate::wire::Wire;

/// One row of the table.
pub struct Service {
    /// As `type` of a provider, or `vendor` of a profile.
    pub name: &'static str,
    /// The wire formats that it takes.
    pub wires: &'static [Wire],
    /// The keys of `config` that it knows, beside `base_url` and `plain_http`.
    pub settings: &'static [&'static str],
    /// Settings that the host's environment gives where `config` does not: (setting, variable), the first that is set.
    pub variables: &'static [(&'static str, &'static str)],
    /// Settings that name a file of the user's home directory, if it exists and the provider names no credential: (setting,
    /// path).
    pub home_files: &'static [(&'static str, &'static str)],
    pub(super) open: fn(&ServiceSettings) -> Result<(BaseUrl, Dialect), ServiceError>,
}

pub const SERVICES: &[Service] = &[
    Service {
        name: "anthropic",
        wires: &[Wire::Messages],
        settings: &[],
        variables: &[("base_url", "ANTHROPIC_BASE_URL")],
        home_files: &[],
        open: |settings| Anthropic::open(settings).map(|(base, it)| (base, Dialect::Anthropic(it))),
    },
    Service {
        name: "openai",
        wires: &[Wire::Responses, Wire::Chat],
        settings: &["organization", "project", "wire"],
        variables: &[
            ("base_url", "OPENAI_BASE_URL"),
            ("organization", "OPENAI_ORG_ID"),
            ("project", "OPENAI_PROJECT_ID"),
        ],
        home_files: &[],
        open: |settings| OpenAi::open(settings).map(|(base, it)| (base, Dialect::OpenAi(it))),
    },
    Service {
        name: "azure-openai",
        wires: &[Wire::Responses, Wire::Chat],
        settings: &["api_version", "deployment", "wire"],
        variables: &[("base_url", "AZURE_OPENAI_ENDPOINT")],
        home_files: &[],
        open: |settings| AzureOpenAi::open(settings).map(|(base, it)| (base, Dialect::AzureOpenAi(it))),
    },
    Service {
        name: "vertex",
        wires: &[Wire::Messages],
        settings: &["project", "region", "credentials_file", "metadata_host"],
        variables: &[
            ("base_url", "ANTHROPIC_VERTEX_BASE_URL"),
            ("project", "ANTHROPIC_VERTEX_PROJECT_ID"),
            ("project", "GOOGLE_CLOUD_PROJECT"),
            ("region", "CLOUD_ML_REGION"),
            ("credentials_file", "GOOGLE_APPLICATION_CREDENTIALS"),
            ("metadata_host", "GCE_METADATA_HOST"),
        ],
        home_files: &[("credentials_file", ".config/gcloud/application_default_credentials.json")],
        open: |settings| Vertex::open(settings).map(|(base, it)| (base, Dialect::Vertex(Box::new(it)))),
    },
    Service {
        name: "bedrock",
        wires: &[Wire::Messages],
        settings: &[
            "region",
            "inference_profile",
            "profile",
            "credentials_file",
            "metadata_endpoint",
            "role",
            "web_identity_token_file",
            "sts_url",
            "container_uri",
            "container_relative_uri",
            "container_token",
            "container_token_file",
        ],
        variables: &[
            ("base_url", "ANTHROPIC_BEDROCK_BASE_URL"),
            ("region", "AWS_REGION"),
            ("region", "AWS_DEFAULT_REGION"),
            ("profile", "AWS_PROFILE"),
            ("credentials_file", "AWS_SHARED_CREDENTIALS_FILE"),
            ("metadata_endpoint", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
            ("role", "AWS_ROLE_ARN"),
            ("web_identity_token_file", "AWS_WEB_IDENTITY_TOKEN_FILE"),
            ("sts_url", "AWS_ENDPOINT_URL_STS"),
            ("container_uri", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
            ("container_relative_uri", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            ("container_token", "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            ("container_token_file", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        ],
        home_files: &[("credentials_file", ".aws/credentials")],
        open: |settings| Bedrock::open(settings).map(|(base, it)| (base, Dialect::Bedrock(Box::new(it)))),
    },
];

/// The form of a service's requests.
pub(super) enum Dialect {
    Anthropic(Anthropic),
    Bedrock(Box<Bedrock>),
    OpenAi(OpenAi),
    AzureOpenAi(AzureOpenAi),
    Vertex(Box<Vertex>),
}

impl Dialect {
    pub(super) async fn prepare(
        &self,
        at: ServiceHost<'_>,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<ServiceRequest, UpstreamError> {
        match self {
            Self::Anthropic(service) => service.prepare(at, outgoing).await,
            Self::OpenAi(service) => service.prepare(at, outgoing).await,
            Self::AzureOpenAi(service) => service.prepare(at, outgoing).await,
            Self::Vertex(service) => service.prepare(at, outgoing).await,
            Self::Bedrock(service) => service.prepare(at, outgoing).await,
        }
    }

    /// Whether an answer with this status may mean that the credential has expired. AWS says 403.
    pub(super) fn says_expired(&self, status: u16) -> bool {
        status == 401 || status == 403 && matches!(self, Self::Bedrock(_))
    }

    /// Forgets a credential that was refused. Returns whether the next request may have another one.
    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        match self {
            Self::Anthropic(service) => service.forget(refused).await,
            Self::OpenAi(service) => service.forget(refused).await,
            Self::AzureOpenAi(service) => service.forget(refused).await,
            Self::Vertex(service) => service.forget(refused).await,
            Self::Bedrock(service) => service.forget(refused).await,
        }
    }
}
