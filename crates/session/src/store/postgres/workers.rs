//! The table of workers. Writing to it sends no notification.

use tokio_postgres::Row;

use super::client::{BlockingClient, SqlValue};
use super::connect::at;
use super::decode::column;
use crate::log::time::Timestamp;
use crate::store::{StoreError, StoredWorker, rows};

/// One statement: its own transaction. A row that another worker removes or writes now is skipped.
const PUT: &str = "
    WITH forgotten AS (
      DELETE FROM fullsend.workers WHERE name IN
        (SELECT name FROM fullsend.workers WHERE seen_ms < $5 AND name <> $1 FOR UPDATE SKIP LOCKED)
    )
    INSERT INTO fullsend.workers (name, description, started_ms, seen_ms) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO UPDATE SET description = excluded.description, seen_ms = excluded.seen_ms";

const LIST: &str = "SELECT name, description, started_ms, seen_ms FROM fullsend.workers
                    ORDER BY seen_ms DESC, name LIMIT $1";

pub(crate) fn put(
    client: &mut BlockingClient,
    worker: &StoredWorker,
    forgotten: Timestamp,
) -> Result<(), StoreError> {
    let StoredWorker { name, description, started_ms, seen_ms } = worker;
    let row: [&dyn SqlValue; 5] = [name, &rows::json(description)?, &started_ms.0, &seen_ms.0, &forgotten.0];
    client.execute(PUT, &row).map(drop).map_err(at("write a worker"))
}

pub(crate) fn remove(client: &mut BlockingClient, name: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM fullsend.workers WHERE name = $1";
    client.execute(sql, &[&name]).map(drop).map_err(at("remove a worker"))
}

pub(crate) fn list(client: &mut BlockingClient, limit: usize) -> Result<Vec<StoredWorker>, StoreError> {
    let found = client.query(LIST, &[&rows::count(limit)]).map_err(at("list workers"))?;
    let worker = |row: &Row| rows::worker(column(row, 0)?, column(row, 1)?, column(row, 2)?, column(row, 3)?);
    found.iter().map(worker).collect()
}
