//! A decided request in the form in which it leaves: canonical, with credentials in the place of their placeholders.
//! Placeholders that are not replaced are refused, wherever in the request they stand.

use super::admission::Destination;
use super::exchange::Client;
use super::refusal::Refusal;
use super::requests::{Decided, Site};
use super::websocket;
use crate::credentials::{BodyKind, CredentialError, Place};
use crate::http1::{BodyError, Framing, RequestHead, collect_body};
use zeroize::Zeroizing;

/// Bodies into which credentials are put are read whole; larger ones are not changed.
pub(super) const MAX_FILLED_BODY: u64 = 256 << 10;

/// A request with its credentials, but for the body's.
pub(super) struct Filled {
    pub(super) head: RequestHead,
    /// Path and query; they may hold credentials.
    pub(super) target: Zeroizing<String>,
    /// The endpoint has placeholders in the body replaced, and the body is of this kind.
    pub(super) body: Option<BodyKind>,
}

pub(super) struct Outgoing {
    /// It may hold credentials.
    pub(super) head: Zeroizing<Vec<u8>>,
    pub(super) body: OutgoingBody,
}

pub(super) enum OutgoingBody {
    /// As the client sends it.
    Relayed,
    Filled(Zeroizing<Vec<u8>>),
}

impl Site {
    /// Whether requests must be read: for a rule, or because a credential may have to be put in.
    pub(super) fn reads(&self) -> bool {
        self.admission.admitted.reads_requests() || self.has_credentials()
    }

    fn has_credentials(&self) -> bool {
        let destination = &self.admission.destination;
        let said = self.admission.admitted.credentials(None);
        let provider = said.provider.as_deref();
        !said.allow_uninspected
            && self.proxy.credentials.is_bound(&destination.host, destination.port, provider)
    }

    /// Credentials in the places of their placeholders, in head and target.
    pub(super) async fn fill(&self, head: &RequestHead, decided: &Decided) -> Result<Filled, Refusal> {
        let said = self.admission.admitted.credentials(Some(&decided.path));
        let place = self.place(&decided.path);
        let store = &self.proxy.credentials;
        let mut out = head.clone();
        websocket::prepare(&mut out)?;
        store.fill_fields(&mut out.fields, &place).await.map_err(|error| Refusal::credential(&error))?;
        let target = store
            .fill_target(&decided.path_and_query, &place)
            .await
            .map_err(|error| Refusal::credential(&error))?;
        let kind = out.fields.all("content-type").next().and_then(BodyKind::of);
        let body = kind.filter(|_| said.rewrite_body && head.framing != Framing::None);
        if body.is_some() && out.fields.words("content-encoding").iter().any(|word| word != "identity") {
            let error = CredentialError::Misplaced { place: "compressed body" };
            return Err(Refusal::credential(&error));
        }
        Ok(Filled { head: out, target: Zeroizing::new(target), body })
    }

    pub(super) async fn fill_body(
        &self,
        body: &[u8],
        kind: BodyKind,
        decided: &Decided,
    ) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        self.proxy.look_once(&self.admission.destination, body)?;
        let place = self.place(&decided.path);
        self.proxy
            .credentials
            .fill_body(body, kind, &place)
            .await
            .map_err(|error| Refusal::credential(&error))
    }

    /// A whole text message of a websocket. JSON stays JSON, whatever the value holds.
    pub(super) async fn fill_text(
        &self,
        text: &[u8],
        decided: &Decided,
    ) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let json = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
        self.fill_body(text, if json { BodyKind::Json } else { BodyKind::Text }, decided).await
    }

    fn place<'a>(&'a self, path: &'a str) -> Place<'a> {
        let Destination { host, port } = &self.admission.destination;
        let provider = self.admission.admitted.credentials(Some(path)).provider.as_deref();
        Place { host, port: *port, path, provider }
    }

    pub(super) async fn outgoing(
        &self,
        head: &RequestHead,
        decided: &Decided,
        client: &mut Client,
    ) -> Result<Outgoing, Refusal> {
        let Filled { head: mut out, target, body } = self.fill(head, decided).await?;
        let idle = self.proxy.limits.idle;
        let unreadable = |error: BodyError| Refusal::unreadable(error.to_string());
        let whole = match (body, out.framing) {
            (Some(kind), Framing::Length(length)) if length <= MAX_FILLED_BODY => {
                Some((kind, collect_body(&mut client.reader, out.framing, MAX_FILLED_BODY, idle).await))
            }
            (Some(kind), Framing::Chunked) => {
                Some((kind, collect_body(&mut client.reader, out.framing, MAX_FILLED_BODY, idle).await))
            }
            _ => None,
        };
        let body = match whole {
            Some((kind, whole)) => {
                let filled = self.fill_body(&whole.map_err(unreadable)?, kind, decided).await?;
                out.framing = Framing::Length(filled.len() as u64);
                OutgoingBody::Filled(filled)
            }
            None => OutgoingBody::Relayed,
        };
        let head = Zeroizing::new(out.write_upstream(&self.host_field(), &target));
        Ok(Outgoing { head, body })
    }
}
