//! How a SQLite connection is set up: its settings, its tables, and what its errors mean.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreError;

/// What brings an empty file, or one of an earlier version, to the present form, in order.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];

/// How long one writer waits for another.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a waiting reader looks for changes of others.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) const SESSION_COLUMNS: &str = "header, state, owner, held_until_ms";
pub(crate) const EVENT_COLUMNS: &str =
    "seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum";

/// Called with the name of each step of a write, so that a test can stop a process there.
pub type StoreProbe = fn(&'static str);

/// Tells a connection how to work. Of several that turn a new file to the write-ahead log at once, SQLite refuses all but one
/// without waiting: they could wait for each other.
pub(crate) fn settle(connection: &Connection) -> Result<(), StoreError> {
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

pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
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

/// Sorts what SQLite says into what a caller can do about it.
pub(crate) fn at(step: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
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
