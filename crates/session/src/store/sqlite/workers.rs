//! The workers of a store, in a file of their own beside it. A thread that waits for due sessions watches the store's
//! file for changes, and a heartbeat must not wake it. The file is not flushed to the disk: a power cut may lose it,
//! and it is created again.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior, params};

use super::connect::{BUSY_TIMEOUT, at};
use crate::log::time::Timestamp;
use crate::store::{StoreError, StoredWorker, rows};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS workers (
  name TEXT NOT NULL PRIMARY KEY,
  description TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID";

const PUT: &str = "INSERT INTO workers (name, description, started_ms, seen_ms) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name) DO UPDATE SET description = excluded.description, seen_ms = excluded.seen_ms";

pub(crate) fn put(store: &str, worker: &StoredWorker, forgotten: Timestamp) -> Result<(), StoreError> {
    match write(&workers_path(store), worker, forgotten) {
        Err(StoreError::Corrupt { .. }) => {
            drop(std::fs::remove_file(workers_path(store)));
            write(&workers_path(store), worker, forgotten)
        }
        written => written,
    }
}

pub(crate) fn remove(store: &str, name: &str) -> Result<(), StoreError> {
    let path = workers_path(store);
    if !path.exists() {
        return Ok(());
    }
    let removed = open(&path)?.execute("DELETE FROM workers WHERE name = ?1", params![name]);
    removed.map(drop).map_err(at("remove a worker"))
}

pub(crate) fn list(store: &str, limit: usize) -> Result<Vec<StoredWorker>, StoreError> {
    let step = "list workers";
    let path = workers_path(store);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(at(step))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(at(step))?;
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'workers')";
    if !connection.query_row(exists, [], |row| row.get::<_, bool>(0)).map_err(at(step))? {
        return Ok(Vec::new());
    }
    let sql =
        "SELECT name, description, started_ms, seen_ms FROM workers ORDER BY seen_ms DESC, name LIMIT ?1";
    let mut statement = connection.prepare(sql).map_err(at(step))?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?));
    let found = statement.query_map(params![rows::count(limit)], read).map_err(at(step))?;
    found
        .map(|row| {
            let (name, description, started_ms, seen_ms) = row.map_err(at(step))?;
            rows::worker(name, &description, started_ms, seen_ms)
        })
        .collect()
}

fn workers_path(store: &str) -> PathBuf {
    PathBuf::from(format!("{store}.workers"))
}

fn write(path: &Path, worker: &StoredWorker, forgotten: Timestamp) -> Result<(), StoreError> {
    let step = "write a worker";
    let StoredWorker { name, description, started_ms, seen_ms } = worker;
    let mut connection = open(path)?;
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at(step))?;
    let row = params![name, rows::json(description)?, started_ms.0, seen_ms.0];
    transaction.execute(PUT, row).map_err(at(step))?;
    let forget = "DELETE FROM workers WHERE seen_ms < ?1 AND name <> ?2";
    transaction.execute(forget, params![forgotten.0, name]).map_err(at(step))?;
    transaction.commit().map_err(at(step))
}

/// Opens or creates the file, readable by its owner only.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let created = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    created.map_err(|error| StoreError::Location {
        what: format!("cannot open {} for the heartbeats of workers: {error}", path.display()),
    })?;
    let connection = Connection::open(path).map_err(at("open"))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(at("open"))?;
    connection.execute_batch("PRAGMA synchronous = OFF").map_err(at("open"))?;
    connection.execute_batch(TABLE).map_err(at("open"))?;
    Ok(connection)
}
