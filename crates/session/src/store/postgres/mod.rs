//! The store for several machines: a PostgreSQL server. A claim skips rows that another claim has locked. A writer that loses a
//! race decides again. Waiting connections get a notification of every change.

mod connect;
mod write;

use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::types::FromSql;
use postgres::{Config, Row, Statement};
use uuid::Uuid;

use self::connect::{PostgresConnection, at, migrate, parse};
use self::write::{INSERT_EVENTS, WRITE, insert_events, insert_learnings, insert_session, write};
use crate::log::event::SessionEvent;
use crate::log::header::SessionHeader;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seal::SealedEvent;
use crate::log::seq::Seq;
use crate::log::time::Timestamp;
use crate::store::rows::{self, SessionRow};
use crate::store::{
    DecideFn, EventClass, FoundSession, Session, SessionChange, SessionError, Store, StoreError, UpdateTarget,
};

/// How often a writer decides again because another one was faster. Each time that other one succeeded.
const MAX_RACES: usize = 1_000;

const IMPORT_BATCH: usize = 500;

/// The session, and those of the named events that it has: at least one row if the session exists.
const FIND: &str = "
    SELECT s.header, s.state, s.owner, s.held_until_ms, s.revision,
           e.seq, e.id, e.time_ms, e.wake_id, e.version, e.type, e.is_conversation, e.payload, e.checksum
    FROM fullsend.sessions s
    LEFT JOIN fullsend.events e ON e.session_id = s.id AND e.id = ANY($2)
    WHERE s.id = $1";

const EVENTS: &str = "
    SELECT seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum FROM fullsend.events
    WHERE session_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4";

const TAIL: &str = "
    SELECT seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum
    FROM (SELECT *, sum(octet_length(payload)) OVER (ORDER BY seq DESC) AS total
          FROM (SELECT * FROM fullsend.events
                WHERE session_id = $1 AND seq <= $2 AND is_conversation = $3
                ORDER BY seq DESC LIMIT $4) AS last) AS summed
    WHERE total <= $5 ORDER BY seq";

macro_rules! lane {
    ($condition:literal) => {
        concat!(
            "SELECT header, state, owner, held_until_ms, revision FROM fullsend.sessions WHERE ",
            $condition,
            " LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
    };
}

/// The lanes in order, each with its bound. Inputs are due at any time. A lease or a back-off that ends too far ahead is over
/// too.
const LANES: [(&str, Bound); 6] = [
    (lane!("again_ms <= $1 ORDER BY again_ms"), Bound::Now),
    (lane!("again_ms > $1 ORDER BY again_ms"), Bound::Horizon),
    (lane!("input_ms IS NOT NULL AND $1::bigint IS NOT NULL ORDER BY input_ms"), Bound::Now),
    (lane!("high_ms <= $1 ORDER BY high_ms"), Bound::Now),
    (lane!("normal_ms <= $1 ORDER BY normal_ms"), Bound::Now),
    (lane!("low_ms <= $1 ORDER BY low_ms"), Bound::Now),
];

enum Bound {
    Now,
    Horizon,
}

/// The first lane that is not empty. It locks nothing, because most searches find nothing.
const PEEK: &str = "
    SELECT CASE
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE again_ms <= $1) THEN 0
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE again_ms > $2) THEN 1
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE input_ms IS NOT NULL) THEN 2
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE high_ms <= $1) THEN 3
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE normal_ms <= $1) THEN 4
      WHEN EXISTS (SELECT FROM fullsend.sessions WHERE low_ms <= $1) THEN 5
    END";

const NEXT_DUE: &str = "
    SELECT least((SELECT min(again_ms) FROM fullsend.sessions WHERE again_ms > $1),
                 (SELECT min(high_ms) FROM fullsend.sessions WHERE high_ms > $1),
                 (SELECT min(normal_ms) FROM fullsend.sessions WHERE normal_ms > $1),
                 (SELECT min(low_ms) FROM fullsend.sessions WHERE low_ms > $1))";

pub struct PostgresStore {
    config: Config,
    connection: Option<PostgresConnection>,
    last: Option<Revised>,
}

/// The session that this connection wrote last. If its revision is still the same, the next write needs no read first.
struct Revised {
    session: Session,
    revision: i64,
}

impl PostgresStore {
    /// Connects, and migrates the tables. The address is `postgres://USER@HOST/DATABASE`.
    pub fn connect(url: &str) -> Result<Self, StoreError> {
        let config = parse(url)?;
        let mut connection = PostgresConnection::open(&config)?;
        migrate(&mut connection)?;
        Ok(Self { config, connection: Some(connection), last: None })
    }

    /// The connection, or a new one if it was closed. A failed call is not repeated here: the caller knows whether it may be.
    fn connection(&mut self) -> Result<&mut PostgresConnection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) if !connection.client.is_closed() => connection,
            _ => PostgresConnection::open(&self.config)?,
        };
        Ok(self.connection.insert(connection))
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
            let connection = self.connection()?;
            let find = connection.prepare(FIND)?;
            let rows = connection.client.query(&find, &[&id.0, &wanted]).map_err(at("find a session"))?;
            let Some(first) = rows.first() else { return Ok(false) };
            let revision: i64 = column(first, 4)?;
            let has_event = |row: &&Row| !matches!(row.try_get::<_, Option<i64>>(5), Ok(None));
            let events = rows.iter().filter(has_event).map(|row| read_event(row, 5, id));
            let events = events.collect::<Result<_, _>>()?;
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
        let Revised { session, revision } = last;
        let found = FoundSession { session, events: Vec::new() };
        match decide(&found) {
            Ok(Some(change)) => self.write_session(found.session, revision, change),
            Ok(None) | Err(_) => Ok(false),
        }
    }

    /// Writes with one statement, which is its own transaction. With learnings it uses an explicit transaction. Returns `false`
    /// if the decision must be made again.
    fn write_session(
        &mut self,
        session: Session,
        revision: i64,
        change: SessionChange,
    ) -> Result<bool, StoreError> {
        let connection = self.connection()?;
        let statement = connection.prepare(WRITE)?;
        let header = &session.header;
        let is_written = if change.learnings.is_empty() {
            write(&mut connection.client, &statement, header.id, revision, &change)?
        } else {
            let mut transaction = connection.client.transaction().map_err(at("commit"))?;
            let is_written = write(&mut transaction, &statement, header.id, revision, &change)?;
            if is_written {
                let SessionChange { learnings, learnings_kept, .. } = &change;
                insert_learnings(&mut transaction, &header.agent, learnings, *learnings_kept)?;
                transaction.commit().map_err(at("commit"))?;
            }
            is_written
        };
        if is_written {
            let SessionChange { state, holder, .. } = change;
            let session = Session { header: session.header, state, holder };
            self.last = Some(Revised { session, revision: revision + 1 });
        }
        Ok(is_written)
    }

    fn update_due(
        &mut self,
        now: Timestamp,
        horizon_ms: u64,
        decide: &mut DecideFn<'_>,
    ) -> Result<bool, SessionError> {
        let horizon = now.plus_ms(horizon_ms);
        let connection = self.connection()?;
        let peek = connection.prepare(PEEK)?;
        let write_statement = connection.prepare(WRITE)?;
        let lanes = LANES.iter().map(|(sql, _)| connection.prepare(sql));
        let lanes: Vec<Statement> = lanes.collect::<Result<_, _>>()?;
        let step = "find a due session";
        let first = connection.client.query_one(&peek, &[&now.0, &horizon.0]).map_err(at(step))?;
        let Some(first) = column::<Option<i32>>(&first, 0)? else { return Ok(false) };
        let mut transaction = connection.client.transaction().map_err(at(step))?;
        let first = usize::try_from(first).unwrap_or(0);
        for (lane, (_, bound)) in lanes.iter().zip(&LANES).skip(first) {
            let bound = match bound {
                Bound::Now => now.0,
                Bound::Horizon => horizon.0,
            };
            let Some(row) = transaction.query_opt(lane, &[&bound]).map_err(at(step))? else { continue };
            let found = FoundSession { session: read_session(&row)?, events: Vec::new() };
            let Some(change) = decide(&found)? else { return Ok(true) };
            let id = found.session.header.id;
            let written = write(&mut transaction, &write_statement, id, column(&row, 4)?, &change)?;
            if !written {
                // The row is locked, so this needs a writer that ignores the lock. Deciding again is safe.
                return Err(StoreError::Busy { step: "write a session that another writer changed" }.into());
            }
            transaction.commit().map_err(at("commit"))?;
            return Ok(true);
        }
        Ok(false)
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
        let connection = self.connection()?;
        let find = connection.prepare(FIND)?;
        let none: Vec<Uuid> = Vec::new();
        let row = connection.client.query_opt(&find, &[&id.0, &none]).map_err(at("find a session"))?;
        row.as_ref().map(read_session).transpose()
    }

    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let sql = "SELECT header, state, owner, held_until_ms FROM fullsend.sessions
                   WHERE id > $1 AND ($2::text IS NULL OR agent = $2) ORDER BY id LIMIT $3";
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let client = &mut self.connection()?.client;
        let rows = client.query(sql, &[&after, &agent, &rows::count(limit)]).map_err(at("list sessions"))?;
        rows.iter().map(read_session).collect()
    }

    fn update(&mut self, target: UpdateTarget<'_>, decide: &mut DecideFn<'_>) -> Result<bool, SessionError> {
        match target {
            UpdateTarget::Session { id, events } => {
                let wanted: Vec<Uuid> = events.iter().map(|event| event.0).collect();
                self.update_session(id, &wanted, decide)
            }
            UpdateTarget::Due { now, horizon_ms } => self.update_due(now, horizon_ms, decide),
        }
    }

    fn events(
        &mut self,
        id: SessionId,
        after: Seq,
        through: Seq,
        limit: usize,
    ) -> Result<Vec<SessionEvent>, StoreError> {
        let connection = self.connection()?;
        let statement = connection.prepare(EVENTS)?;
        let bounds: [&(dyn postgres::types::ToSql + Sync); 4] =
            [&id.0, &rows::seq(after), &rows::seq(through), &rows::count(limit)];
        let found = connection.client.query(&statement, &bounds).map_err(at("read events"))?;
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
        let connection = self.connection()?;
        let statement = connection.prepare(TAIL)?;
        let is_conversation = part == EventClass::Conversation;
        let bounds: [&(dyn postgres::types::ToSql + Sync); 5] =
            [&id.0, &rows::seq(through), &is_conversation, &rows::count(limit), &rows::count(bytes)];
        let found = connection.client.query(&statement, &bounds).map_err(at("read events"))?;
        found.iter().map(|row| read_event(row, 0, id)).collect()
    }

    fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, StoreError> {
        let connection = self.connection()?;
        let statement = connection
            .prepare("SELECT name, content FROM fullsend.memory WHERE session_id = $1 ORDER BY name")?;
        let found = connection.client.query(&statement, &[&id.0]).map_err(at("read memory files"))?;
        found.iter().map(|row| rows::memory_file(id, column(row, 0)?, column(row, 1)?)).collect()
    }

    fn learnings(&mut self, agent: &str, limit: usize) -> Result<Vec<StoredLearning>, StoreError> {
        let connection = self.connection()?;
        let sql = "SELECT learning FROM fullsend.learnings WHERE agent = $1 ORDER BY number DESC LIMIT $2";
        let statement = connection.prepare(sql)?;
        let found = connection.client.query(&statement, &[&agent, &rows::count(limit)]);
        found.map_err(at("read learnings"))?.iter().map(|row| rows::learning(column(row, 0)?)).collect()
    }

    fn next_due(&mut self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let connection = self.connection()?;
        let statement = connection.prepare(NEXT_DUE)?;
        let row = connection.client.query_one(&statement, &[&now.0]).map_err(at("find the next wake"))?;
        Ok(column::<Option<i64>>(&row, 0)?.map(Timestamp))
    }

    fn import(
        &mut self,
        header: &SessionHeader,
        events: &mut dyn Iterator<Item = Result<SessionEvent, SessionError>>,
        finish: &mut dyn FnMut() -> Result<SessionChange, SessionError>,
    ) -> Result<bool, SessionError> {
        let connection = self.connection()?;
        let insert = connection.prepare(INSERT_EVENTS)?;
        let write_statement = connection.prepare(WRITE)?;
        let mut transaction = connection.client.transaction().map_err(at("import a session"))?;
        if !insert_session(&mut transaction, header)? {
            return Ok(false);
        }
        loop {
            let batch: Vec<SessionEvent> = events.take(IMPORT_BATCH).collect::<Result<_, _>>()?;
            if batch.is_empty() {
                break;
            }
            insert_events(&mut transaction, &insert, header.id, &batch)?;
        }
        let change = finish()?;
        write(&mut transaction, &write_statement, header.id, 0, &change)?;
        insert_learnings(&mut transaction, &header.agent, &change.learnings, change.learnings_kept)?;
        transaction.commit().map_err(at("import a session"))?;
        Ok(true)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), StoreError> {
        let connection = self.connection()?;
        if !connection.is_listening {
            connection.client.batch_execute("LISTEN fullsend_sessions").map_err(at("wait"))?;
            connection.is_listening = true;
            // The store may have changed before LISTEN, so the caller looks again.
            return Ok(());
        }
        let mut notifications = connection.client.notifications();
        notifications.timeout_iter(timeout).next().map_err(at("wait"))?;
        // One search serves all notifications that have arrived.
        while notifications.iter().next().map_err(at("wait"))?.is_some() {}
        Ok(())
    }
}

fn read_session(row: &Row) -> Result<Session, StoreError> {
    let columns = SessionRow {
        header: column(row, 0)?,
        state: column(row, 1)?,
        owner: column(row, 2)?,
        held_until_ms: column(row, 3)?,
    };
    columns.decode()
}

/// A column of a row. A value of another type is damage.
fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| StoreError::Corrupt { session: None, what: error.to_string() })
}

fn read_event(row: &Row, first: usize, session: SessionId) -> Result<SessionEvent, StoreError> {
    let sealed = SealedEvent {
        seq: column(row, first)?,
        id: column(row, first + 1)?,
        time_ms: column(row, first + 2)?,
        wake_id: column(row, first + 3)?,
        version: column(row, first + 4)?,
        kind: column(row, first + 5)?,
        is_conversation: column(row, first + 6)?,
        payload: column(row, first + 7)?,
        checksum: column(row, first + 8)?,
    };
    rows::open(session, &sealed)
}
