//! The requests of one connection whose destination is fixed: each is read, decided and passed on by itself, the tenth
//! as strictly as the first.

use super::Proxy;
use super::admission::{Admission, Destination};
use super::attempt::{Attempt, Via};
use super::exchange::{After, Client, Passed, exchange};
use super::refusal::Refusal;
use super::upstream::{BoxStream, Upstream};
use crate::http1::{HeadError, ReadHeadError, RequestHead, Target};
use crate::identity::Caller;
use policy::{Action, CanonicalPath, Decision, Query};
use std::sync::Arc;

pub(super) const HTTP_1: &[u8] = b"http/1.1";

/// A connection that was admitted, on its way to be read.
pub(super) struct Site {
    pub(super) proxy: Arc<Proxy>,
    pub(super) admission: Admission,
    pub(super) caller: Caller,
    pub(super) via: Via,
    /// Whether the client's side was TLS; the server's side then is too.
    pub(super) secure: bool,
}

/// Where a request goes after it was decided.
pub(super) struct Decided {
    pub(super) path: String,
    pub(super) path_and_query: String,
}

impl Site {
    pub(super) fn attempt(&self) -> Attempt {
        let Destination { host, port } = &self.admission.destination;
        let mut attempt = Attempt::new(&self.proxy.on_event, self.via, &host.to_string(), *port);
        attempt.caller(&self.caller);
        attempt
    }

    /// Reads and passes on until one side ends.
    pub(super) async fn serve(&self, mut client: Client, mut upstream: Upstream) {
        let limits = self.proxy.limits;
        loop {
            let bytes = match client.reader.read_head(limits.idle, limits.head_time).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return,
                Err(error) => return self.refuse_unread(&mut client, &error).await,
            };
            let mut attempt = self.attempt();
            let parsed = RequestHead::parse(&bytes);
            #[cfg(test)]
            let parsed = self.proxy.read_forgivingly(parsed, &bytes);
            let head = match parsed {
                Ok(head) => head,
                Err(error) => return refuse(&mut client, &mut attempt, &Refusal::head(error)).await,
            };
            let decided = self.decide(&head, &mut attempt);
            #[cfg(test)]
            let decided = self.decided_once(decided, &head);
            let decided = match decided {
                Ok(decided) => decided,
                Err(refusal) => return refuse(&mut client, &mut attempt, &refusal).await,
            };
            if !upstream.is_usable().await {
                match self.redial().await {
                    Ok(fresh) => upstream = fresh,
                    Err(refusal) => return refuse(&mut client, &mut attempt, &refusal).await,
                }
            }
            let outgoing = match self.outgoing(&head, &decided, &mut client).await {
                Ok(outgoing) => outgoing,
                Err(refusal) => return refuse(&mut client, &mut attempt, &refusal).await,
            };
            #[cfg(test)]
            let outgoing = self.proxy.as_it_came(outgoing, &bytes);
            let look = self.proxy.look(&self.admission.destination);
            let passed = Passed { head: &head, outgoing: &outgoing, idle: limits.idle };
            match exchange(&mut client, &mut upstream, &passed, look, &mut attempt).await {
                Ok(After::KeepAlive) => {}
                Ok(After::Close) => return,
                Ok(After::Upgraded) => return self.websocket(client, upstream, &decided, attempt).await,
                Err(broken) if broken.answered => return attempt.broke(broken.refusal.detail),
                Err(broken) => return refuse(&mut client, &mut attempt, &broken.refusal).await,
            }
        }
    }

    /// The port that a Host field without one means.
    fn default_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }

    /// As it is written to the server: the port stands where it is not the usual one.
    pub(super) fn host_field(&self) -> String {
        let destination = &self.admission.destination;
        if destination.port == self.default_port() {
            destination.host_text()
        } else {
            destination.to_string()
        }
    }

    pub(super) async fn redial(&self) -> Result<Upstream, Refusal> {
        self.dial(HTTP_1).await.map(Upstream::new)
    }

    /// To one of the addresses that were checked when the connection was admitted.
    pub(super) async fn dial(&self, protocol: &[u8]) -> Result<BoxStream, Refusal> {
        let Admission { destination, addresses, .. } = &self.admission;
        let (dialer, host) = (&self.proxy.dialer, destination.host_text());
        let stream = dialer.connect(&host, addresses, destination.port).await;
        let stream = stream.map_err(|error| Refusal::dial(&error))?;
        if !self.secure {
            return Ok(Box::new(stream));
        }
        let stream =
            dialer.secure(stream, &host, &[protocol]).await.map_err(|error| Refusal::dial(&error))?;
        // Who chooses nothing speaks HTTP/1.1.
        if stream.get_ref().1.alpn_protocol().unwrap_or(HTTP_1) != protocol {
            return Err(Refusal::upstream("the server speaks another protocol than before".to_owned()));
        }
        Ok(Box::new(stream))
    }

    async fn refuse_unread(&self, client: &mut Client, error: &ReadHeadError) {
        let mut attempt = self.attempt();
        refuse(client, &mut attempt, &Refusal::unreadable(error.to_string())).await;
    }

    pub(super) fn decide(&self, head: &RequestHead, attempt: &mut Attempt) -> Result<Decided, Refusal> {
        let Target::Origin { path, query } = &head.target else {
            return Err(Refusal::head(HeadError::Target));
        };
        attempt.request(&head.method, path);
        self.proxy.look_at_head(&self.admission.destination, head)?;
        self.check_host(head)?;
        self.decide_request(&head.method, path, query.as_deref(), attempt)
    }

    fn check_host(&self, head: &RequestHead) -> Result<(), Refusal> {
        let wrong = || Refusal::head(HeadError::Host);
        let Some(host) = head.host().map_err(Refusal::head)? else { return Ok(()) };
        let named = Destination::from_authority(host, Some(self.default_port())).map_err(|_| wrong())?;
        let agreed = if named == self.admission.destination { Ok(()) } else { Err(wrong()) };
        #[cfg(test)]
        let agreed = self.proxy.unless_lacking(super::defence::Defence::Agreement, agreed, ());
        agreed
    }

    pub(super) fn decide_request(
        &self,
        method: &str,
        path: &str,
        query: Option<&str>,
        attempt: &mut Attempt,
    ) -> Result<Decided, Refusal> {
        #[cfg(test)]
        self.proxy.panic_where_asked(path);
        let admitted = &self.admission.admitted;
        if !admitted.reads_requests() {
            attempt.allowed((self.proxy.locate)(&admitted.cause()));
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            return Ok(Decided { path: path.to_owned(), path_and_query: format!("{path}{query}") });
        }
        #[cfg(test)]
        let path = &*self.proxy.taken_literally(path);
        let canonical = CanonicalPath::new(path, admitted.encoded_slash())
            .map_err(|error| Refusal::path(format!("{method} {path}: {error}")))?;
        attempt.request(method, canonical.as_str());
        let parsed = Query::parse(query.unwrap_or_default())
            .map_err(|error| Refusal::path(format!("{method} {canonical}: {error}")))?;
        let request = policy::Request { action: Action::Http(method), path: &canonical, query: &parsed };
        let what = || format!("{method} {}{canonical}", self.admission.destination);
        match admitted.decide(&request) {
            Decision::Allow(cause) => attempt.allowed((self.proxy.locate)(&cause)),
            Decision::Audit(denial) => {
                attempt.audited(&Refusal::policy(&denial, &self.proxy.locate, &what()));
            }
            Decision::Deny(denial) => {
                return Err(Refusal::policy(&denial, &self.proxy.locate, &what()));
            }
        }
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Decided { path: canonical.to_string(), path_and_query: format!("{canonical}{query}") })
    }
}

pub(super) async fn refuse(client: &mut Client, attempt: &mut Attempt, refusal: &Refusal) {
    attempt.refused(refusal);
    client.say(&refusal.answer()).await;
}
