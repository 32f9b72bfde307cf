//! The body of a request: JSON, bounded in size and time.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;

use super::header;
use super::problem::Problem;

/// Longer than the longest input of a session.
const MAX_BODY_BYTES: usize = 512 << 10;
const MAX_BODY_TIME: Duration = Duration::from_secs(30);
const MAX_KEY_BYTES: usize = 200;

/// A body as text. A form of a foreign page cannot send this type without asking first.
pub(super) async fn read(head: &Parts, body: Incoming) -> Result<Bytes, Problem> {
    let kind = header(head, &CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let why = "send `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", why));
    }
    let read = tokio::time::timeout(MAX_BODY_TIME, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    match read {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let why = format!("a body has at most {MAX_BODY_BYTES} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", why))
        }
        Ok(Err(_)) | Err(_) => Err(Problem::bad_request("the body did not come")),
    }
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("the body is not valid: {error}")))
}

/// The caller's own name for an action: sent again with the same key, it happens once.
pub(super) fn idempotency_key(head: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = head.headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
    let key = key.ok_or_else(|| {
        Problem::bad_request(format!("`Idempotency-Key` must have 1 to {MAX_KEY_BYTES} ASCII characters"))
    })?;
    Ok(Some(key.to_owned()))
}

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
