//! Event streams of sessions. One thread asks the store which of the followed sessions have grown, however many readers there
//! are; a reader reads only then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::Response;
use session::{Payload, Seq, SessionError, SessionEvent, SessionId, SessionStatus, Sessions, WaitFor};
use tokio::sync::{mpsc, watch};

use super::Server;
use super::answer::{self, AnswerBody};
use super::metrics::ConnectionGauge;
use super::problem::Problem;
use super::sessions::parse_id;
use super::stream::{StreamReader, last_event_id};

/// The longest wait for the store to change.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The shortest time between two polls, so that many appends cost one poll.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a comment keeps the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many events a reader holds at most.
const MAX_PART_EVENTS: usize = 16;

/// The sessions that have readers.
#[derive(Default)]
pub(super) struct SessionFeed(Mutex<FollowedSessions>);

#[derive(Default)]
struct FollowedSessions {
    heads: HashMap<SessionId, watch::Sender<Seq>>,
    is_watched: bool,
}

impl SessionFeed {
    fn lock(&self) -> MutexGuard<'_, FollowedSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the session's last event, as it grows.
    fn subscribe(server: &Arc<Server>, id: SessionId) -> watch::Receiver<Seq> {
        let mut followed = server.feed.lock();
        let receiver = followed.heads.entry(id).or_insert_with(|| watch::Sender::new(Seq(0))).subscribe();
        if !followed.is_watched {
            followed.is_watched = true;
            let server = Arc::clone(server);
            std::thread::spawn(move || watch_store(&server));
        }
        receiver
    }

    /// The sessions that still have readers. Without any the thread ends.
    fn followed(&self) -> Vec<SessionId> {
        let mut followed = self.lock();
        followed.heads.retain(|_, sender| sender.receiver_count() > 0);
        followed.is_watched = !followed.heads.is_empty();
        followed.heads.keys().copied().collect()
    }

    /// Wakes the readers of a session that has grown.
    pub(super) fn announce(&self, id: SessionId, head: Seq) {
        if let Some(sender) = self.lock().heads.get(&id) {
            sender.send_if_modified(|known| {
                let has_grown = head > *known;
                *known = head.max(*known);
                has_grown
            });
        }
    }
}

fn watch_store(server: &Server) {
    let mut opened: Option<Sessions> = None;
    loop {
        let began = Instant::now();
        let followed = server.feed.followed();
        if followed.is_empty() {
            return;
        }
        if opened.is_none() {
            opened = (server.backend.open_sessions)().ok();
        }
        let looked = opened.as_mut().map(|sessions| look(server, sessions, &followed));
        // A store that cannot be reached is opened again.
        if !matches!(looked, Some(Ok(()))) {
            opened = None;
            std::thread::sleep(MAX_WAIT);
        }
        std::thread::sleep(PAUSE.saturating_sub(began.elapsed()));
    }
}

fn look(server: &Server, sessions: &mut Sessions, followed: &[SessionId]) -> Result<(), SessionError> {
    for id in followed {
        match sessions.session(*id) {
            Ok(session) => server.feed.announce(*id, session.state.head),
            // It was removed: its readers end.
            Err(SessionError::NoSession(_)) => drop(server.feed.lock().heads.remove(id)),
            Err(error) => return Err(error),
        }
    }
    sessions.wait(WaitFor::Events, MAX_WAIT).map(drop)
}

pub(super) async fn events(
    server: &Arc<Server>,
    id: &str,
    last: Option<&str>,
) -> Result<Response<AnswerBody>, Problem> {
    let id = parse_id(id)?;
    let after = Seq(last_event_id(last)?);
    server
        .with_sessions(None, move |sessions, _| sessions.session(id).map(drop).map_err(Problem::from))
        .await?;
    let (sender, receiver) = mpsc::channel(1);
    let heads = SessionFeed::subscribe(server, id);
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let _open = ConnectionGauge::new(&server.metrics, |metrics| &metrics.streams);
        follow(&server, id, after, heads, &StreamReader { sender }).await
    });
    Ok(answer::stream(receiver))
}

/// Ends when the session is terminated or removed, or when the reader is gone.
async fn follow(
    server: &Arc<Server>,
    id: SessionId,
    mut after: Seq,
    mut heads: watch::Receiver<Seq>,
    reader: &StreamReader,
) -> Option<()> {
    loop {
        let read = server.with_sessions(None, move |sessions, _| {
            let events = sessions.events(id, after, MAX_PART_EVENTS)?;
            let is_over = sessions.session(id)?.state.status == SessionStatus::Terminated;
            Ok((events, is_over))
        });
        let (events, is_over) = read.await.ok()?;
        if let Some(last) = events.last() {
            after = last.seq;
            reader.send(text(&events)).await?;
        }
        if events.iter().any(is_the_end) || (events.is_empty() && is_over) {
            return reader.end().await;
        }
        if events.len() < MAX_PART_EVENTS {
            wait(&mut heads, after, reader).await?;
        }
    }
}

fn is_the_end(event: &SessionEvent) -> bool {
    matches!(event.payload, Payload::SessionStatusChanged { to: SessionStatus::Terminated, .. })
}

/// Waits until the session has an event after this one.
async fn wait(heads: &mut watch::Receiver<Seq>, after: Seq, reader: &StreamReader) -> Option<()> {
    loop {
        tokio::select! {
            is_open = async { heads.wait_for(|head| *head > after).await.is_ok() } => return is_open.then_some(()),
            () = tokio::time::sleep(KEEP_ALIVE) => reader.send(": still here\n\n").await?,
            () = reader.sender.closed() => return None,
        }
    }
}

fn text(events: &[SessionEvent]) -> String {
    let lines = events.iter().map(|event| {
        format!("id: {}\ndata: {}\n\n", event.seq.0, serde_json::to_string(event).unwrap_or_default())
    });
    lines.collect()
}
