//! The store for several machines: a PostgreSQL server. A claim skips rows that another claim has locked. A writer that
//! loses a race decides again. Waiting threads get a notification if a write may start a wake or stop a run.

mod address;
mod children;
mod client;
mod connect;
mod decode;
mod pool;
mod queries;
mod tls;
mod workers;
mod write;

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

pub use self::address::PostgresOptions;
use self::children::write_children;
use self::client::{BlockingClient, SqlValue};
use self::connect::{PostgresConnection, at, migrate};
use self::decode::{column, read_event, read_session, session_row};
use self::pool::{Pool, PooledConnection};
use self::queries::{
    Bound, CLAIM_LANES, COUNT_DUE, EVENTS, FIND, FIND_IDS, LANES, LIST, MARK_UNREADABLE, PEEK, PUT_OBJECT,
    REMOVE, SURVEY, TAIL,
};
use self::write::{insert_events, insert_learnings, insert_session, write};
use crate::log::digest::Sha256Digest;
use crate::log::event::SessionEvent;
use crate::log::header::SessionHeader;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seq::Seq;
use crate::log::state::SessionState;
use crate::log::status::SessionStatus;
use crate::log::time::Timestamp;
use crate::store::rows;
use crate::store::{
    ClaimFilter, DecideFn, EventClass, FoundSession, ListFilter, ListedSession, Session, SessionChange,
    SessionError, Store, StoreError, StoreSurvey, StoredObject, StoredWorker, UpdateTarget, WaitFor,
};

/// The payload of a notification that a session may be due. The payload of an interrupt is the session's id.
const DUE: &str = "";

/// How often a writer decides again because another one was faster. Each time that other one succeeded.
const MAX_RACES: usize = 1_000;

const IMPORT_BATCH: usize = 500;

/// How often a reader that follows a log looks for new events. Not every event is notified.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

pub struct PostgresStore {
    pool: Arc<Pool>,
    /// The number of the last notification that this store has seen.
    seen: Option<u64>,
    last: Option<LastWrite>,
}

/// The session that this store wrote last. If its revision is still the same, the next write needs no read first.
struct LastWrite {
    session: Session,
    revision: i64,
}

impl PostgresStore {
    /// Connects without variables and names. The address is `postgres://USER@HOST/DATABASE`.
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        Self::open(url, &PostgresOptions::default())
    }

    /// Connects, and migrates the tables if that is needed and allowed.
    pub fn open(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        let pool = Pool::of(url, options)?;
        pool.check()?;
        Ok(Self { pool, seen: None, last: None })
    }

    /// Brings the tables of a database to the version of this program.
    pub fn migrate(url: &str, options: &PostgresOptions) -> Result<(), StoreError> {
        migrate(&mut Pool::of(url, options)?.take()?.client)
    }

    fn connection(&self) -> Result<PooledConnection, StoreError> {
        self.pool.take()
    }

    fn update_session(
        &mut self,
        id: SessionId,
        wanted: &[Uuid],
        decide: &mut DecideFn<'_>,
    ) -> Result<bool, SessionError> {
        if self.update_last(id, decide)? {
            return Ok(true);
        }
        for _ in 0..MAX_RACES {
            let mut connection = self.connection()?;
            let rows = connection.client.query(FIND, &[&id.0, &wanted]).map_err(at("find a session"))?;
            let Some(first) = rows.first() else { return Ok(false) };
            let revision: i64 = column(first, 4)?;
            let has_event = |row: &&Row| !matches!(row.try_get::<_, Option<i64>>(5), Ok(None));
            let events = rows.iter().filter(has_event).map(|row| read_event(row, 5, id));
            let events = events.collect::<Result<_, _>>()?;
            // The write takes a connection of its own.
            drop(connection);
            let found = FoundSession { session: read_session(first)?, events };
            let Some(change) = decide(&found)? else { return Ok(true) };
            if self.write_session(found.session, revision, change)? {
                return Ok(true);
            }
        }
        Err(StoreError::Busy { step: "write a session that other writers change all the time" }.into())
    }

    /// Decides with the session that was written last. Returns `false` if the decision must be made again with a fresh read:
    /// the revision changed, the session already has one of the events, or the decision is a refusal.
    fn update_last(&mut self, id: SessionId, decide: &mut DecideFn<'_>) -> Result<bool, StoreError> {
        let Some(last) = self.last.take().filter(|last| last.session.header.id == id) else {
            return Ok(false);
        };
        let LastWrite { session, revision } = last;
        let found = FoundSession { session, events: Vec::new() };
        match decide(&found) {
            Ok(Some(change)) => self.write_session(found.session, revision, change),
            Ok(None) | Err(_) => Ok(false),
        }
    }

    /// Writes with one statement, which is its own transaction. With learnings, or with effects on other sessions, it uses an
    /// explicit transaction. Returns `false` if the decision must be made again.
    fn write_session(
        &mut self,
        session: Session,
        revision: i64,
        change: SessionChange,
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection()?;
        let header = &session.header;
        let is_written = if change.learnings.is_empty() && change.children.is_empty() {
            write(&mut connection.client, &session, revision, &change)?
        } else {
            let mut transaction = connection.client.transaction().map_err(at("commit"))?;
            let is_written = write(&mut transaction, &session, revision, &change)?;
            if is_written {
                let SessionChange { learnings, learnings_kept, .. } = &change;
                insert_learnings(&mut transaction, header, learnings, *learnings_kept)?;
                write_children(&mut transaction, &change.children)?;
                transaction.commit().map_err(at("commit"))?;
            }
            is_written
        };
        if is_written {
            let SessionChange { state, holder, .. } = change;
            let session = Session { header: session.header, state, holder };
            self.last = Some(LastWrite { session, revision: revision + 1 });
        }
        Ok(is_written)
    }

    /// The first row of the lanes that can be read. One that cannot be read is marked and skipped.
    fn first_due(
        client: &mut BlockingClient,
        lanes: &[(&'static str, Bound)],
        now: Timestamp,
        horizon_ms: u64,
        filter: &ClaimFilter,
    ) -> Result<Option<(Session, i64)>, StoreError> {
        let step = "find a due session";
        let ClaimFilter { repository, repository_prefixes, agent, labels, skip } = filter;
        let mut skip: Vec<Uuid> = skip.iter().map(|id| id.0).collect();
        for (statement, bound) in lanes {
            let bound = match bound {
                Bound::Now => now.0,
                Bound::Horizon => now.plus_ms(horizon_ms).0,
            };
            loop {
                let values: [&dyn SqlValue; 7] =
                    [&bound, &rows::state_version(), repository, agent, &skip, labels, repository_prefixes];
                let Some(row) = client.query_opt(statement, &values).map_err(at(step))? else { break };
                match read_session(&row) {
                    Err(StoreError::Corrupt { .. }) => {
                        let id: Uuid = column(&row, 5)?;
                        client.execute(MARK_UNREADABLE, &[&id, &rows::state_version()]).map_err(at(step))?;
                        skip.push(id);
                    }
                    found => return Ok(Some((found?, column(&row, 4)?))),
                }
            }
        }
        Ok(None)
    }

    fn update_due(
        &mut self,
        now: Timestamp,
        horizon_ms: u64,
        filter: &ClaimFilter,
        decide: &mut DecideFn<'_>,
    ) -> Result<bool, SessionError> {
        let mut connection = self.connection()?;
        let Some(first) = first_lane(&mut connection, now, horizon_ms)? else { return Ok(false) };
        let lanes = &CLAIM_LANES[first..];
        let mut transaction = connection.client.transaction().map_err(at("find a due session"))?;
        let found = Self::first_due(&mut transaction, lanes, now, horizon_ms, filter)?;
        let Some((session, revision)) = found else {
            transaction.commit().map_err(at("commit"))?;
            return Ok(false);
        };
        let found = FoundSession { session, events: Vec::new() };
        let Some(change) = decide(&found)? else { return Ok(true) };
        if !write(&mut transaction, &found.session, revision, &change)? {
            // The row is locked, so this needs a writer that ignores the lock. Deciding again is safe.
            return Err(StoreError::Busy { step: "write a session that another writer changed" }.into());
        }
        write_children(&mut transaction, &change.children)?;
        transaction.commit().map_err(at("commit"))?;
        Ok(true)
    }
}

impl Store for PostgresStore {
    fn now(&mut self) -> Result<Timestamp, StoreError> {
        let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let row = self.connection()?.client.query_one(sql, &[]).map_err(at("read its clock"))?;
        Ok(Timestamp(column(&row, 0)?))
    }

    fn create(&mut self, header: &SessionHeader) -> Result<bool, StoreError> {
        insert_session(&mut self.connection()?.client, header)
    }

    fn load(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        let mut connection = self.connection()?;
        let none: Vec<Uuid> = Vec::new();
        let row = connection.client.query_opt(FIND, &[&id.0, &none]).map_err(at("find a session"))?;
        row.as_ref().map(read_session).transpose()
    }

    fn list(
        &mut self,
        filter: &ListFilter<'_>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<ListedSession>, StoreError> {
        let ListFilter { agent, repository, status, has_work } = filter;
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let status = status.map(SessionStatus::word);
        let values: [&dyn SqlValue; 6] = [&after, &rows::count(limit), agent, repository, &status, has_work];
        let mut connection = self.connection()?;
        let rows = connection.client.query(LIST, &values).map_err(at("list sessions"))?;
        rows.iter().map(|row| Ok(rows::list_entry(column(row, 4)?, session_row(row)?))).collect()
    }

    fn find_due(
        &mut self,
        now: Timestamp,
        horizon_ms: u64,
        filter: &ClaimFilter,
    ) -> Result<Option<Session>, StoreError> {
        let mut connection = self.connection()?;
        let Some(first) = first_lane(&mut connection, now, horizon_ms)? else { return Ok(None) };
        let lanes = &LANES[first..];
        let found = Self::first_due(&mut connection.client, lanes, now, horizon_ms, filter)?;
        Ok(found.map(|(session, _)| session))
    }

    fn mark_unreadable(&mut self, id: SessionId) -> Result<(), StoreError> {
        let mut connection = self.connection()?;
        let client = &mut connection.client;
        let marked = client.execute(MARK_UNREADABLE, &[&id.0, &rows::state_version()]);
        marked.map(drop).map_err(at("mark a session as unreadable"))
    }

    fn last_seq(&mut self, id: SessionId) -> Result<Seq, StoreError> {
        let mut connection = self.connection()?;
        let sql = "SELECT max(seq) FROM fullsend.events WHERE session_id = $1";
        let row = connection.client.query_one(sql, &[&id.0]).map_err(at("read events"))?;
        let last = column::<Option<i64>>(&row, 0)?;
        Ok(Seq(last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0)))
    }

    fn update(&mut self, target: UpdateTarget<'_>, decide: &mut DecideFn<'_>) -> Result<bool, SessionError> {
        match target {
            UpdateTarget::Session { id, events } => {
                let wanted: Vec<Uuid> = events.iter().map(|event| event.0).collect();
                self.update_session(id, &wanted, decide)
            }
            UpdateTarget::Due { now, horizon_ms, filter } => self.update_due(now, horizon_ms, filter, decide),
        }
    }

    fn events(
        &mut self,
        id: SessionId,
        after: Seq,
        through: Seq,
        limit: usize,
    ) -> Result<Vec<SessionEvent>, StoreError> {
        let mut connection = self.connection()?;
        let bounds: [&dyn SqlValue; 4] = [&id.0, &rows::seq(after), &rows::seq(through), &rows::count(limit)];
        let found = connection.client.query(EVENTS, &bounds).map_err(at("read events"))?;
        let events: Vec<SessionEvent> =
            found.iter().map(|row| read_event(row, 0, id)).collect::<Result<_, _>>()?;
        rows::check_dense(id, after, &events)?;
        Ok(events)
    }

    fn tail(
        &mut self,
        id: SessionId,
        part: EventClass,
        through: Seq,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<SessionEvent>, StoreError> {
        let mut connection = self.connection()?;
        let is_conversation = part == EventClass::Conversation;
        let bounds: [&dyn SqlValue; 5] =
            [&id.0, &rows::seq(through), &is_conversation, &rows::count(limit), &rows::count(bytes)];
        let found = connection.client.query(TAIL, &bounds).map_err(at("read events"))?;
        found.iter().map(|row| read_event(row, 0, id)).collect()
    }

    fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, StoreError> {
        let mut connection = self.connection()?;
        let sql = "SELECT name, content FROM fullsend.memory WHERE session_id = $1 ORDER BY name";
        let found = connection.client.query(sql, &[&id.0]).map_err(at("read memory files"))?;
        found.iter().map(|row| rows::memory_file(id, column(row, 0)?, column(row, 1)?)).collect()
    }

    fn learnings(
        &mut self,
        repository: Option<&str>,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<StoredLearning>, StoreError> {
        let mut connection = self.connection()?;
        let sql = "SELECT learning FROM fullsend.learnings WHERE repository = $1 AND agent = $2
                   ORDER BY number DESC LIMIT $3";
        let found =
            connection.client.query(sql, &[&repository.unwrap_or_default(), &agent, &rows::count(limit)]);
        found.map_err(at("read learnings"))?.iter().map(|row| rows::learning(column(row, 0)?)).collect()
    }

    fn survey(&mut self, horizon_ms: u64) -> Result<StoreSurvey, StoreError> {
        let mut connection = self.connection()?;
        let horizon = i64::try_from(horizon_ms).unwrap_or(i64::MAX);
        let row = connection.client.query_one(SURVEY, &[&horizon]).map_err(at("find due sessions"))?;
        Ok(StoreSurvey {
            now: Timestamp(column(&row, 0)?),
            is_due: column(&row, 1)?,
            next_due: column::<Option<i64>>(&row, 2)?.map(Timestamp),
        })
    }

    fn count_due(&mut self, horizon_ms: u64) -> Result<u64, StoreError> {
        let mut connection = self.connection()?;
        let horizon = i64::try_from(horizon_ms).unwrap_or(i64::MAX);
        let values: [&dyn SqlValue; 2] = [&horizon, &rows::state_version()];
        let row = connection.client.query_one(COUNT_DUE, &values).map_err(at("count due sessions"))?;
        Ok(u64::try_from(column::<i64>(&row, 0)?).unwrap_or(0))
    }

    fn find_ids(&mut self, part: &str, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let mut connection = self.connection()?;
        let (first, last) = rows::ids_with_start(part);
        let values: [&dyn SqlValue; 4] = [&part, &rows::count(limit), &first, &last];
        let found = connection.client.query(FIND_IDS, &values);
        found.map_err(at("find a session"))?.iter().map(|row| Ok(SessionId(column(row, 0)?))).collect()
    }

    fn remove(&mut self, id: SessionId, head: Seq) -> Result<bool, StoreError> {
        self.last = None;
        let mut connection = self.connection()?;
        let removed = connection.client.query(REMOVE, &[&id.0, &rows::seq(head)]);
        Ok(!removed.map_err(at("remove a session"))?.is_empty())
    }

    fn put_object(&mut self, id: SessionId, object: &StoredObject) -> Result<bool, StoreError> {
        let StoredObject { name, digest, content } = object;
        let mut connection = self.connection()?;
        let row: [&dyn SqlValue; 4] = [&id.0, name, &digest.0.to_vec(), content];
        Ok(connection.client.execute(PUT_OBJECT, &row).map_err(at("write an object"))? == 1)
    }

    fn object(&mut self, id: SessionId, name: &str) -> Result<Option<StoredObject>, StoreError> {
        let mut connection = self.connection()?;
        let sql = "SELECT digest, content FROM fullsend.objects WHERE session_id = $1 AND name = $2";
        let found = connection.client.query_opt(sql, &[&id.0, &name]).map_err(at("read an object"))?;
        let object =
            |row: Row| rows::object(id, name.to_owned(), column::<&[u8]>(&row, 0)?, column(&row, 1)?);
        found.map(object).transpose()
    }

    fn objects(&mut self, id: SessionId) -> Result<Vec<(String, Sha256Digest)>, StoreError> {
        let mut connection = self.connection()?;
        let sql = "SELECT name, digest FROM fullsend.objects WHERE session_id = $1 ORDER BY name";
        let found = connection.client.query(sql, &[&id.0]).map_err(at("list objects"))?;
        found
            .iter()
            .map(|row| {
                let name: String = column(row, 0)?;
                let digest = rows::object_digest(id, &name, column(row, 1)?)?;
                Ok((name, digest))
            })
            .collect()
    }

    fn remove_object(&mut self, id: SessionId, name: &str) -> Result<(), StoreError> {
        let mut connection = self.connection()?;
        let sql = "DELETE FROM fullsend.objects WHERE session_id = $1 AND name = $2";
        connection.client.execute(sql, &[&id.0, &name]).map(drop).map_err(at("remove an object"))
    }

    fn import(
        &mut self,
        header: &SessionHeader,
        events: &mut dyn Iterator<Item = Result<SessionEvent, SessionError>>,
        finish: &mut dyn FnMut() -> Result<SessionChange, SessionError>,
    ) -> Result<bool, SessionError> {
        let mut connection = self.connection()?;
        let mut transaction = connection.client.transaction().map_err(at("import a session"))?;
        if !insert_session(&mut transaction, header)? {
            return Ok(false);
        }
        loop {
            let batch: Vec<SessionEvent> = events.take(IMPORT_BATCH).collect::<Result<_, _>>()?;
            if batch.is_empty() {
                break;
            }
            insert_events(&mut transaction, header.id, &batch)?;
        }
        let change = finish()?;
        let empty = Session { header: header.clone(), state: SessionState::default(), holder: None };
        write(&mut transaction, &empty, 0, &change)?;
        insert_learnings(&mut transaction, header, &change.learnings, change.learnings_kept)?;
        transaction.commit().map_err(at("import a session"))?;
        Ok(true)
    }

    fn put_worker(&mut self, worker: &StoredWorker, forgotten: Timestamp) -> Result<(), StoreError> {
        workers::put(&mut self.connection()?.client, worker, forgotten)
    }

    fn remove_worker(&mut self, name: &str) -> Result<(), StoreError> {
        workers::remove(&mut self.connection()?.client, name)
    }

    fn workers(&mut self, limit: usize) -> Result<Vec<StoredWorker>, StoreError> {
        workers::list(&mut self.connection()?.client, limit)
    }

    fn wait(&mut self, what: WaitFor, timeout: Duration) -> Result<bool, StoreError> {
        // The first call has nothing to compare with, so the caller looks again.
        let Some(seen) = &mut self.seen else {
            self.seen = Some(self.pool.last_notification());
            return Ok(true);
        };
        match what {
            WaitFor::Due => self.pool.wait(seen, &|payload| payload == DUE, timeout),
            WaitFor::Interrupt(id) => {
                let interrupt = id.to_string();
                self.pool.wait(seen, &|payload| payload == interrupt, timeout)
            }
            WaitFor::Events => {
                self.pool.wait(seen, &|_| true, timeout.min(FOLLOW_INTERVAL))?;
                Ok(true)
            }
        }
    }
}

fn first_lane(
    connection: &mut PostgresConnection,
    now: Timestamp,
    horizon_ms: u64,
) -> Result<Option<usize>, StoreError> {
    let horizon = now.plus_ms(horizon_ms);
    let row = connection.client.query_one(PEEK, &[&now.0, &horizon.0]).map_err(at("find a due session"))?;
    Ok(column::<Option<i32>>(&row, 0)?.and_then(|lane| usize::try_from(lane).ok()))
}
