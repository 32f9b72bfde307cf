//! A websocket between client and server, frame by frame. What the client says in text is decided by the policy of the
//! place where the websocket was opened, and gets its credentials where the endpoint says so; placeholders that are not
//! replaced end it. Nothing passes that is not a frame.

mod inward;
mod outward;

use super::attempt::Attempt;
use super::exchange::Client;
use super::inspect::Told;
use super::refusal::Refusal;
use super::requests::{Decided, Site};
use super::tunnel::Moved;
use super::upstream::{BoxStream, Upstream};
use crate::http1::RequestHead;
use crate::websocket::{FrameHead, FrameSource, Opcode, SourceError, asks_properly};
use inward::Inward;
use outward::Outward;
use policy::{Action, CanonicalPath, Decision, Query};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::sync::Notify;

/// For the other side to say goodbye as well.
const FAREWELL: Duration = Duration::from_secs(5);
const POLICY_VIOLATION: u16 = 1008;

/// What the policy says about text from the client.
enum TextRule {
    Pass,
    Audit(Refusal),
    Refuse(Refusal),
}

/// How one direction came to its end.
enum End {
    /// With a close frame, or between two frames.
    Closed,
    /// Between two frames, because it was asked to.
    Stopped,
    Broken(String),
    Refused {
        refusal: Refusal,
        code: u16,
    },
}

impl End {
    fn of(error: SourceError) -> Self {
        match error {
            SourceError::Frame(error) => Self::Refused {
                refusal: Refusal::unreadable(format!("websocket: {error}")),
                code: error.close_code(),
            },
            error => Self::Broken(format!("websocket: {error}")),
        }
    }
}

/// How long may be waited, and for what.
#[derive(Clone, Copy)]
struct Pace<'a> {
    moved: &'a Moved,
    /// While neither side says anything.
    quiet: Duration,
    /// Within a frame.
    portion: Duration,
}

impl Pace<'_> {
    /// The next frame; `Err` where this direction ends.
    async fn head<R: tokio::io::AsyncRead + Unpin>(
        &self,
        source: &mut FrameSource<R>,
    ) -> Result<FrameHead, End> {
        loop {
            let before = self.moved.totals();
            match tokio::time::timeout(self.quiet, source.head()).await {
                Ok(Ok(Some(head))) => return Ok(head),
                Ok(Ok(None)) => return Err(End::Closed),
                Ok(Err(error)) => return Err(End::of(error)),
                Err(_) if self.moved.totals() != before => {}
                Err(_) => return Err(End::Broken("the websocket was quiet for too long".to_owned())),
            }
        }
    }

    async fn portion<R: tokio::io::AsyncRead + Unpin>(
        &self,
        source: &mut FrameSource<R>,
        most: u64,
    ) -> Result<bytes::BytesMut, End> {
        match tokio::time::timeout(self.portion, source.portion(most)).await {
            Ok(Ok(portion)) => Ok(portion),
            Ok(Err(error)) => Err(End::of(error)),
            Err(_) => Err(End::Broken("a frame stood still for too long".to_owned())),
        }
    }

    async fn put(&self, sink: &mut WriteHalf<BoxStream>, bytes: &[u8]) -> Result<(), End> {
        let writing = async {
            sink.write_all(bytes).await?;
            sink.flush().await
        };
        match tokio::time::timeout(self.portion, writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(End::Broken(format!("websocket: {error}"))),
            Err(_) => Err(End::Broken("a frame stood still for too long".to_owned())),
        }
    }
}

/// A handshake as it goes out: without extensions, which would make text unreadable.
pub(super) fn prepare(head: &mut RequestHead) -> Result<(), Refusal> {
    if head.is_websocket() {
        asks_properly(head).map_err(|reason| Refusal::unreadable(reason.to_owned()))?;
        head.fields.remove("sec-websocket-extensions");
    }
    Ok(())
}

impl Site {
    /// After both sides have agreed. `attempt` is that of the handshake.
    pub(super) async fn websocket(
        &self,
        client: Client,
        upstream: Upstream,
        decided: &Decided,
        mut attempt: Attempt,
    ) {
        let (client, from_client) = client.into_stream();
        let (server, from_server) = upstream.into_stream();
        let (client_reader, mut to_client) = tokio::io::split(client);
        let (server_reader, mut to_server) = tokio::io::split(server);
        let limits = self.proxy.limits;
        let moved = Moved::default();
        let told = Told { attempt: &mut attempt, moved: &moved };
        let pace = Pace { moved: &moved, quiet: limits.tunnel_idle, portion: limits.idle };
        let stop = Notify::new();
        let mut outward = Outward::new(self, decided, FrameSource::new(client_reader, from_client), pace);
        let mut inward = Inward::new(FrameSource::new(server_reader, from_server), pace);
        let ended = {
            let (out, back) = (outward.run(&mut to_server), inward.run(&mut to_client, &stop));
            tokio::pin!(out, back);
            tokio::select! {
                end = &mut out => {
                    if matches!(end, End::Refused { .. }) {
                        stop.notify_one();
                    }
                    let other = tokio::time::timeout(FAREWELL, &mut back).await;
                    // A goodbye can only be said between two frames.
                    let between = matches!(other, Ok(End::Stopped | End::Closed));
                    (end, between)
                }
                end = &mut back => {
                    let other = match &end {
                        End::Closed => tokio::time::timeout(FAREWELL, &mut out).await.ok(),
                        _ => None,
                    };
                    (other.filter(|other| matches!(other, End::Refused { .. })).unwrap_or(end), true)
                }
            }
        };
        match ended {
            (End::Closed | End::Stopped, _) => {}
            (End::Broken(reason), _) => told.attempt.broke(reason),
            (End::Refused { refusal, code }, between) => {
                if between {
                    drop(pace.put(&mut to_client, &goodbye(code, &refusal.detail)).await);
                    drop(to_client.shutdown().await);
                }
                told.attempt.broke(refusal.detail);
            }
        }
    }

    /// Decided once: rules for text know nothing but where the websocket was opened.
    fn text_rule(&self, decided: &Decided) -> TextRule {
        let admitted = &self.admission.admitted;
        let query = decided.path_and_query.split_once('?').map_or("", |(_, query)| query);
        let (Ok(path), Ok(query)) =
            (CanonicalPath::new(&decided.path, admitted.encoded_slash()), Query::parse(query))
        else {
            return TextRule::Refuse(Refusal::path(format!("{}: it cannot be read again", decided.path)));
        };
        let request = policy::Request { action: Action::WebsocketText, path: &path, query: &query };
        let what = || format!("{} {}{path}", Action::WebsocketText.method(), self.admission.destination);
        let refusal = |denial: &policy::Denial| Refusal::policy(denial, &self.proxy.locate, &what());
        match admitted.decide(&request) {
            Decision::Allow(_) => TextRule::Pass,
            Decision::Audit(denial) => TextRule::Audit(refusal(&denial)),
            Decision::Deny(denial) => TextRule::Refuse(refusal(&denial)),
        }
    }

    /// An attempt to send text over an open websocket.
    fn text_attempt(&self, decided: &Decided) -> Attempt {
        let mut attempt = self.attempt();
        attempt.request(Action::WebsocketText.method(), &decided.path);
        attempt
    }
}

/// A close frame from us to the client.
fn goodbye(code: u16, reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(120);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let length = 2 + end as u64;
    let mut out = FrameHead { last: true, opcode: Opcode::Close, mask: None, length }.write();
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&reason.as_bytes()[..end]);
    out
}
