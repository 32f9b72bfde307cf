//! Lists sessions, and reads one session and its log.

use std::sync::Arc;

use hyper::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use session::{
    ListFilter, ListedSession, Seq, SessionError, SessionId, SessionRefusal, SessionStatus, Sessions,
    StoreError,
};

use super::Server;
use super::access::Caller;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use super::query::Query;
use crate::render::session::{describe, load_open_requests};

/// One page of the list of sessions, by id.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionSummary>,
    /// The cursor of the next page; absent at the end.
    pub next: Option<String>,
}

/// One session in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionSummary {
    pub id: String,
    pub agent: String,
    pub repository: Option<String>,
    pub status: String,
    pub stop_reason: String,
    /// The number of the last event.
    pub head: u64,
    pub created_ms: i64,
    /// Inputs that wait for a wake.
    pub pending: u64,
    /// Inputs that were given up.
    pub dead: u64,
    /// Requests that wait for an answer.
    pub requests: u64,
    /// When the next queued wake is due.
    pub next_wake_ms: Option<i64>,
    /// The worker that runs it now.
    pub held_by: Option<String>,
    pub usd: f64,
}

/// A part of a session's log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionEventList {
    pub events: Vec<Json>,
    /// The number after which the next page begins; absent at the end.
    pub next: Option<u64>,
}

impl Server {
    /// Calls the session library on a connection of its own. Events of the call name the caller.
    pub(super) async fn with_sessions<T: Send + 'static>(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        work: impl FnOnce(&mut Sessions, &Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.with_actor(caller.map(|caller| caller.name.clone()), work).await
    }

    /// The same for a webhook, which has no caller.
    pub(super) async fn with_actor<T: Send + 'static>(
        self: &Arc<Self>,
        actor: Option<String>,
        work: impl FnOnce(&mut Sessions, &Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.blocking(move |server| {
            let idle = server.idle_stores().pop();
            let mut sessions =
                idle.map_or_else(|| (server.backend.open_sessions)(), Ok).map_err(unavailable)?;
            sessions.set_actor(actor);
            let done = work(&mut sessions, server);
            server.idle_stores().push(sessions);
            done
        })
        .await
    }
}

fn unavailable(why: String) -> Problem {
    Problem::new(hyper::StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", why)
}

/// Maps an error of the session library to a response: an invalid request, a request that comes too late,
/// or a store that does not answer.
impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let why = error.to_string();
        match error {
            SessionError::NoSession(_) => Problem::not_found(why),
            SessionError::Refused(
                SessionRefusal::NotAnInput { .. }
                | SessionRefusal::Empty { .. }
                | SessionRefusal::TooLarge { .. }
                | SessionRefusal::Bundle { .. }
                | SessionRefusal::Field { .. },
            ) => Problem::bad_request(why),
            SessionError::Refused(_) => Problem::refused(why),
            SessionError::Store(StoreError::Corrupt { .. }) => Problem::unreadable(why),
            SessionError::Store(_) => unavailable(why),
        }
    }
}

pub(super) fn parse_id(text: &str) -> Result<SessionId, Problem> {
    text.parse().map_err(|_| Problem::not_found("no session has this id"))
}

/// The query parameters of a list of sessions.
struct SessionQuery {
    limit: usize,
    after: Option<SessionId>,
    agent: Option<String>,
    repository: Option<String>,
    status: Option<SessionStatus>,
}

impl SessionQuery {
    fn parse(text: &str) -> Result<Self, Problem> {
        let query = Query::parse(text)?;
        let own = |name: &str| query.value(name).map(str::to_owned);
        let status = query.value("status").map(|word| {
            let known = SessionStatus::ALL.iter().find(|status| status.word() == word);
            known.copied().ok_or_else(|| Problem::bad_request("`status` must be a status of a session"))
        });
        let after = query.value("cursor").map(|cursor| {
            let id = cursor.parse();
            id.map_err(|_| Problem::bad_request("`cursor` must be `next` of the page before"))
        });
        Ok(Self {
            limit: query.limit()?,
            after: after.transpose()?,
            agent: own("agent"),
            repository: own("repository"),
            status: status.transpose()?,
        })
    }

    fn filter(&self) -> ListFilter<'_> {
        let Self { agent, repository, status, .. } = self;
        ListFilter {
            agent: agent.as_deref(),
            repository: repository.as_deref(),
            status: *status,
            has_work: false,
        }
    }
}

pub(super) async fn list(server: &Arc<Server>, query: &str) -> Result<Response<AnswerBody>, Problem> {
    let asked = SessionQuery::parse(query)?;
    let list = server.with_sessions(None, move |sessions, _| {
        let found = sessions.list_filtered(&asked.filter(), asked.after, asked.limit)?;
        let next = found.last().filter(|_| found.len() >= asked.limit).map(|last| last.id().to_string());
        Ok(SessionList { sessions: found.iter().filter_map(summary).collect(), next })
    });
    Ok(answer::json(&list.await?))
}

fn summary(listed: &ListedSession) -> Option<SessionSummary> {
    let ListedSession::Readable(session) = listed else { return None };
    let header = &session.header;
    let state = &session.state;
    Some(SessionSummary {
        id: header.id.to_string(),
        agent: header.agent.clone(),
        repository: header.repository.clone(),
        status: state.status.to_string(),
        stop_reason: state.stop_reason.to_string(),
        head: state.head.0,
        created_ms: header.created_ms.0,
        pending: (state.pending.len() + state.interrupts.len()) as u64,
        dead: state.dead.len() as u64,
        requests: state.open_requests().count() as u64,
        next_wake_ms: state.wakes.iter().map(|wake| wake.due_ms.0).min(),
        held_by: session.holder.as_ref().map(|holder| holder.owner.clone()),
        usd: state.usage.cost_microdollars as f64 / 1e6,
    })
}

pub(super) async fn get(server: &Arc<Server>, id: &str) -> Result<Response<AnswerBody>, Problem> {
    let id = parse_id(id)?;
    let described = server.with_sessions(None, move |sessions, _| {
        let session = sessions.session(id)?;
        let requests = load_open_requests(sessions, &session)?;
        Ok(describe(&session, &requests))
    });
    Ok(answer::json(&described.await?))
}

pub(super) async fn events(
    server: &Arc<Server>,
    id: &str,
    query: &str,
) -> Result<Response<AnswerBody>, Problem> {
    let id = parse_id(id)?;
    let query = Query::parse(query)?;
    let limit = query.limit()?;
    let after = Seq(query.number("after")?.unwrap_or(0));
    let list = server.with_sessions(None, move |sessions, _| {
        let head = sessions.session(id)?.state.head;
        let events = sessions.events(id, after, limit)?;
        let next = events.last().map(|last| last.seq).filter(|last| *last < head).map(|last| last.0);
        Ok(SessionEventList { events: events.iter().map(to_json).collect(), next })
    });
    Ok(answer::json(&list.await?))
}

fn to_json(event: &session::SessionEvent) -> Json {
    serde_json::to_value(event).unwrap_or_default()
}

/// The inputs that were given up, and nothing else.
pub(super) async fn dead_letters(server: &Arc<Server>, id: &str) -> Result<Response<AnswerBody>, Problem> {
    let id = parse_id(id)?;
    let list = server.with_sessions(None, move |sessions, _| {
        let dead = sessions.session(id)?.state.dead;
        let mut events = Vec::new();
        for seq in dead.iter().take(super::query::MAX_LIMIT) {
            let found = sessions.events(id, Seq(seq.0.saturating_sub(1)), 1)?;
            events.extend(found.iter().map(to_json));
        }
        Ok(SessionEventList { events, next: None })
    });
    Ok(answer::json(&list.await?))
}
