//! A decided request in the form in which it leaves: canonical, with credentials in the place of their placeholders.
//! Placeholders that are not replaced are refused, wherever in the request they stand.

use super::exchange::Client;
use super::refusal::Refusal;
use super::requests::{Decided, Site};
use crate::credentials::{BodyKind, CredentialError, Place};
use crate::http1::{Framing, RequestHead, collect_body};
use zeroize::Zeroizing;

/// Bodies into which credentials are put are read whole; larger ones are not changed.
const MAX_FILLED_BODY: u64 = 256 << 10;

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

    pub(super) async fn outgoing(
        &self,
        head: &RequestHead,
        decided: &Decided,
        client: &mut Client,
    ) -> Result<Outgoing, Refusal> {
        let destination = &self.admission.destination;
        let said = self.admission.admitted.credentials(Some(&decided.path));
        let place = Place {
            host: &destination.host,
            port: destination.port,
            path: &decided.path,
            provider: said.provider.as_deref(),
        };
        let refused = |error: CredentialError| Refusal::credential(&error);
        let store = &self.proxy.credentials;
        let mut out = head.clone();
        store.fill_fields(&mut out.fields, &place).await.map_err(refused)?;
        let target = store.fill_target(&decided.path_and_query, &place).await.map_err(refused)?;
        let target = Zeroizing::new(target);
        let kind = out.fields.all("content-type").next().and_then(BodyKind::of);
        let body = match (said.rewrite_body, kind, out.framing) {
            (true, Some(kind), Framing::Length(length)) if length <= MAX_FILLED_BODY => {
                let whole = collect_body(&mut client.reader, length, self.proxy.limits.idle).await;
                let whole = whole.map_err(|error| Refusal::unreadable(error.to_string()))?;
                let filled = store.fill_body(&whole, kind, &place).await.map_err(refused)?;
                out.framing = Framing::Length(filled.len() as u64);
                OutgoingBody::Filled(filled)
            }
            _ => OutgoingBody::Relayed,
        };
        let head = Zeroizing::new(out.write_upstream(&self.host_field(), &target));
        Ok(Outgoing { head, body })
    }
}
