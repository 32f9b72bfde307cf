//! Finds events for outgoing webhooks, in the directory of runs and in the store of sessions. Events of other processes
//! count as well: a run from a terminal, a wake of a worker. Searching takes at most a twentieth of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use session::{
    ListedSession, PAGE_LIMIT, Session, SessionError, SessionStatus, Sessions, ToolRequestKind, WaitFor,
};

use super::OutgoingWebhooks;
use super::outbox::OutboxError;
use super::webhook::WebhookEventKind;
use crate::record::store;
use crate::serve::Server;
use crate::serve::runs::RunSummary;

/// The shortest pause between two searches, and the ratio of a pause to the search before it.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_FACTOR: u32 = 19;
/// Without a change in the store, sessions are searched after this time.
const MAX_QUIET: Duration = Duration::from_secs(30);

/// The first search for events of a kind reports nothing: it only records the existing ones. It happens before the
/// server answers, so that everything after its start is reported.
pub(super) fn begin(server: &Server, outgoing: &OutgoingWebhooks) {
    let is_new = |kind: &WebhookEventKind| {
        outgoing.wants(*kind) && matches!(outgoing.outbox.reported(*kind), Ok(None))
    };
    if is_new(&WebhookEventKind::RunFinished) {
        outgoing.sender.log_problem(&RunWatch::default().look(server, outgoing));
    }
    if SESSION_KINDS.iter().any(is_new) {
        outgoing.sender.log_problem(&SessionWatch::default().look(server, outgoing));
    }
}

/// Searches until the process ends.
pub(super) fn watch(server: &Server, outgoing: &OutgoingWebhooks) {
    let mut runs = RunWatch::default();
    let mut sessions = SessionWatch::default();
    loop {
        let began = Instant::now();
        if outgoing.wants(WebhookEventKind::RunFinished) {
            outgoing.sender.log_problem(&runs.look(server, outgoing));
        }
        if SESSION_KINDS.iter().any(|kind| outgoing.wants(*kind)) {
            outgoing.sender.log_problem(&sessions.look(server, outgoing));
        }
        std::thread::sleep((began.elapsed() * PAUSE_FACTOR).max(MIN_PAUSE));
    }
}

/// Reports new events, and forgets those that are gone if `may_forget` allows it: an event that was only unreadable for
/// a moment would be reported twice.
fn compare(
    outgoing: &OutgoingWebhooks,
    kind: WebhookEventKind,
    current: &BTreeSet<String>,
    data: impl Fn(&str) -> Option<Json>,
    may_forget: impl Fn(&str) -> bool,
) -> Result<(), OutboxError> {
    let Some(reported) = outgoing.outbox.reported(kind)? else {
        return outgoing.outbox.begin(kind, current);
    };
    for key in current.difference(&reported) {
        if let Some(data) = data(key) {
            outgoing.outbox.report(kind, key, &data, &outgoing.webhooks)?;
        }
    }
    let gone: Vec<String> = reported.difference(current).filter(|key| may_forget(key)).cloned().collect();
    if gone.is_empty() { Ok(()) } else { outgoing.outbox.forget(kind, &gone) }
}

/// The runs that have ended.
#[derive(Default)]
struct RunWatch {
    /// The ended runs at the last search.
    ended: Option<BTreeSet<String>>,
    /// Runs without a runner at the last search: a runner that has just created its log may not have locked it yet.
    suspected: BTreeSet<String>,
}

impl RunWatch {
    fn look(&mut self, server: &Server, outgoing: &OutgoingWebhooks) -> Result<(), OutboxError> {
        let all = store::all(&server.runs);
        let is_known = |id: &String| self.ended.as_ref().is_some_and(|ended| ended.contains(id));
        let mut ended = BTreeSet::new();
        let mut suspected = BTreeSet::new();
        for run in &all {
            if is_known(&run.id) || run.path.join("run.json").is_file() {
                ended.insert(run.id.clone());
            } else if matches!(run.is_alive(), Ok(false)) {
                suspected.insert(run.id.clone());
            }
        }
        ended.extend(suspected.intersection(&self.suspected).cloned());
        self.suspected = suspected;
        if self.ended.as_ref() == Some(&ended) {
            return Ok(());
        }
        let data = |id: &str| {
            let run = all.iter().find(|run| run.id == id);
            run.map(|run| serde_json::to_value(RunSummary::load(run)).unwrap_or_default())
        };
        // A run ends once. One that is not listed may only be unreadable for a moment.
        compare(outgoing, WebhookEventKind::RunFinished, &ended, data, |_| false)?;
        self.ended = Some(ended);
        Ok(())
    }
}

const SESSION_KINDS: [WebhookEventKind; 3] = [
    WebhookEventKind::SessionRequiresAction,
    WebhookEventKind::SessionDeadLetter,
    WebhookEventKind::SessionTerminated,
];

/// The store of sessions.
#[derive(Default)]
struct SessionWatch {
    opened: Option<Sessions>,
    looked: Option<Instant>,
}

/// Why sessions could not be searched.
#[derive(Debug)]
pub(super) enum WatchError {
    Outbox(OutboxError),
    Session(SessionError),
    Open(String),
}

impl From<OutboxError> for WatchError {
    fn from(error: OutboxError) -> Self {
        Self::Outbox(error)
    }
}

impl From<SessionError> for WatchError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl std::fmt::Display for WatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Outbox(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
            Self::Open(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for WatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Outbox(error) => Some(error),
            Self::Session(error) => Some(error),
            Self::Open(_) => None,
        }
    }
}

impl SessionWatch {
    fn look(&mut self, server: &Server, outgoing: &OutgoingWebhooks) -> Result<(), WatchError> {
        let mut sessions = match self.opened.take() {
            Some(sessions) => sessions,
            None => (server.backend.open_sessions)().map_err(WatchError::Open)?,
        };
        let has_changed = sessions.wait(WaitFor::Events, Duration::ZERO)?;
        let is_late = self.looked.is_none_or(|looked| looked.elapsed() > MAX_QUIET);
        if has_changed || is_late {
            // A store that fails is opened again at the next search.
            report_sessions(&mut sessions, outgoing)?;
            self.looked = Some(Instant::now());
        }
        self.opened = Some(sessions);
        Ok(())
    }
}

fn report_sessions(sessions: &mut Sessions, outgoing: &OutgoingWebhooks) -> Result<(), WatchError> {
    let mut found: BTreeMap<WebhookEventKind, BTreeMap<String, Json>> = SESSION_KINDS
        .into_iter()
        .filter(|kind| outgoing.wants(*kind))
        .map(|kind| (kind, BTreeMap::new()))
        .collect();
    let mut unreadable = BTreeSet::new();
    let mut after = None;
    loop {
        let page = sessions.list(None, after, PAGE_LIMIT)?;
        after = page.last().map(ListedSession::id);
        for listed in &page {
            let ListedSession::Readable(session) = listed else {
                unreadable.insert(listed.id().to_string());
                continue;
            };
            for (kind, key, data) in session_events(session) {
                if let Some(events) = found.get_mut(&kind) {
                    events.insert(key, data);
                }
            }
        }
        if page.len() < PAGE_LIMIT {
            break;
        }
    }
    for (kind, events) in &found {
        let current: BTreeSet<String> = events.keys().cloned().collect();
        // A key begins with the id of its session.
        let is_readable = |key: &str| !unreadable.contains(key.split(':').next().unwrap_or(key));
        compare(outgoing, *kind, &current, |key| events.get(key).cloned(), is_readable)?;
    }
    Ok(())
}

/// The events of a session now, each with its own key. Inputs are left out: `GET /v1/sessions/ID` shows them to those
/// who may read.
fn session_events(session: &Session) -> Vec<(WebhookEventKind, String, Json)> {
    let Session { header, state, .. } = session;
    let id = header.id;
    let about = || json!({ "session": id, "agent": header.agent, "repository": header.repository });
    let mut events = Vec::new();
    for request in state.open_requests() {
        let mut data = about();
        data["request"] = json!(request.id);
        data["action"] = json!(match request.kind {
            ToolRequestKind::CustomTool => "answer",
            ToolRequestKind::Confirmation => "confirm",
        });
        data["tool"] = json!(request.tool);
        data["input_digest"] = json!(request.input_digest);
        data["expires_ms"] = json!(request.expires_ms);
        events.push((WebhookEventKind::SessionRequiresAction, format!("{id}:{}", request.id), data));
    }
    for seq in state.dead.iter() {
        let mut data = about();
        data["seq"] = json!(seq);
        events.push((WebhookEventKind::SessionDeadLetter, format!("{id}:{}", seq.0), data));
    }
    if state.status == SessionStatus::Terminated {
        events.push((WebhookEventKind::SessionTerminated, id.to_string(), about()));
    }
    events
}
