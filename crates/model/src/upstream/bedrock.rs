//! Claude on Amazon Bedrock. The model is part of the path, version and betas part of the body, and the request is signed
//! or carries a bearer key. Streams come in AWS's own framing.

use super::UpstreamError;
use super::aws_credentials::AwsOrigin;
use super::base_url::BaseUrl;
use super::fetch::encode;
use super::request::{Operation, UpstreamRequest};
use super::service::{
    BETA, KeyHeader, ServiceError, ServiceHost, ServiceRequest, ServiceSettings, UsedCredential,
    keep_hosted_betas, vendor_headers,
};
use super::token_cache::{IssuedToken, LearnSecret, TokenCache};
use super::token_error::TokenError;
use crate::wire::messages::thinking_tokens;
use bytes::Bytes;
use data_encoding::BASE64;
use egress::sigv4::{AwsKey, SignedPayload, SignedRequest, sign};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use std::time::SystemTime;

const VERSION: &str = "bedrock-2023-05-31";

pub(super) struct Bedrock {
    region: String,
    /// The prefix of inference profiles for the vendor's model names: `global`, `us`, `eu` or `apac`.
    inference_profile: String,
    access: Access,
    keys: TokenCache<AwsKey>,
    learn: Option<LearnSecret>,
}

enum Access {
    Bearer(KeyHeader),
    Signed(AwsOrigin),
    /// Before credentials are loaded.
    Unknown,
}

impl Bedrock {
    pub(super) fn open(settings: &ServiceSettings) -> Result<(BaseUrl, Self), ServiceError> {
        let Some(region) = settings.setting("region") else {
            return Err(ServiceError::Missing { setting: "region", example: "eu-west-1" });
        };
        let inference_profile = settings.setting("inference_profile").unwrap_or("global");
        for (setting, value) in [("region", region), ("inference_profile", inference_profile)] {
            if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                let expected = "letters, digits and `-`";
                return Err(ServiceError::Setting { setting, value: value.to_owned(), expected });
            }
        }
        let bearer = settings.credentials.iter().find(|found| found.name == "AWS_BEARER_TOKEN_BEDROCK");
        let access = match (bearer, AwsOrigin::of(settings, region)) {
            (Some(bearer), _) => Access::Bearer(KeyHeader::bearer(bearer.source.clone())),
            (None, Some(origin)) => Access::Signed(origin),
            (None, None) => Access::Unknown,
        };
        let base = settings.base(&format!("https://bedrock-runtime.{region}.amazonaws.com"))?;
        let service = Self {
            region: region.to_owned(),
            inference_profile: inference_profile.to_owned(),
            access,
            keys: TokenCache::new(),
            learn: settings.learn.clone(),
        };
        Ok((base, service))
    }

    pub(super) async fn prepare(
        &self,
        at: ServiceHost<'_>,
        outgoing: &UpstreamRequest<'_>,
    ) -> Result<ServiceRequest, UpstreamError> {
        let mut headers = vendor_headers(outgoing.headers);
        keep_hosted_betas(&mut headers);
        let body = with_version(outgoing.body, &headers).map_err(UpstreamError::Body)?;
        headers.remove(BETA);
        headers.remove("anthropic-version");
        let model = self.model_name(&outgoing.request.model);
        let (model, method, body) = match (outgoing.operation, outgoing.request.stream) {
            (Operation::Answer, true) => (model.as_str(), "invoke-with-response-stream", body),
            (Operation::Answer, false) => (model.as_str(), "invoke", body),
            (Operation::CountTokens, _) => (foundation_model(&model), "count-tokens", counted(&body)?),
        };
        let path = format!("/model/{}/{method}", encode(model, b"-._~"));
        let target = at.base.target(&path, None);
        let credential = self.authorize(at, &target, &body, &mut headers).await?;
        Ok(ServiceRequest { target, headers, body, credential })
    }

    pub(super) async fn forget(&self, refused: &UsedCredential) -> bool {
        match (&self.access, refused) {
            (Access::Bearer(key), _) => key.forget(refused).await,
            (Access::Signed(origin), UsedCredential::AwsKey(key)) => {
                let is_made = self.keys.forget(|made| made.secret == key.secret).await;
                let is_fetched = origin.forget(key).await;
                is_made || is_fetched
            }
            _ => false,
        }
    }

    async fn authorize(
        &self,
        at: ServiceHost<'_>,
        target: &str,
        body: &[u8],
        headers: &mut HeaderMap,
    ) -> Result<UsedCredential, UpstreamError> {
        let origin = match &self.access {
            Access::Bearer(key) => return key.add_to(headers).await,
            Access::Unknown => return Err(UpstreamError::Token(NO_KEY.into())),
            Access::Signed(origin) => origin,
        };
        let key = self.keys.get(|| self.make_key(origin, at)).await.map_err(UpstreamError::Token)?;
        let request = SignedRequest {
            method: "POST",
            host: at.base.host_header.to_str().unwrap_or_default(),
            target,
            headers: &[],
            payload: SignedPayload::Bytes(body),
            region: &self.region,
            service: "bedrock",
        };
        for (name, value) in sign(&key, &request, SystemTime::now()) {
            let unfit = |_| UpstreamError::Token("the key does not fit into a header".into());
            let mut value = HeaderValue::from_str(&value).map_err(unfit)?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(UsedCredential::AwsKey(key))
    }

    async fn make_key(
        &self,
        origin: &AwsOrigin,
        at: ServiceHost<'_>,
    ) -> Result<IssuedToken<AwsKey>, TokenError> {
        let made = origin.key(at.dialer).await?;
        if let Some(learn) = &self.learn {
            learn(made.value.secret.reveal());
            made.value.session_token.iter().for_each(|token| learn(token.reveal()));
        }
        Ok(made)
    }

    /// Maps the vendor's model names to inference profiles. Bedrock's own names and ARNs stay unchanged.
    fn model_name(&self, model: &str) -> String {
        let model = model.strip_suffix("[1m]").unwrap_or(model);
        let own = model.starts_with("claude");
        let is_dated =
            model.rsplit_once('-').is_some_and(|(_, date)| date.len() == 8 && date.parse::<u32>().is_ok());
        match (own, is_dated) {
            (true, true) => format!("{}.anthropic.{model}-v1:0", self.inference_profile),
            (true, false) => format!("{}.anthropic.{model}", self.inference_profile),
            (false, _) => model.to_owned(),
        }
    }
}

/// Tokens are counted for a model, not for an inference profile: `eu.anthropic.x` is a profile of `anthropic.x`.
fn foundation_model(name: &str) -> &str {
    match name.find("anthropic.") {
        Some(start) if !name.starts_with("arn:") => &name[start..],
        _ => name,
    }
}

/// Wraps the body of an invocation for counting its tokens. The invocation needs a maximum length of its answer.
fn counted(invocation: &[u8]) -> Result<Bytes, UpstreamError> {
    let mut fields: Map<String, Value> = serde_json::from_slice(invocation).map_err(UpstreamError::Body)?;
    let thinking = thinking_tokens(invocation);
    fields.insert("max_tokens".to_owned(), Value::from(thinking + 1));
    let inner = BASE64.encode(Value::Object(fields).to_string().as_bytes());
    Ok(Bytes::from(json!({ "input": { "invokeModel": { "body": inner } } }).to_string()))
}

const NO_KEY: &str = "no AWS credential is known: name AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                      AWS_BEARER_TOKEN_BEDROCK, in the provider's `credentials`";

/// Version and betas in the body; the model and whether to stream are in the path.
fn with_version(body: &[u8], headers: &HeaderMap) -> Result<Bytes, serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_slice(body)?;
    fields.remove("model");
    fields.remove("stream");
    fields.insert("anthropic_version".to_owned(), Value::from(VERSION));
    if let Some(betas) = headers.get(BETA).and_then(|value| value.to_str().ok()) {
        let betas: Vec<Value> = betas.split(',').map(Value::from).collect();
        fields.insert("anthropic_beta".to_owned(), Value::from(betas));
    }
    serde_json::to_vec(&fields).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.x";

    #[test]
    fn names_become_those_of_bedrock() {
        let config = [
            ("region".to_owned(), "eu-west-1".to_owned()),
            ("inference_profile".to_owned(), "eu".to_owned()),
        ];
        let settings = ServiceSettings { config: config.into(), ..ServiceSettings::default() };
        let (base, service) = Bedrock::open(&settings).unwrap();
        assert_eq!(base.host, "bedrock-runtime.eu-west-1.amazonaws.com");
        for (name, expected) in [
            ("claude-sonnet-4-5-20250929", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
            ("claude-opus-5-5[1m]", "eu.anthropic.claude-opus-5-5"),
            ("us.anthropic.claude-opus-4-6-v1:0", "us.anthropic.claude-opus-4-6-v1:0"),
            (ARN, ARN),
        ] {
            assert_eq!(service.model_name(name), expected);
        }
        assert_eq!(foundation_model("us.anthropic.claude-opus-4-6-v1:0"), "anthropic.claude-opus-4-6-v1:0");
        assert_eq!(foundation_model(ARN), ARN);
        assert!(Bedrock::open(&ServiceSettings::default()).is_err());
    }
}
