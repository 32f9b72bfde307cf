//! The body of a request: JSON, or the bundle of a session. Both are bounded in size and time.

use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
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
const MAX_BUNDLE_BYTES: usize = 32 << 20;
const MAX_BUNDLE_TIME: Duration = Duration::from_secs(300);
const MAX_KEY_BYTES: usize = 200;

/// A body as text. A form of a foreign page cannot send this content type without a CORS preflight.
pub(super) async fn read(head: &Parts, body: Incoming) -> Result<Bytes, Problem> {
    read_up_to(head, body, MAX_BODY_BYTES).await
}

/// The same with another bound.
pub(super) async fn read_up_to(head: &Parts, body: Incoming, most: usize) -> Result<Bytes, Problem> {
    if !is_of_type(head, "application/json") {
        let why = "send `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", why));
    }
    let read = tokio::time::timeout(MAX_BODY_TIME, Limited::new(body, most).collect()).await;
    match read {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) => Err(unread(&*error, most)),
        Err(_) => Err(not_sent()),
    }
}

/// Writes the body to a file, which then is at its beginning.
pub(super) async fn receive(head: &Parts, body: Incoming, mut file: File) -> Result<File, Problem> {
    if !is_of_type(head, "application/octet-stream") {
        let why = "send `Content-Type: application/octet-stream`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-a-file", why));
    }
    let failed = |error: std::io::Error| Problem::internal(format!("the body cannot be stored: {error}"));
    let mut body = Limited::new(body, MAX_BUNDLE_BYTES);
    let deadline = tokio::time::Instant::now() + MAX_BUNDLE_TIME;
    loop {
        let frame = tokio::time::timeout_at(deadline, body.frame()).await.map_err(|_| not_sent())?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| unread(&*error, MAX_BUNDLE_BYTES))?;
        if let Ok(bytes) = frame.into_data() {
            file.write_all(&bytes).map_err(failed)?;
        }
    }
    file.rewind().map_err(failed)?;
    Ok(file)
}

fn is_of_type(head: &Parts, wanted: &str) -> bool {
    let kind = header(head, &CONTENT_TYPE).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

fn unread(error: &(dyn std::error::Error + Send + Sync + 'static), most: usize) -> Problem {
    if !error.is::<LengthLimitError>() {
        return not_sent();
    }
    let why = format!("a body has at most {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", why)
}

fn not_sent() -> Problem {
    Problem::bad_request("the body did not come")
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("the body is not valid: {error}")))
}

/// The idempotency key: an action that is sent again with the same key happens once.
pub(super) fn idempotency_key(head: &Parts) -> Result<Option<String>, Problem> {
    let Some(value) = head.headers.get(&IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()));
    let key = key.ok_or_else(|| {
        Problem::bad_request(format!("`Idempotency-Key` must have 1 to {MAX_KEY_BYTES} ASCII characters"))
    })?;
    Ok(Some(key.to_owned()))
}

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
