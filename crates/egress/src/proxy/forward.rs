//! The proxy as programs know it by their environment: CONNECT for tunnels, and plain requests in absolute form, each of
//! which may go elsewhere.

use super::admission::{Admission, Destination};
use super::attempt::{Attempt, Via};
use super::exchange::{After, Client, Passed, exchange};
use super::inspect::{Greeting, refuse_plainly};
use super::lookout::Look;
use super::outgoing::{Outgoing, OutgoingBody};
use super::refusal::Refusal;
use super::requests::{Decided, Site, refuse};
use super::upstream::Upstream;
use super::{GatewayService, Proxy};
use crate::http1::{HeadError, HeadReader, RequestHead, Target};
use crate::identity::Caller;
use crate::names::MODEL_HOST;
use policy::Host;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const PLAIN_PORT: u16 = 80;

/// The connection as it was accepted.
struct Accepted {
    proxy: Arc<Proxy>,
    peer: SocketAddr,
    local: SocketAddr,
}

pub(super) async fn serve(proxy: Arc<Proxy>, mut stream: TcpStream, peer: SocketAddr) {
    let Ok(local) = stream.local_addr() else { return };
    let accepted = Accepted { proxy, peer, local };
    let limits = accepted.proxy.limits;
    let mut reader = HeadReader::new(&mut stream);
    // Who connects has something to say: only later requests may let us wait.
    let read = reader.read_head(limits.head_time, limits.head_time).await;
    let ahead = reader.into_parts().1;
    let bytes = match read {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return,
        Err(error) => return accepted.refuse(stream, &Refusal::unreadable(error.to_string())).await,
    };
    match RequestHead::parse(&bytes) {
        Err(error) => accepted.refuse(stream, &Refusal::head(error)).await,
        Ok(RequestHead { target: Target::Authority(authority), .. }) if ahead.is_empty() => {
            accepted.connect(stream, &authority).await;
        }
        // Bytes behind a CONNECT that was not granted yet belong to nobody.
        Ok(RequestHead { target: Target::Authority(_), .. }) => {
            let detail = "bytes follow a CONNECT before it was answered";
            accepted.refuse(stream, &Refusal::unreadable(detail.to_owned())).await;
        }
        Ok(head) => accepted.forward(Client::new(Box::new(stream), &ahead), head).await,
    }
}

impl Accepted {
    async fn refuse(&self, stream: TcpStream, refusal: &Refusal) {
        let mut attempt = Attempt::new(&self.proxy.on_event, Via::Forward, "", 0);
        // Who sent it is worth knowing; a refusal does not depend on it.
        drop(self.proxy.caller(self.peer, self.local, &mut attempt).await);
        refuse_plainly(stream, &mut attempt, refusal, Greeting::Established).await;
    }

    async fn connect(&self, mut stream: TcpStream, authority: &str) {
        let destination = match Destination::from_authority(authority, None) {
            Ok(destination) => destination,
            Err(refusal) => return self.refuse(stream, &refusal).await,
        };
        if let Some(gateway) = self.gateway_for(&destination) {
            if stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                gateway(Box::new(stream)).await;
            }
            return;
        }
        let (host, port) = (destination.host.to_string(), destination.port);
        let mut attempt = Attempt::new(&self.proxy.on_event, Via::Connect, &host, port);
        match self.admit(destination, &mut attempt).await {
            Ok((admission, caller)) => {
                let proxy = Arc::clone(&self.proxy);
                let site = Site { proxy, admission, caller, via: Via::Connect, secure: false };
                site.pass(stream, Greeting::Established, attempt).await;
            }
            Err(refusal) => refuse_plainly(stream, &mut attempt, &refusal, Greeting::Established).await,
        }
    }

    async fn admit(
        &self,
        destination: Destination,
        attempt: &mut Attempt,
    ) -> Result<(Admission, Caller), Refusal> {
        let caller = self.proxy.caller(self.peer, self.local, attempt).await?;
        self.proxy.look_at_host(&destination)?;
        let admission = self.proxy.admit(destination, &caller).await?;
        Ok((admission, caller))
    }

    fn gateway_for(&self, destination: &Destination) -> Option<GatewayService> {
        let wanted = destination.host == Host::Name(MODEL_HOST.to_owned()) && destination.port == PLAIN_PORT;
        self.proxy.gateway.clone().filter(|_| wanted)
    }

    /// Request after request; the way out is kept while they go to the same place.
    async fn forward(&self, mut client: Client, mut head: RequestHead) {
        let limits = self.proxy.limits;
        let mut way: Option<(Destination, Upstream)> = None;
        loop {
            match self.forward_one(&mut client, &head, &mut way).await {
                Next::Request => {}
                Next::Close => return,
                Next::Upgraded(attempt, place) => {
                    if let Some((_, upstream)) = way {
                        place.0.websocket(client, upstream, &place.1, *attempt).await;
                    }
                    return;
                }
            }
            let read = client.reader.read_head(limits.idle, limits.head_time).await;
            let Ok(Some(bytes)) = read else { return };
            head = match RequestHead::parse(&bytes) {
                Ok(head) => head,
                Err(error) => {
                    let mut attempt = Attempt::new(&self.proxy.on_event, Via::Forward, "", 0);
                    return refuse(&mut client, &mut attempt, &Refusal::head(error)).await;
                }
            };
        }
    }

    async fn forward_one(
        &self,
        client: &mut Client,
        head: &RequestHead,
        way: &mut Option<(Destination, Upstream)>,
    ) -> Next {
        let mut attempt = Attempt::new(&self.proxy.on_event, Via::Forward, "", 0);
        let prepared = self.prepare(client, head, &mut attempt, way).await;
        let Prepared { outgoing, place } = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => {
                refuse(client, &mut attempt, &refusal).await;
                return Next::Close;
            }
        };
        let Some((_, upstream)) = way else { return Next::Close };
        // What goes to the gateway may hold what only the model is told.
        let look: Look = match &place {
            Some((site, _)) => self.proxy.look(&site.admission.destination),
            None => Box::new(|_| None),
        };
        let passed = Passed { head, outgoing: &outgoing, idle: self.proxy.limits.idle };
        let next = match exchange(client, upstream, &passed, look, &mut attempt).await {
            Ok(After::KeepAlive) => Next::Request,
            Ok(After::Close) => Next::Close,
            Ok(After::Upgraded) => {
                // The gateway speaks no websockets.
                return place.map_or(Next::Close, |place| Next::Upgraded(Box::new(attempt), Box::new(place)));
            }
            Err(broken) => {
                if broken.answered {
                    attempt.broke(broken.refusal.detail);
                } else {
                    refuse(client, &mut attempt, &broken.refusal).await;
                }
                return Next::Close;
            }
        };
        if place.is_none() {
            attempt.dismiss();
        }
        next
    }

    async fn prepare(
        &self,
        client: &mut Client,
        head: &RequestHead,
        attempt: &mut Attempt,
        way: &mut Option<(Destination, Upstream)>,
    ) -> Result<Prepared, Refusal> {
        let Target::Absolute { authority, path, query } = &head.target else {
            return Err(Refusal::head(HeadError::Target));
        };
        let destination = Destination::from_authority(authority, Some(PLAIN_PORT))?;
        attempt.destination(&destination.host.to_string(), destination.port);
        attempt.request(&head.method, path);
        let gateway = self.gateway_for(&destination);
        if gateway.is_none() {
            self.proxy.look_at_head(&destination, head)?;
        }
        check_host(head, &destination)?;
        if let Some(gateway) = gateway {
            if way.as_ref().is_none_or(|(there, _)| *there != destination) {
                *way = Some((destination, Upstream::gateway(&gateway)));
            }
            let query = query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
            let head = head.write_upstream(MODEL_HOST, &format!("{path}{query}")).into();
            return Ok(Prepared { outgoing: Outgoing { head, body: OutgoingBody::Relayed }, place: None });
        }
        let (admission, caller) = self.admit(destination.clone(), attempt).await?;
        let proxy = Arc::clone(&self.proxy);
        let site = Site { proxy, admission, caller, via: Via::Forward, secure: false };
        let decided = site.decide_request(&head.method, path, query.as_deref(), attempt);
        #[cfg(test)]
        let decided = {
            let unread = Decided { path: path.clone(), path_and_query: path.clone() };
            self.proxy.unless_lacking(super::defence::Defence::PlainRequests, decided, unread)
        };
        let decided = decided?;
        let outgoing = site.outgoing(head, &decided, client).await?;
        let kept = match way {
            Some((there, upstream)) => *there == destination && upstream.is_usable().await,
            None => false,
        };
        if !kept {
            *way = Some((destination, site.redial().await?));
        }
        Ok(Prepared { outgoing, place: Some((site, decided)) })
    }
}

struct Prepared {
    outgoing: Outgoing,
    /// Who decided and what; `None` is the gateway, which tells its own events.
    place: Option<(Site, Decided)>,
}

enum Next {
    Request,
    Close,
    Upgraded(Box<Attempt>, Box<(Site, Decided)>),
}

/// An absolute target wins over Host; one that says something else is somebody's trick.
fn check_host(head: &RequestHead, destination: &Destination) -> Result<(), Refusal> {
    let wrong = || Refusal::head(HeadError::Host);
    let Some(host) = head.host().map_err(Refusal::head)? else { return Ok(()) };
    let named = Destination::from_authority(host, Some(PLAIN_PORT)).map_err(|_| wrong())?;
    if named == *destination { Ok(()) } else { Err(wrong()) }
}
