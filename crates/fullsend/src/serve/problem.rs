//! Errors in the form of RFC 9457: `application/problem+json`.

use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{self, AnswerBody};

/// An error as an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Problem {
    /// `urn:fullsend:problem:NAME`.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    #[serde(skip)]
    allow: Option<&'static str>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, name: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:fullsend:problem:{name}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            allow: None,
        }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub(super) fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// `methods` are those that the path has, as `Allow` lists them.
    pub(super) fn method_not_allowed(methods: &'static str) -> Self {
        let why = format!("this path has only {methods}");
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", why);
        Self { allow: Some(methods), ..problem }
    }

    pub(super) fn unreadable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "unreadable", detail)
    }

    /// The request is not possible in the current state.
    pub(super) fn refused(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "refused", detail)
    }

    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn response(&self) -> Response<AnswerBody> {
        let status = self.status();
        let mut response = answer::json(self);
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(methods) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
        }
        response
    }
}
