//! Masks the run's credentials in a response: a server may repeat what it was sent. Every value is overwritten with the
//! same number of bytes, so that the framing stays.

use super::admission::AdmittedConnection;
use super::charset::strange_charset;
use crate::credentials::ResponseRedactors;
use crate::http1::{BodyFilter, Fields};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use redact::StreamMasker;
use std::borrow::Cow;

/// The headers in which HTTP, delta encoding (RFC 3229), gRPC and Connect name a body's encoding.
const ENCODING_FIELDS: &[&str] = &["content-encoding", "im", "grpc-encoding", "connect-content-encoding"];

#[derive(Default)]
pub(super) struct ResponseMask {
    /// `None`: there is nothing to mask.
    redactors: Option<ResponseRedactors>,
    body: StreamMasker,
    /// A value was sent to this endpoint, so a response that cannot be read is refused.
    refuses_encoded: bool,
}

impl ResponseMask {
    pub(super) fn new(connection: &AdmittedConnection) -> Self {
        let store = &connection.proxy.config.credentials;
        let destination = &connection.destination;
        Self {
            redactors: store.response_redactors(),
            body: StreamMasker::default(),
            refuses_encoded: store.was_sent(&destination.host, destination.port),
        }
    }

    /// Adds the values that were sent since: a websocket is open for long.
    pub(super) fn refresh(&mut self, connection: &AdmittedConnection) {
        self.redactors = connection.proxy.config.credentials.response_redactors();
    }

    /// Why a response with these fields must not pass.
    pub(super) fn check_encoding(&self, fields: &Fields) -> Result<(), String> {
        let encoding = ENCODING_FIELDS
            .iter()
            .flat_map(|name| fields.words(name))
            .find(|word| word != "identity")
            .or_else(|| fields.all("content-type").find_map(strange_charset));
        match encoding {
            Some(encoding) if self.refuses_encoded => Err(format!(
                "the response is encoded with {encoding}, and cannot be checked for the credential that was sent"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn mask_fields(&self, fields: &mut Fields) {
        if let Some(redactors) = &self.redactors {
            let names: Vec<String> = fields.iter().map(|(name, _)| name.to_owned()).collect();
            names.iter().filter(|name| self.holds_value(name)).for_each(|name| fields.remove(name));
            let mut values: Vec<&mut [u8]> = fields.iter_mut().map(|(_, value)| &mut value[..]).collect();
            mask_headers_of_a_response(redactors, &mut values);
        }
    }

    /// Whether a value is in the name of a field.
    fn holds_value(&self, name: &str) -> bool {
        let Some(redactors) = &self.redactors else { return false };
        let lower_case = name.to_ascii_lowercase();
        redactors.lower_case_names.redact(&lower_case) != lower_case
    }

    pub(super) fn mask_headers(&self, headers: &mut HeaderMap) {
        let names: Vec<HeaderName> =
            headers.keys().filter(|name| self.holds_value(name.as_str())).cloned().collect();
        for name in names {
            headers.remove(name);
        }
        let Some(redactors) = &self.redactors else { return };
        let mut masked: Vec<Vec<u8>> = headers.values().map(|value| value.as_bytes().to_vec()).collect();
        mask_headers_of_a_response(
            redactors,
            &mut masked.iter_mut().map(|value| &mut value[..]).collect::<Vec<_>>(),
        );
        for (value, bytes) in headers.values_mut().zip(masked) {
            if bytes != value.as_bytes() {
                // Asterisks are valid in every header.
                *value = HeaderValue::from_bytes(&bytes).unwrap_or(HeaderValue::from_static("*"));
            }
        }
    }

    pub(super) fn mask_whole(&self, bytes: &mut [u8]) {
        if let Some(redactors) = &self.redactors {
            redactors.contents.mask_in_place(bytes);
        }
    }

    /// The bytes that may pass, masked. The start of a value is held back.
    pub(super) fn push<'a>(&mut self, portion: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.redactors {
            Some(redactors) => Cow::Owned(self.body.push(&redactors.contents, portion)),
            None => Cow::Borrowed(portion),
        }
    }

    /// The bytes that were held back.
    pub(super) fn flush(&mut self) -> Vec<u8> {
        match &self.redactors {
            Some(redactors) => self.body.flush(&redactors.contents),
            None => Vec::new(),
        }
    }

    pub(super) fn has_held_bytes(&self) -> bool {
        self.body.has_held_bytes()
    }
}

/// Overwrites values in headers, also those that are divided over several. All headers together come first: after a part is
/// overwritten alone, the whole value is not found any more.
fn mask_headers_of_a_response(redactors: &ResponseRedactors, values: &mut [&mut [u8]]) {
    let mut all = values.concat();
    redactors.contents.mask_in_place(&mut all);
    let mut at = 0;
    for value in values {
        value.copy_from_slice(&all[at..at + value.len()]);
        at += value.len();
        redactors.contents.mask_in_place(value);
    }
}

impl BodyFilter for ResponseMask {
    fn filter<'a>(&mut self, portion: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        Some(self.push(portion))
    }

    fn finish(&mut self) -> Vec<u8> {
        self.flush()
    }
}
