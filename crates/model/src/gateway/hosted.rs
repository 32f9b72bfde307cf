//! Claude's format at the addresses of Google and Amazon, as Claude Code sends it if the harness selects one of them. A
//! request is converted to the Messages format before it is checked, and an answer gets the service's framing after it
//! was checked. So every rule of the gateway applies here too.

use super::memory::MAX_VALUES;
use super::response::{AnswerBody, GatewayResponse, fault_response, respond};
use crate::allowlist::{check_json, without_date};
use crate::upstream::event_stream::CONTENT_TYPE as EVENT_STREAM;
use crate::upstream::request::Operation;
use crate::wire::Wire;
use crate::wire::fault::{Fault, FaultKind};
use bytes::Bytes;
use data_encoding::BASE64;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

/// A service that has addresses and framing of its own for Claude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Vertex,
    Bedrock,
}

/// The parsed address of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostedAddress {
    host: Host,
    /// `None`: in the body.
    model: Option<String>,
    stream: bool,
}

/// Where a request was sent, which decides the format of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) wire: Wire,
    pub(super) operation: Operation,
    /// `None`: the vendor's own address.
    pub(super) hosted: Option<HostedAddress>,
}

impl Address {
    /// `None`: the gateway serves nothing there.
    pub(super) fn of(path: &str) -> Option<Self> {
        if let Some(wire) = Wire::ALL.into_iter().find(|wire| wire.path() == path) {
            return Some(Self::of_vendor(wire));
        }
        if path == COUNT_PATH {
            return Some(Self { operation: Operation::CountTokens, ..Self::of_vendor(Wire::Messages) });
        }
        let (operation, hosted) = vertex(path).or_else(|| bedrock(path))?;
        Some(Self { wire: Wire::Messages, operation, hosted: Some(hosted) })
    }

    pub(super) fn of_vendor(wire: Wire) -> Self {
        Self { wire, operation: Operation::Answer, hosted: None }
    }

    /// The body as it would be at the vendor's own address. Betas of the body become a header, like those of every other
    /// request.
    pub(super) fn vendor_body(&self, body: Bytes, headers: &mut HeaderMap) -> Result<Bytes, String> {
        let Some(hosted) = &self.hosted else { return Ok(body) };
        // Before it becomes values in memory, where a name cannot occur twice.
        let unread = |error| format!("the body cannot be read: {error}");
        check_json(&body, MAX_VALUES).map_err(unread)?;
        let is_count = self.operation == Operation::CountTokens;
        let body = if is_count && self.is_bedrock() {
            let counted = counted_body(&body)?;
            check_json(&counted, MAX_VALUES).map_err(unread)?;
            counted
        } else {
            body.to_vec()
        };
        let mut fields = hosted.vendor_fields(&body, headers)?;
        if is_count {
            // A count has no answer, whose length and delivery these would say.
            COUNTED_WITHOUT.iter().for_each(|name| drop(fields.remove(*name)));
        }
        Ok(Bytes::from(Value::Object(fields).to_string()))
    }

    /// How many tokens a request has, in the form of this address.
    pub(super) fn counted(&self, tokens: u64) -> GatewayResponse {
        let name = if self.is_bedrock() { "inputTokens" } else { "input_tokens" };
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        respond(200, headers, AnswerBody::whole(json!({ name: tokens }).to_string()))
    }

    /// The fault in the form of this address.
    pub(super) fn fault(&self, fault: &Fault) -> GatewayResponse {
        let mut response = fault_response(self.wire, fault);
        if self.is_bedrock() {
            let name = HeaderValue::from_static(exception(fault.kind));
            response.headers_mut().insert("x-amzn-errortype", name);
            *response.body_mut() = AnswerBody::whole(json!({ "message": fault.message }).to_string());
        }
        response
    }

    /// A stream in the framing of this address.
    pub(super) fn frame(&self, response: GatewayResponse) -> GatewayResponse {
        if !self.is_bedrock() || !response.body().is_stream() {
            return response;
        }
        let mut response = response.map(AnswerBody::in_event_stream);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        response
    }

    fn is_bedrock(&self) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.host == Host::Bedrock)
    }
}

/// The project and the location of the address do not matter: the provider's are used.
fn vertex(path: &str) -> Option<(Operation, HostedAddress)> {
    let parts: Vec<&str> = path.strip_prefix("/v1/projects/")?.split('/').collect();
    let [_, "locations", _, "publishers", "anthropic", "models", call] = parts[..] else { return None };
    if call == "count-tokens:rawPredict" {
        let address = HostedAddress { host: Host::Vertex, model: None, stream: false };
        return Some((Operation::CountTokens, address));
    }
    let (model, method) = call.rsplit_once(':')?;
    let stream = match method {
        "streamRawPredict" => true,
        "rawPredict" => false,
        _ => return None,
    };
    let address = HostedAddress { host: Host::Vertex, model: Some(decoded(model)?), stream };
    Some((Operation::Answer, address))
}

/// An ARN has slashes, which some clients do not encode.
fn bedrock(path: &str) -> Option<(Operation, HostedAddress)> {
    let (model, method) = path.strip_prefix("/model/")?.rsplit_once('/')?;
    let (operation, stream) = match method {
        "invoke-with-response-stream" => (Operation::Answer, true),
        "invoke" => (Operation::Answer, false),
        "count-tokens" => (Operation::CountTokens, false),
        _ => return None,
    };
    Some((operation, HostedAddress { host: Host::Bedrock, model: Some(decoded(model)?), stream }))
}

/// The request whose tokens Bedrock counts: the body of an invocation, in base64.
fn counted_body(body: &[u8]) -> Result<Vec<u8>, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let inner = value.pointer("/input/invokeModel/body").and_then(Value::as_str);
    let inner = inner.ok_or("`input.invokeModel.body` is missing; the gateway counts no other form")?;
    BASE64.decode(inner.as_bytes()).map_err(|_| "`input.invokeModel.body` is not base64".to_owned())
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    (!text.is_empty()).then(|| text.into_owned())
}

impl HostedAddress {
    fn vendor_fields(&self, body: &[u8], headers: &mut HeaderMap) -> Result<Map<String, Value>, String> {
        let mut fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let version = match self.host {
            Host::Vertex => "vertex-2023-10-16",
            Host::Bedrock => "bedrock-2023-05-31",
        };
        if fields.remove("anthropic_version").as_ref().and_then(Value::as_str) != Some(version) {
            return Err(format!("`anthropic_version` is not `{version}`"));
        }
        if let Some(model) = &self.model
            && fields.insert("model".to_owned(), Value::from(model.as_str())).is_some()
        {
            return Err("`model` belongs into the address".to_owned());
        }
        if fields.get("stream").is_some_and(|stream| *stream != Value::Bool(self.stream)) {
            return Err("`stream` and the address differ".to_owned());
        }
        match fields.remove("anthropic_beta") {
            None | Some(Value::Null) => {}
            Some(Value::Array(betas)) => {
                for beta in betas {
                    let value = beta.as_str().and_then(|beta| HeaderValue::from_str(beta).ok());
                    headers.append(BETA, value.ok_or("`anthropic_beta` is not a list of names")?);
                }
            }
            Some(_) => return Err("`anthropic_beta` is not a list of names".to_owned()),
        }
        leave_out_search(headers);
        fields.insert("stream".to_owned(), Value::from(self.stream));
        Ok(fields)
    }
}

/// Claude Code names this beta in every request to Vertex AI, also in those without a tool that searches. It is left out; such
/// a tool is refused by its own name.
fn leave_out_search(headers: &mut HeaderMap) {
    let given: Vec<String> =
        headers.get_all(BETA).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    let named = given.iter().flat_map(|value| value.split(',')).map(str::trim);
    let kept: Vec<&str> = named.filter(|beta| without_date(beta) != "web-search").collect();
    let value = HeaderValue::from_str(&kept.join(",")).ok().filter(|value| !value.is_empty());
    match value {
        Some(value) => drop(headers.insert(BETA, value)),
        None => drop(headers.remove(BETA)),
    }
}

const BETA: &str = "anthropic-beta";

/// Where Anthropic counts the tokens of a request.
const COUNT_PATH: &str = "/v1/messages/count_tokens";

/// Fields of a request for an answer.
const COUNTED_WITHOUT: &[&str] = &["max_tokens", "stream"];

/// AWS's name for a fault.
fn exception(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::RateLimit => "ThrottlingException",
        FaultKind::Permission | FaultKind::Authentication => "AccessDeniedException",
        FaultKind::NotFound => "ResourceNotFoundException",
        FaultKind::InvalidRequest | FaultKind::TooLarge => "ValidationException",
        FaultKind::Overloaded => "ServiceUnavailableException",
        FaultKind::Timeout => "ModelTimeoutException",
        FaultKind::Upstream => "InternalServerException",
    }
}
