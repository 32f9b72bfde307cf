//! The runs on disk as answers: lists, records, pages and events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Server;
use super::actions::Action;
use super::answer::{self, AnswerBody};
use super::log_tail::LogTail;
use super::problem::Problem;
use super::query::Query;
use crate::event::Envelope;
use crate::event::outcome::{EndCause, OutcomeKind};
use crate::record::page::RunPage;
use crate::record::store::{self, StoredRun};
use crate::run::cancel_request;

/// How many runs one request with a filter looks at.
const MAX_LOOKED_AT: usize = 2000;

/// The most bytes of one answer with events.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// How long a runner may take to answer a cancellation.
const MAX_CANCEL_TIME: Duration = Duration::from_secs(20);
const CANCEL_TICK: Duration = Duration::from_millis(50);

/// One page of the list of runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunList {
    pub runs: Vec<RunSummary>,
    /// The cursor of the next page; absent at the end.
    pub next: Option<String>,
}

/// One run in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunSummary {
    pub id: String,
    pub owner: String,
    pub harness: String,
    pub runtime: String,
    /// Absent while the run is running.
    pub outcome: Option<OutcomeKind>,
    pub started: String,
    pub finished: Option<String>,
    pub duration_ms: Option<u64>,
    pub usd: Option<f64>,
    pub findings: u64,
    pub refused: u64,
}

impl RunSummary {
    pub(super) fn load(run: &StoredRun) -> Self {
        let record = run.written_record().unwrap_or_default();
        Self {
            id: run.id.clone(),
            owner: run.owner.clone(),
            outcome: record.outcome,
            duration_ms: record.duration_ms(),
            usd: record.usd(),
            findings: record.findings.values().sum(),
            refused: record.egress.get("denied").copied().unwrap_or(0)
                + record.attempts.iter().map(|attempt| attempt.denied_calls).sum::<u64>(),
            harness: record.harness,
            runtime: record.runtime,
            started: record.started,
            finished: record.finished,
        }
    }

    pub(super) fn outcome_word(&self) -> &'static str {
        self.outcome.map_or(RUNNING, OutcomeKind::as_str)
    }
}

/// Shown instead of an outcome while the run is running.
pub(super) const RUNNING: &str = "running";

/// A part of a run's log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventList {
    pub events: Vec<Envelope>,
    /// The number after which the next page begins; absent at the end.
    pub next: Option<u64>,
}

/// A list of runs as it was asked for.
struct RunQuery {
    limit: usize,
    after: Option<String>,
    harness: Option<String>,
    outcome: Option<String>,
}

impl RunQuery {
    fn parse(text: &str) -> Result<Self, Problem> {
        let query = Query::parse(text)?;
        let own = |name: &str| query.value(name).map(str::to_owned);
        let asked = Self {
            limit: query.limit()?,
            after: own("cursor"),
            harness: own("harness"),
            outcome: own("outcome"),
        };
        if asked.after.as_deref().is_some_and(|cursor| !is_id(cursor)) {
            return Err(Problem::bad_request("`cursor` must be `next` of the page before"));
        }
        let known = |word: &str| {
            word == RUNNING || EndCause::ALL.iter().any(|cause| cause.outcome().as_str() == word)
        };
        if asked.outcome.as_deref().is_some_and(|word| !known(word)) {
            return Err(Problem::bad_request("`outcome` must be an outcome of a run, or `running`"));
        }
        Ok(asked)
    }

    fn fits(&self, run: &RunSummary) -> bool {
        self.harness.as_ref().is_none_or(|wanted| *wanted == run.harness)
            && self.outcome.as_ref().is_none_or(|wanted| wanted == run.outcome_word())
    }

    fn page(&self, mut all: Vec<StoredRun>) -> RunList {
        all.reverse();
        let start = self.after.as_ref().map_or(0, |after| all.partition_point(|run| run.id >= *after));
        let mut list = RunList { runs: Vec::new(), next: None };
        for run in all.iter().skip(start).take(MAX_LOOKED_AT) {
            if list.runs.len() == self.limit {
                break;
            }
            list.next = Some(run.id.clone());
            let summary = RunSummary::load(run);
            if self.fits(&summary) {
                list.runs.push(summary);
            }
        }
        if list.next.as_ref() == all.last().map(|run| &run.id) {
            list.next = None;
        }
        list
    }
}

pub(super) async fn list(server: &Arc<Server>, query: &str) -> Result<Response<AnswerBody>, Problem> {
    let asked = RunQuery::parse(query)?;
    let list = server.blocking(move |server| Ok(asked.page(store::all(&server.runs)))).await?;
    Ok(answer::json(&list))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {}

/// A run that is shutting down.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CancelledRun {
    pub id: String,
}

/// Asks the runner to cancel its run, wherever it was started, and waits until the runner has taken the request.
pub(super) async fn cancel(
    action: &Action<'_>,
    id: &str,
    _body: CancelBody,
) -> Result<Response<AnswerBody>, Problem> {
    let name = id.to_owned();
    let by = action.caller.name.clone();
    let asked = action.server.blocking(move |server| {
        let run = find(server, &name)?;
        if !run.is_alive().map_err(unreadable)? {
            return Err(Problem::refused("the run has ended"));
        }
        cancel_request::ask(&run.path, &by).map_err(unreadable)?;
        Ok(run)
    });
    let run = asked.await?;
    let deadline = Instant::now() + MAX_CANCEL_TIME;
    while cancel_request::is_waiting(&run.path) {
        let is_over = Instant::now() > deadline || matches!(run.is_alive(), Ok(false));
        if is_over && cancel_request::take_back(&run.path) {
            let why = "the runner does not answer: the run has just ended, or it belongs to a session, which can be interrupted";
            return Err(Problem::refused(why));
        }
        tokio::time::sleep(CANCEL_TICK).await;
    }
    Ok(answer::accepted(&CancelledRun { id: id.to_owned() }))
}

/// An id is written in full: no prefix, no `latest`, no part of a path.
pub(super) fn find(server: &Server, id: &str) -> Result<StoredRun, Problem> {
    let found = Some(id).filter(|id| is_id(id)).and_then(|id| store::with_id(&server.runs, id));
    found.ok_or_else(|| Problem::not_found("no run has this id"))
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn unreadable(error: impl std::fmt::Display) -> Problem {
    Problem::unreadable(error.to_string())
}

pub(super) async fn get(server: &Arc<Server>, id: &str) -> Result<Response<AnswerBody>, Problem> {
    let id = id.to_owned();
    let record = server.blocking(move |server| find(server, &id)?.record().map_err(unreadable)).await?;
    Ok(answer::json(&record))
}

pub(super) async fn page(server: &Arc<Server>, id: &str) -> Result<Response<AnswerBody>, Problem> {
    let id = id.to_owned();
    let page = server.blocking(move |server| RunPage::load(&find(server, &id)?).map_err(unreadable)).await?;
    Ok(answer::json(&page))
}

pub(super) async fn events(
    server: &Arc<Server>,
    id: &str,
    query: &str,
) -> Result<Response<AnswerBody>, Problem> {
    let query = Query::parse(query)?;
    let limit = query.limit()?;
    let after = query.number("after")?.unwrap_or(0);
    let id = id.to_owned();
    let list = server.blocking(move |server| {
        let mut tail = LogTail::new(find(server, &id)?.log(), after);
        let mut part = tail.read(limit + 1, MAX_EVENT_BYTES).map_err(unreadable)?;
        let has_more = part.lines.len() > limit || part.has_more;
        part.lines.truncate(limit);
        let events: Vec<Envelope> = part.lines.into_iter().map(|line| line.envelope).collect();
        let next = events.last().map(|last| last.seq).filter(|_| has_more);
        Ok(EventList { events, next })
    });
    Ok(answer::json(&list.await?))
}
