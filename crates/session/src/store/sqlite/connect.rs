//! How a SQLite connection is set up: its settings, its tables, and what its errors mean.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreError;

/// The migrations in order: each brings a file to the next version.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

/// How long one writer waits for another.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a waiting reader looks for changes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) const SESSION_COLUMNS: &str = "header, state, owner, held_until_ms";
pub(crate) const EVENT_COLUMNS: &str =
    "seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum";

/// Called with the name of each step of a write, so that a test can stop the process there.
pub type StoreProbe = fn(&'static str);

/// Sets up a connection. When several connections switch a new file to the write-ahead log at once, SQLite refuses all but one
/// without waiting, so this retries.
pub(crate) fn settle(connection: &Connection) -> Result<(), StoreError> {
    // With NORMAL, a power cut would lose commits that were already acknowledged.
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
    let start = Instant::now();
    loop {
        match connection.execute_batch(pragmas).map_err(at("open")) {
            Err(StoreError::Busy { .. }) if start.elapsed() < BUSY_TIMEOUT => sleep(POLL_INTERVAL),
            done => return done,
        }
    }
}

/// Checks that this program can work on the tables. Returns `false` if they must be migrated first.
pub(crate) fn check_version(connection: &Connection) -> Result<bool, StoreError> {
    let found = version(connection)?;
    let known = known_version();
    if found <= known {
        return Ok(found == known);
    }
    // A newer program migrated the store. This one may continue if that program allows it.
    let minimum = connection.query_row("SELECT minimum FROM compatibility", [], |row| row.get::<_, i64>(0));
    match minimum {
        Ok(minimum) if minimum <= known => Ok(true),
        _ => Err(StoreError::Version { found, known }),
    }
}

fn known_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    let read = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
    read.map_err(at("read its version"))
}

pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let step = "migrate its tables";
    if check_version(connection)? {
        return Ok(());
    }
    let known = known_version();
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at(step))?;
    // Read the version again: another process may have migrated meanwhile.
    let found = version(&transaction)?;
    let done = usize::try_from(found).ok().filter(|done| *done <= MIGRATIONS.len());
    let done = done.ok_or(StoreError::Version { found, known })?;
    for migration in &MIGRATIONS[done..] {
        transaction.execute_batch(migration).map_err(at(step))?;
    }
    transaction.execute_batch(&format!("PRAGMA user_version = {known}")).map_err(at(step))?;
    transaction.commit().map_err(at(step))
}

/// Maps an error of SQLite to what a caller can do about it.
pub(crate) fn at(step: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{
        DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, ReadOnly,
    };
    move |error| match error.sqlite_error_code() {
        Some(DiskFull) => StoreError::Full { step },
        Some(DatabaseBusy | DatabaseLocked) => StoreError::Busy { step },
        Some(ReadOnly) => StoreError::Rights { step, why: "it is read-only".to_owned() },
        Some(DatabaseCorrupt | NotADatabase) => {
            StoreError::Corrupt { session: None, what: format!("it failed to {step}: {error}") }
        }
        _ => StoreError::Unavailable { step, source: Box::new(error) },
    }
}
