//! What is being worked on: the workers and their leases, the wakes that are queued, and the dead letters, over all sessions.

use std::sync::Arc;

use hyper::Response;
use schemars::JsonSchema;
use serde::Serialize;
use session::{ListFilter, ListedSession, PAGE_LIMIT, Session, Sessions};

use super::Server;
use super::answer::{self, AnswerBody};
use super::problem::Problem;
use crate::render::session::WorkerSummary;

/// The most entries of each list.
const MAX_ENTRIES: usize = 200;

/// The sessions that have something to report.
const WITH_WORK: ListFilter<'_> = ListFilter { agent: None, repository: None, status: None, has_work: true };

/// The work of all sessions.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct WorkReport {
    /// The time of the store's clock.
    pub now_ms: i64,
    /// By the time at which they end.
    pub leases: Vec<HeldLease>,
    /// By the time at which they are due.
    pub wakes: Vec<PlannedWake>,
    pub dead_letters: Vec<DeadLetterCount>,
}

/// The workers that wait for due sessions, those last seen first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerList {
    /// The time of the store's clock.
    pub now_ms: i64,
    pub workers: Vec<WorkerSummary>,
}

/// A session that a worker runs now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HeldLease {
    pub worker: String,
    pub session: String,
    pub agent: String,
    /// Until then no other worker claims the session.
    pub until_ms: i64,
}

/// A wake that is queued.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlannedWake {
    pub session: String,
    pub agent: String,
    pub due_ms: i64,
    pub reason: String,
}

/// The inputs that a session gave up.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeadLetterCount {
    pub session: String,
    pub agent: String,
    pub inputs: u64,
}

pub(super) async fn get(server: &Arc<Server>) -> Result<Response<AnswerBody>, Problem> {
    let report = server.with_sessions(None, |sessions, _| load(sessions));
    Ok(answer::json(&report.await?))
}

pub(super) async fn workers(server: &Arc<Server>) -> Result<Response<AnswerBody>, Problem> {
    let list = server.with_sessions(None, |sessions, _| {
        let workers = sessions.workers()?.into_iter().map(WorkerSummary::from).collect();
        Ok(WorkerList { now_ms: sessions.now()?.0, workers })
    });
    Ok(answer::json(&list.await?))
}

fn load(sessions: &mut Sessions) -> Result<WorkReport, Problem> {
    let mut report = WorkReport { now_ms: sessions.now()?.0, ..WorkReport::default() };
    let mut after = None;
    loop {
        let page = sessions.list_filtered(&WITH_WORK, after, PAGE_LIMIT)?;
        after = page.last().map(ListedSession::id);
        for listed in &page {
            if let ListedSession::Readable(session) = listed {
                report.add(session);
            }
        }
        report.shorten();
        if page.len() < PAGE_LIMIT {
            return Ok(report);
        }
    }
}

impl WorkReport {
    fn add(&mut self, session: &Session) {
        let Session { header, state, holder } = session;
        let id = header.id.to_string();
        let agent = &header.agent;
        self.leases.extend(holder.iter().map(|holder| HeldLease {
            worker: holder.owner.clone(),
            session: id.clone(),
            agent: agent.clone(),
            until_ms: holder.until_ms.0,
        }));
        self.wakes.extend(state.wakes.iter().map(|wake| PlannedWake {
            session: id.clone(),
            agent: agent.clone(),
            due_ms: wake.due_ms.0,
            reason: wake.reason.clone(),
        }));
        if !state.dead.is_empty() {
            let inputs = state.dead.len() as u64;
            self.dead_letters.push(DeadLetterCount { session: id, agent: agent.clone(), inputs });
        }
    }

    fn shorten(&mut self) {
        self.leases.sort_by_key(|lease| lease.until_ms);
        self.leases.truncate(MAX_ENTRIES);
        self.wakes.sort_by_key(|wake| wake.due_ms);
        self.wakes.truncate(MAX_ENTRIES);
        self.dead_letters.truncate(MAX_ENTRIES);
    }
}
