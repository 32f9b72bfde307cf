//! Converts HTTP/2 heads to those of the strict HTTP/1.1 reader and back. The library has parsed them; their contents are
//! checked again, by the rules for HTTP/1.1.

use super::super::outgoing_request::SubstitutedHead;
use super::super::refusal::Refusal;
use super::super::response_mask::ResponseMask;
use super::bodies::RelayedBody;
use crate::http1::{Fields, Framing, HeadError, HttpVersion, MAX_HEAD_BYTES, RequestHead};
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Uri};

/// `ended`: no body follows.
pub(super) fn read(parts: &Parts, ended: bool) -> Result<RequestHead, HeadError> {
    let listed = parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let mut fields = Fields::of(listed)?;
    let target = parts.uri.path_and_query().map_or("", hyper::http::uri::PathAndQuery::as_str);
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if size + target.len() > MAX_HEAD_BYTES {
        return Err(HeadError::TooManyFields);
    }
    if parts.uri.scheme_str().is_some_and(|scheme| scheme != "https") {
        return Err(HeadError::Target);
    }
    if let Some(authority) = parts.uri.authority() {
        let authority = authority.as_str();
        // Both may be there, and must then be equal.
        if fields.all("host").any(|host| !host.eq_ignore_ascii_case(authority.as_bytes())) {
            return Err(HeadError::Host);
        }
        fields.remove("host");
        fields.push("host", authority.as_bytes());
    }
    if fields.all("upgrade").next().is_some() || fields.all("transfer-encoding").next().is_some() {
        return Err(HeadError::Upgrade);
    }
    let mut head =
        RequestHead::of(parts.method.as_str().as_bytes(), target.as_bytes(), HttpVersion::Http11, fields)?;
    head.framing = match (head.framing, ended) {
        (Framing::Length(0) | Framing::None, true) => Framing::None,
        // The announced bytes never come.
        (Framing::Length(_), true) => return Err(HeadError::ContentLength),
        (Framing::None, false) => Framing::Chunked,
        (framing, _) => framing,
    };
    Ok(head)
}

/// The request for the server. Headers that hold credentials are kept out of the compression table.
pub(super) fn write(
    substituted: &SubstitutedHead,
    received: &RequestHead,
    host: &str,
    body: RelayedBody,
) -> Result<Request<RelayedBody>, Refusal> {
    let unfit = || Refusal::unreadable("the request cannot be written as HTTP/2".to_owned());
    let uri: Uri = format!("https://{host}{}", &*substituted.target).parse().map_err(|_| unfit())?;
    let method = Method::from_bytes(substituted.head.method.as_bytes()).map_err(|_| unfit())?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = hyper::Version::HTTP_2;
    for (name, value) in substituted.head.without_hop().iter() {
        let mut written = HeaderValue::from_bytes(value).map_err(|_| unfit())?;
        written.set_sensitive(!received.fields.all(name).any(|own| own == value));
        request.headers_mut().append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?, written);
    }
    if let Framing::Length(length) = substituted.head.framing {
        request.headers_mut().insert(hyper::header::CONTENT_LENGTH, length.into());
    }
    if received.fields.words("te") == ["trailers"] {
        request.headers_mut().insert(hyper::header::TE, HeaderValue::from_static("trailers"));
    }
    Ok(request)
}

/// Refuses a response that cannot be checked for credentials, and masks them in its headers.
pub(super) fn mask_response(response: &mut Response<Incoming>, mask: &ResponseMask) -> Result<(), Refusal> {
    if !response.body().is_end_stream() {
        let listed =
            response.headers().iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let fields = Fields::of(listed).map_err(|error| Refusal::upstream(error.reason().to_owned()))?;
        mask.check_encoding(&fields).map_err(Refusal::upstream)?;
    }
    mask.mask_headers(response.headers_mut());
    Ok(())
}
