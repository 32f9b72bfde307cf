//! One stream: its head is read and decided, and it is passed on or refused by itself.

use super::super::attempt::Attempt;
use super::super::outgoing::{Filled, MAX_FILLED_BODY};
use super::super::refusal::Refusal;
use super::super::requests::Decided;
use super::bodies::{DownBody, DownRelay, UpBody, UpRelay, Upload};
use super::{Counts, Line, head};
use crate::credentials::BodyKind;
use crate::http1::{Framing, HeadError, RequestHead, Target};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A stream that is dropped before it was answered was given up by the client.
struct Open<'a> {
    counts: &'a Counts,
    answered: bool,
}

impl<'a> Open<'a> {
    fn new(counts: &'a Counts) -> Self {
        counts.begun.fetch_add(1, Ordering::Relaxed);
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self { counts, answered: false }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let counts = self.counts;
        counts.end(if self.answered { &counts.answered } else { &counts.given_up });
    }
}

impl Line {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<DownBody> {
        let mut open = Open::new(&self.counts);
        let mut attempt = self.site.attempt();
        let passed = self.pass(request, &mut attempt).await;
        open.answered = true;
        match passed {
            Ok((response, upload)) => {
                let idle = self.site.proxy.limits.idle;
                attempt.status(response.status().as_u16());
                response.map(|body| DownRelay::new(body, idle, attempt, upload).boxed_unsync())
            }
            Err(refusal) => {
                attempt.refused(&refusal);
                refused(&refusal)
            }
        }
    }

    async fn pass(
        &self,
        request: Request<Incoming>,
        attempt: &mut Attempt,
    ) -> Result<(Response<Incoming>, Arc<Upload>), Refusal> {
        let (parts, body) = request.into_parts();
        let came = head::read(&parts, body.is_end_stream()).map_err(Refusal::head)?;
        if !matches!(came.target, Target::Origin { .. }) {
            return Err(Refusal::head(HeadError::Target));
        }
        let decided = self.site.decide(&came, attempt)?;
        let sender = self.way.sender(&self.site).await?;
        let filled = self.site.fill(&came, &decided).await?;
        let upload = Arc::new(Upload::default());
        let request = self.write(filled, &came, &decided, body, &upload).await?;
        let response = self.send(sender, request, &upload).await?;
        Ok((response, upload))
    }

    async fn write(
        &self,
        mut filled: Filled,
        came: &RequestHead,
        decided: &Decided,
        body: Incoming,
        upload: &Arc<Upload>,
    ) -> Result<Request<UpBody>, Refusal> {
        let idle = self.site.proxy.limits.idle;
        let rewritten = match (filled.body, filled.head.framing) {
            (None, _) => None,
            // As in HTTP/1.1: what announces itself as too large is passed as it is, and watched.
            (Some(_), Framing::Length(length)) if length > MAX_FILLED_BODY => None,
            (Some(kind), _) => Some(kind),
        };
        let body = match rewritten {
            Some(kind) => self.rewrite(&mut filled, kind, decided, body).await?,
            None => {
                let look = self.site.proxy.look(&self.site.admission.destination);
                UpRelay::new(body, idle, look, Arc::clone(upload)).boxed_unsync()
            }
        };
        head::write(&filled, came, &self.site.host_field(), body)
    }

    async fn rewrite(
        &self,
        filled: &mut Filled,
        kind: BodyKind,
        decided: &Decided,
        body: Incoming,
    ) -> Result<UpBody, Refusal> {
        let unreadable = |reason: String| Refusal::unreadable(format!("the request's body: {reason}"));
        let most = usize::try_from(MAX_FILLED_BODY).unwrap_or(usize::MAX);
        let collecting = Limited::new(body, most).collect();
        let collected = tokio::time::timeout(self.site.proxy.limits.idle, collecting).await;
        let whole = collected
            .map_err(|_| unreadable("it stood still for too long".to_owned()))?
            .map_err(|error| unreadable(error.to_string()))?
            .to_bytes();
        let whole = self.site.fill_body(&whole, kind, decided).await?;
        filled.head.framing = Framing::Length(whole.len() as u64);
        Ok(Full::new(Bytes::from(whole.to_vec())).map_err(|never| match never {}).boxed_unsync())
    }

    /// Waits as long as the request's body moves.
    async fn send(
        &self,
        mut sender: SendRequest<UpBody>,
        request: Request<UpBody>,
        upload: &Upload,
    ) -> Result<Response<Incoming>, Refusal> {
        let idle = self.site.proxy.limits.idle;
        let sending = sender.send_request(request);
        tokio::pin!(sending);
        let mut before = 0;
        loop {
            match tokio::time::timeout(idle, &mut sending).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => {
                    return Err(upload.leak().unwrap_or_else(|| Refusal::upstream(error.to_string())));
                }
                Err(_) => {
                    let sent = upload.bytes.load(Ordering::Relaxed);
                    if std::mem::replace(&mut before, sent) == sent {
                        return Err(Refusal::upstream("the server did not answer in time".to_owned()));
                    }
                }
            }
        }
    }
}

fn refused(refusal: &Refusal) -> Response<DownBody> {
    let body = Full::new(Bytes::from(refusal.body())).map_err(|never| match never {}).boxed_unsync();
    let response = Response::builder()
        .status(refusal.status)
        .header("content-type", "application/json")
        .header("x-fullsend-refusal", refusal.code)
        .body(body);
    response.unwrap_or_else(|_| Response::new(Full::default().map_err(|never| match never {}).boxed_unsync()))
}
