//! The embedded store: one SQLite file, a write-ahead log, and a disk that has confirmed every commit before anybody
//! hears of it. Several processes on one machine may use the same file.

mod read;
mod write;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use self::read::{find, find_due, find_session, read_events, read_session};
use self::write::{insert_event, insert_session, write};
use super::{Change, Decide, Error, Part, Session, Store, StoreError, Target, rows};
use crate::event::Event;
use crate::header::Header;
use crate::id::SessionId;
use crate::learning::StoredLearning;
use crate::memory::MemoryFile;
use crate::moment::Timestamp;
use crate::sequence::Seq;

/// What brings an empty file, or one of an earlier version, to the present form, in order.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];

/// How long one writer waits for another.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a waiting reader looks for changes of others.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const SESSION_COLUMNS: &str = "header, state, owner, held_until_ms";
const EVENT_COLUMNS: &str = "seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum";

/// Called with the name of each step of a write, so that a test can stop a process there.
pub type Probe = fn(&'static str);

pub struct SqliteStore {
    connection: Connection,
    probe: Probe,
    seen_version: Option<i64>,
}

impl SqliteStore {
    /// Opens the file, or makes it, readable by its owner only.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let what = |error| format!("{}: cannot be opened as a session store: {error}", path.display());
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| StoreError::Location { what: what(error) })?;
        let mut connection = Connection::open(path).map_err(at("open"))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(at("open"))?;
        connection.set_prepared_statement_cache_capacity(64);
        settle(&connection)?;
        migrate(&mut connection)?;
        Ok(Self { connection, probe: |_| {}, seen_version: None })
    }

    #[must_use]
    pub fn with_probe(self, probe: Probe) -> Self {
        Self { probe, ..self }
    }

    /// The connection itself, for those who measure or inspect it.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at("begin a write"))
    }
}

/// Tells a connection how to work. Of several that turn a new file to the write-ahead log at once, SQLite refuses all but one
/// without waiting: they could wait for each other.
fn settle(connection: &Connection) -> Result<(), StoreError> {
    // FULL: in the write-ahead log, NORMAL would lose commits that were acknowledged before a power cut.
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
    let start = Instant::now();
    loop {
        match connection.execute_batch(pragmas).map_err(at("open")) {
            Err(StoreError::Busy { .. }) if start.elapsed() < BUSY_TIMEOUT => sleep(POLL_INTERVAL),
            done => return done,
        }
    }
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let step = "bring its tables up to date";
    let version = |connection: &Connection| {
        connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).map_err(at(step))
    };
    let known = i64::try_from(MIGRATIONS.len()).expect("migrations are few");
    if version(connection)? == known {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at(step))?;
    // Read again: another process may have been faster.
    let found = version(&transaction)?;
    let done = usize::try_from(found).ok().filter(|done| *done <= MIGRATIONS.len());
    let done = done.ok_or(StoreError::Version { found, known })?;
    for migration in &MIGRATIONS[done..] {
        transaction.execute_batch(migration).map_err(at(step))?;
    }
    transaction.execute_batch(&format!("PRAGMA user_version = {known}")).map_err(at(step))?;
    transaction.commit().map_err(at(step))
}

impl Store for SqliteStore {
    fn now(&mut self) -> Result<Timestamp, StoreError> {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Timestamp(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)))
    }

    fn create(&mut self, header: &Header) -> Result<bool, StoreError> {
        let transaction = self.begin()?;
        let created = insert_session(&transaction, header)?;
        transaction.commit().map_err(at("create a session"))?;
        Ok(created)
    }

    fn load(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        find_session(&self.connection, id)
    }

    fn list(
        &mut self,
        agent: Option<&str>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError> {
        let step = "list sessions";
        let after = after.map_or(uuid::Uuid::nil(), |id| id.0);
        let condition = if agent.is_some() { "agent = ?3 AND id > ?1" } else { "id > ?1 AND ?3 IS NULL" };
        let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE {condition} ORDER BY id LIMIT ?2");
        let mut statement = self.connection.prepare_cached(&sql).map_err(at(step))?;
        let found =
            statement.query_map(params![after, rows::count(limit), agent], read_session).map_err(at(step))?;
        found.map(|row| row.map_err(at(step))?.decode()).collect()
    }

    fn update(&mut self, target: Target<'_>, decide: &mut Decide<'_>) -> Result<bool, Error> {
        let probe = self.probe;
        // A worker that finds nothing to do must not stand in the way of writers.
        if let Target::Due { now, horizon_ms } = target
            && find_due(&self.connection, now, horizon_ms)?.is_none()
        {
            return Ok(false);
        }
        probe("begin");
        let transaction = self.begin()?;
        let Some(found) = find(&transaction, target)? else { return Ok(false) };
        probe("decide");
        let Some(change) = decide(&found)? else { return Ok(true) };
        write(&transaction, &found.session.header, &change, probe)?;
        probe("commit");
        transaction.commit().map_err(at("commit"))?;
        probe("committed");
        Ok(true)
    }

    fn events(
        &mut self,
        id: SessionId,
        after: Seq,
        through: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let sql = format!(
            "SELECT {EVENT_COLUMNS} FROM events
             WHERE session_id = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(at("read events"))?;
        let bounds = params![id.0, rows::seq(after), rows::seq(through), rows::count(limit)];
        let events = read_events(&mut statement, bounds, id, usize::MAX)?;
        rows::check_dense(id, after, &events)?;
        Ok(events)
    }

    fn tail(
        &mut self,
        id: SessionId,
        part: Part,
        through: Seq,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let is_conversation = if part == Part::Conversation { 1 } else { 0 };
        let sql = format!(
            "SELECT {EVENT_COLUMNS} FROM events
             WHERE session_id = ?1 AND seq <= ?2 AND is_conversation = {is_conversation}
             ORDER BY seq DESC LIMIT ?3"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(at("read events"))?;
        let bounds = params![id.0, rows::seq(through), rows::count(limit)];
        let mut events = read_events(&mut statement, bounds, id, bytes)?;
        events.reverse();
        Ok(events)
    }

    fn memory(&mut self, id: SessionId) -> Result<Vec<MemoryFile>, StoreError> {
        let step = "read memory files";
        let sql = "SELECT name, content FROM memory WHERE session_id = ?1 ORDER BY name";
        let mut statement = self.connection.prepare_cached(sql).map_err(at(step))?;
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = statement.query_map(params![id.0], read).map_err(at(step))?;
        found
            .map(|row| {
                let (name, content) = row.map_err(at(step))?;
                rows::memory_file(id, name, content)
            })
            .collect()
    }

    fn learnings(&mut self, agent: &str, limit: usize) -> Result<Vec<StoredLearning>, StoreError> {
        let step = "read learnings";
        let sql = "SELECT learning FROM learnings WHERE agent = ?1 ORDER BY number DESC LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(at(step))?;
        let read = |row: &Row<'_>| row.get::<_, String>(0);
        let found = statement.query_map(params![agent, rows::count(limit)], read).map_err(at(step))?;
        found.map(|row| rows::learning(&row.map_err(at(step))?)).collect()
    }

    fn next_due(&mut self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let mut earliest = None;
        for column in ["again_ms", "high_ms", "normal_ms", "low_ms"] {
            let sql = format!("SELECT min({column}) FROM sessions WHERE {column} > ?1");
            let mut statement = self.connection.prepare_cached(&sql).map_err(at("find the next wake"))?;
            let found: Option<i64> =
                statement.query_row(params![now.0], |row| row.get(0)).map_err(at("find the next wake"))?;
            earliest = [earliest, found].into_iter().flatten().min();
        }
        Ok(earliest.map(Timestamp))
    }

    fn import(
        &mut self,
        header: &Header,
        events: &mut dyn Iterator<Item = Result<Event, Error>>,
        finish: &mut dyn FnMut() -> Result<Change, Error>,
    ) -> Result<bool, Error> {
        let probe = self.probe;
        let transaction = self.begin()?;
        if !insert_session(&transaction, header)? {
            return Ok(false);
        }
        for event in events {
            insert_event(&transaction, header.id, &event?)?;
        }
        write(&transaction, header, &finish()?, probe)?;
        transaction.commit().map_err(at("import a session"))?;
        Ok(true)
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), StoreError> {
        let start = Instant::now();
        loop {
            let version = self
                .connection
                .query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0))
                .map_err(at("wait"))?;
            // The first call has nothing to compare with: it returns, so that its caller looks once more.
            let changed = self.seen_version.replace(version) != Some(version);
            let left = timeout.saturating_sub(start.elapsed());
            if changed || left.is_zero() {
                return Ok(());
            }
            sleep(POLL_INTERVAL.min(left));
        }
    }
}

/// Sorts what SQLite says into what a caller can do about it.
fn at(step: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase};
    move |error| match error.sqlite_error_code() {
        Some(DiskFull) => StoreError::Full { step },
        Some(DatabaseBusy | DatabaseLocked) => StoreError::Busy { step },
        Some(DatabaseCorrupt | NotADatabase) => {
            StoreError::Corrupt { session: None, what: format!("it failed to {step}: {error}") }
        }
        _ => StoreError::Unavailable { step, source: Box::new(error) },
    }
}
