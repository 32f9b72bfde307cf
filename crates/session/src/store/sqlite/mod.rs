//! The embedded store: one SQLite file with a write-ahead log. A commit returns after the disk has confirmed it. Several
//! processes on one machine can share the file.

mod adopt;
mod connect;
mod read;
mod workers;
mod write;

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};

pub use self::connect::StoreProbe;
use self::connect::{BUSY_TIMEOUT, EVENT_COLUMNS, POLL_INTERVAL, at, check_version, migrate, settle};
use self::read::{
    count_due, find, find_due, find_session, has_due, list_statement, mark_unreadable, read_events,
    read_session,
};
use self::write::{insert_event, insert_session, write};
use crate::log::digest::Sha256Digest;
use crate::log::event::SessionEvent;
use crate::log::header::SessionHeader;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seq::Seq;
use crate::log::status::SessionStatus;
use crate::log::time::Timestamp;
use crate::store::{
    ClaimFilter, DecideFn, EventClass, ListFilter, ListedSession, Session, SessionChange, SessionError,
    Store, StoreError, StoreSurvey, StoredObject, StoredWorker, UpdateTarget, WaitFor, rows,
};

pub struct SqliteStore {
    connection: Connection,
    probe: StoreProbe,
    seen_version: Option<i64>,
}

impl SqliteStore {
    /// Opens or creates the file, readable by its owner only. A file that cannot be written is opened for reading.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let what = |error| format!("cannot open {} as a session store: {error}", path.display());
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        match opened {
            Err(error) if is_read_only(&error) && path.exists() => return Self::open_read_only(path),
            Err(error) => return Err(StoreError::Location { what: what(error) }),
            Ok(_) => {}
        }
        match Self::open_writable(path) {
            // The directory cannot be written, so there can be no write-ahead log.
            Err(StoreError::Rights { .. }) => Self::open_read_only(path),
            Err(StoreError::Unavailable { .. }) if is_in_read_only_directory(path) => {
                Self::open_read_only(path)
            }
            opened => opened,
        }
    }

    /// Opens a file that exists, for reading only.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        // A file that cannot be written has no write-ahead log, and must not get one from a reader.
        let about = std::fs::metadata(path);
        let is_fixed = about.is_ok_and(|about| about.permissions().mode() & 0o222 == 0);
        let parameters = if is_fixed { "mode=ro&immutable=1" } else { "mode=ro" };
        let first = connect_read_only(path, parameters).and_then(|connection| {
            let readable = check_version(&connection)?;
            Ok((connection, readable))
        });
        // Without its write-ahead log a file has no writer, and can be read as it is.
        let (connection, readable) = match first {
            Err(StoreError::Unavailable { .. } | StoreError::Rights { .. }) => {
                let connection = connect_read_only(path, "mode=ro&immutable=1")?;
                let readable = check_version(&connection)?;
                (connection, readable)
            }
            opened => opened?,
        };
        if readable {
            Ok(Self { connection, probe: |_| {}, seen_version: None })
        } else {
            Err(StoreError::NotMigrated)
        }
    }

    fn open_writable(path: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path).map_err(at("open"))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(at("open"))?;
        connection.set_prepared_statement_cache_capacity(64);
        settle(&connection)?;
        migrate(&mut connection)?;
        Ok(Self { connection, probe: |_| {}, seen_version: None })
    }

    #[must_use]
    pub fn with_probe(self, probe: StoreProbe) -> Self {
        Self { probe, ..self }
    }

    /// The connection itself, for benches and tests.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn path(&self) -> &str {
        self.connection.path().unwrap_or_default()
    }

    fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at("begin a write"))
    }
}

fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Whether no file can be made beside this one.
fn is_in_read_only_directory(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let probe = path.with_file_name(format!(".{name}.probe-{}", std::process::id()));
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(&probe) {
        Ok(_) => {
            drop(std::fs::remove_file(&probe));
            false
        }
        Err(error) => is_read_only(&error),
    }
}

fn connect_read_only(path: &Path, parameters: &str) -> Result<Connection, StoreError> {
    let location = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(format!("file:{location}?{parameters}"), flags).map_err(at("open"))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(at("open"))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

impl Store for SqliteStore {
    fn now(&mut self) -> Result<Timestamp, StoreError> {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Timestamp(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)))
    }

    fn create(&mut self, header: &SessionHeader) -> Result<bool, StoreError> {
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
        filter: &ListFilter<'_>,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<ListedSession>, StoreError> {
        let step = "list sessions";
        let after = after.map_or(uuid::Uuid::nil(), |id| id.0);
        let ListFilter { agent, repository, status, .. } = filter;
        let status = status.map(SessionStatus::word);
        let sql = list_statement(filter);
        let mut statement = self.connection.prepare_cached(&sql).map_err(at(step))?;
        let read = |row: &Row<'_>| Ok((row.get(4)?, read_session(row)?));
        let values = params![after, rows::count(limit), agent, repository, status];
        let found = statement.query_map(values, read).map_err(at(step))?;
        found
            .map(|row| {
                let (id, row) = row.map_err(at(step))?;
                Ok(rows::list_entry(id, row))
            })
            .collect()
    }

    fn find_due(
        &mut self,
        now: Timestamp,
        horizon_ms: u64,
        filter: &ClaimFilter,
    ) -> Result<Option<Session>, StoreError> {
        find_due(&self.connection, now, horizon_ms, filter)
    }

    fn mark_unreadable(&mut self, id: SessionId) -> Result<(), StoreError> {
        mark_unreadable(&self.connection, id)
    }

    fn last_seq(&mut self, id: SessionId) -> Result<Seq, StoreError> {
        let sql = "SELECT max(seq) FROM events WHERE session_id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(at("read events"))?;
        let last: Option<i64> =
            statement.query_row(params![id.0], |row| row.get(0)).map_err(at("read events"))?;
        Ok(Seq(last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0)))
    }

    fn update(&mut self, target: UpdateTarget<'_>, decide: &mut DecideFn<'_>) -> Result<bool, SessionError> {
        let probe = self.probe;
        // A worker that finds nothing due must not block writers.
        if let UpdateTarget::Due { now, horizon_ms, filter } = target
            && find_due(&self.connection, now, horizon_ms, filter)?.is_none()
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
    ) -> Result<Vec<SessionEvent>, StoreError> {
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
        part: EventClass,
        through: Seq,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<SessionEvent>, StoreError> {
        let is_conversation = if part == EventClass::Conversation { 1 } else { 0 };
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

    fn learnings(
        &mut self,
        repository: Option<&str>,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<StoredLearning>, StoreError> {
        let step = "read learnings";
        let sql = "SELECT learning FROM learnings WHERE repository = ?1 AND agent = ?2
                   ORDER BY number DESC LIMIT ?3";
        let mut statement = self.connection.prepare_cached(sql).map_err(at(step))?;
        let read = |row: &Row<'_>| row.get::<_, String>(0);
        let found = statement
            .query_map(params![repository.unwrap_or_default(), agent, rows::count(limit)], read)
            .map_err(at(step))?;
        found.map(|row| rows::learning(&row.map_err(at(step))?)).collect()
    }

    fn survey(&mut self, horizon_ms: u64) -> Result<StoreSurvey, StoreError> {
        let now = self.now()?;
        let is_due = has_due(&self.connection, now, horizon_ms)?;
        let mut earliest = None;
        for column in ["again_ms", "high_ms", "normal_ms", "low_ms"] {
            let sql = format!("SELECT min({column}) FROM sessions WHERE {column} > ?1");
            let mut statement = self.connection.prepare_cached(&sql).map_err(at("find the next wake"))?;
            let found: Option<i64> =
                statement.query_row(params![now.0], |row| row.get(0)).map_err(at("find the next wake"))?;
            earliest = [earliest, found].into_iter().flatten().min();
        }
        Ok(StoreSurvey { now, is_due, next_due: earliest.map(Timestamp) })
    }

    fn count_due(&mut self, horizon_ms: u64) -> Result<u64, StoreError> {
        let now = self.now()?;
        count_due(&self.connection, now, horizon_ms)
    }

    fn find_ids(&mut self, part: &str, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let step = "find a session";
        let sql = "SELECT id FROM sessions WHERE id BETWEEN ?3 AND ?4
                   OR (substr(id, 14, 3) = unhex(substr(?1, -6)) AND lower(hex(id)) LIKE '%' || ?1)
                   ORDER BY id LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(at(step))?;
        let (first, last) = rows::ids_with_start(part);
        let part = part.replace('-', "");
        let values = params![part, rows::count(limit), first, last];
        let found = statement.query_map(values, |row| row.get(0)).map_err(at(step))?;
        found.map(|id| id.map(SessionId).map_err(at(step))).collect()
    }

    fn remove(&mut self, id: SessionId, head: Seq) -> Result<bool, StoreError> {
        let step = "remove a session";
        let transaction = self.begin()?;
        let sql = "DELETE FROM sessions WHERE id = ?1 AND owner IS NULL AND state ->> '$.head' = ?2";
        if transaction.execute(sql, params![id.0, rows::seq(head)]).map_err(at(step))? == 0 {
            return Ok(false);
        }
        transaction.execute("DELETE FROM events WHERE session_id = ?1", params![id.0]).map_err(at(step))?;
        transaction.execute("DELETE FROM memory WHERE session_id = ?1", params![id.0]).map_err(at(step))?;
        transaction.execute("DELETE FROM objects WHERE session_id = ?1", params![id.0]).map_err(at(step))?;
        transaction.commit().map_err(at(step))?;
        Ok(true)
    }

    fn put_object(&mut self, id: SessionId, object: &StoredObject) -> Result<bool, StoreError> {
        let StoredObject { name, digest, content } = object;
        let sql = "INSERT INTO objects (session_id, name, digest, content)
                   SELECT id, ?2, ?3, ?4 FROM sessions WHERE id = ?1
                   ON CONFLICT (session_id, name) DO UPDATE SET digest = excluded.digest, content = excluded.content";
        let row = params![id.0, name, digest.0, content];
        Ok(self.connection.execute(sql, row).map_err(at("write an object"))? == 1)
    }

    fn object(&mut self, id: SessionId, name: &str) -> Result<Option<StoredObject>, StoreError> {
        let step = "read an object";
        let sql = "SELECT digest, content FROM objects WHERE session_id = ?1 AND name = ?2";
        let mut statement = self.connection.prepare_cached(sql).map_err(at(step))?;
        let read = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?));
        let found = statement.query_row(params![id.0, name], read).optional().map_err(at(step))?;
        found.map(|(digest, content)| rows::object(id, name.to_owned(), &digest, content)).transpose()
    }

    fn objects(&mut self, id: SessionId) -> Result<Vec<(String, Sha256Digest)>, StoreError> {
        let step = "list objects";
        let sql = "SELECT name, digest FROM objects WHERE session_id = ?1 ORDER BY name";
        let mut statement = self.connection.prepare_cached(sql).map_err(at(step))?;
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
        let found = statement.query_map(params![id.0], read).map_err(at(step))?;
        found
            .map(|row| {
                let (name, digest) = row.map_err(at(step))?;
                let digest = rows::object_digest(id, &name, &digest)?;
                Ok((name, digest))
            })
            .collect()
    }

    fn remove_object(&mut self, id: SessionId, name: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM objects WHERE session_id = ?1 AND name = ?2";
        self.connection.execute(sql, params![id.0, name]).map(drop).map_err(at("remove an object"))
    }

    fn import(
        &mut self,
        header: &SessionHeader,
        events: &mut dyn Iterator<Item = Result<SessionEvent, SessionError>>,
        finish: &mut dyn FnMut() -> Result<SessionChange, SessionError>,
    ) -> Result<bool, SessionError> {
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

    fn put_worker(&mut self, worker: &StoredWorker, forgotten: Timestamp) -> Result<(), StoreError> {
        workers::put(self.path(), worker, forgotten)
    }

    fn remove_worker(&mut self, name: &str) -> Result<(), StoreError> {
        workers::remove(self.path(), name)
    }

    fn workers(&mut self, limit: usize) -> Result<Vec<StoredWorker>, StoreError> {
        workers::list(self.path(), limit)
    }

    fn wait(&mut self, _what: WaitFor, timeout: Duration) -> Result<bool, StoreError> {
        let start = Instant::now();
        loop {
            let version = self
                .connection
                .query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0))
                .map_err(at("wait"))?;
            // The first call has nothing to compare with, so it returns and the caller looks again.
            let changed = self.seen_version.replace(version) != Some(version);
            let left = timeout.saturating_sub(start.elapsed());
            if changed || left.is_zero() {
                return Ok(changed);
            }
            sleep(POLL_INTERVAL.min(left));
        }
    }
}
