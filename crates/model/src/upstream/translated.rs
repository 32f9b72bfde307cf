//! A service behind a translation: requests go out in its wire format, and its answers come back in the runtime's.

use super::{BodySource, ResponseBody, UpstreamError, UpstreamResponse};
use crate::translate::{AnswerTranslation, StreamTranslator};
use bytes::Bytes;
use hyper::body::Incoming;
use std::time::Duration;

/// For an answer that is not streamed; the gateway's own limit is the same.
const MAX_ANSWER_BYTES: usize = 32 << 20;
const MAX_ERROR_BYTES: usize = 64 << 10;
const ERROR_TIME: Duration = Duration::from_secs(10);

/// The answer in the runtime's wire format.
pub(super) async fn answer(
    response: UpstreamResponse,
    answers: AnswerTranslation,
) -> Result<UpstreamResponse, UpstreamError> {
    if response.is_stream() {
        let UpstreamResponse { status, headers, body } = response;
        return Ok(UpstreamResponse { status, headers, body: body.translated(answers.stream()) });
    }
    if response.status != 200 {
        let (response, bytes) = response.with_whole_body(MAX_ERROR_BYTES, ERROR_TIME).await;
        let fault = answers.fault(response.status, &bytes);
        return Ok(UpstreamResponse { body: ResponseBody::whole(fault.into()), ..response });
    }
    let UpstreamResponse { status, headers, mut body } = response;
    let mut all = Vec::new();
    while let Some(portion) = body.next().await {
        all.extend_from_slice(&portion?);
        if all.len() > MAX_ANSWER_BYTES {
            return Err(UpstreamError::Answer(format!("it is larger than {MAX_ANSWER_BYTES} bytes")));
        }
    }
    let written = answers.answer(&all).map_err(|error| UpstreamError::Answer(error.to_string()))?;
    Ok(UpstreamResponse { status, headers, body: ResponseBody::whole(written.into()) })
}

impl ResponseBody {
    /// A streamed body in the other format.
    fn translated(self, stream: StreamTranslator) -> Self {
        let portions = match self.portions {
            BodySource::Http(body) => BodySource::Translated(Box::new(TranslatedBody { body, stream })),
            other => other,
        };
        Self { portions, tap: self.tap }
    }
}

pub(super) struct TranslatedBody {
    body: Incoming,
    stream: StreamTranslator,
}

impl TranslatedBody {
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        loop {
            let data = match super::next_data(&mut self.body).await {
                Some(Ok(data)) => data,
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    let rest = self.stream.finish();
                    return (!rest.is_empty()).then(|| Ok(rest.into()));
                }
            };
            match self.stream.push(&data) {
                Ok(written) if written.is_empty() => {}
                Ok(written) => return Some(Ok(written.into())),
                Err(_) => return Some(Err(UpstreamError::Cut)),
            }
        }
    }
}
