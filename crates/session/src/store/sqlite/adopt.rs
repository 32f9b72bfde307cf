//! Moves the sessions of one repository from one file to another.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior, params};

use super::SqliteStore;
use super::connect::at;
use crate::store::StoreError;

/// The statements that copy the rows. A row that exists already stays as it is.
const COPY: [&str; 5] = [
    "INSERT OR IGNORE INTO main.events SELECT events.* FROM other.events AS events
     JOIN other.sessions AS moved ON moved.id = events.session_id WHERE moved.repository = ?1
       AND NOT EXISTS (SELECT 1 FROM main.sessions AS known WHERE known.id = moved.id)",
    "INSERT OR IGNORE INTO main.memory SELECT memory.* FROM other.memory AS memory
     JOIN other.sessions AS moved ON moved.id = memory.session_id WHERE moved.repository = ?1
       AND NOT EXISTS (SELECT 1 FROM main.sessions AS known WHERE known.id = moved.id)",
    "INSERT OR IGNORE INTO main.objects SELECT objects.* FROM other.objects AS objects
     JOIN other.sessions AS moved ON moved.id = objects.session_id WHERE moved.repository = ?1
       AND NOT EXISTS (SELECT 1 FROM main.sessions AS known WHERE known.id = moved.id)",
    "INSERT OR IGNORE INTO main.learnings (agent, key, learning, repository)
     SELECT agent, key, learning, repository FROM other.learnings WHERE repository = ?1 ORDER BY number",
    "INSERT OR IGNORE INTO main.sessions SELECT * FROM other.sessions WHERE repository = ?1",
];

/// The sessions that are moved: those whose copy has all their events.
const MOVED: &str = "SELECT moved.id FROM sessions AS moved JOIN there.sessions AS copy ON copy.id = moved.id
    WHERE moved.repository = ?1 AND moved.state ->> '$.head' <= copy.state ->> '$.head'";

impl SqliteStore {
    /// Moves the sessions of a repository from another file to this one, with all that belongs to them. Returns how many
    /// were moved. If the process ends in the middle, the next call completes the move.
    pub fn adopt(&mut self, from: &Path, repository: &str) -> Result<usize, StoreError> {
        let step = "move sessions from the earlier store";
        let mut other = Self::open(from)?;
        if !has_sessions(&other.connection, repository)? {
            return Ok(0);
        }
        attach(&other.connection, self.path(), "there")?;
        attach(&self.connection, other.path(), "other")?;
        // Nobody writes to the other file until its sessions are gone.
        let behavior = TransactionBehavior::Deferred;
        other.connection.execute_batch("BEGIN").map_err(at(step))?;
        let lock = "UPDATE main.compatibility SET minimum = minimum";
        let locked = other.connection.execute_batch(lock).map_err(at(step));
        let copied = locked.and_then(|()| {
            let transaction = self.connection.transaction_with_behavior(behavior).map_err(at(step))?;
            for sql in COPY {
                transaction.execute(sql, params![repository]).map_err(at(step))?;
            }
            // The copy is on the disk before the original is removed.
            transaction.commit().map_err(at(step))
        });
        drop(self.connection.execute_batch("DETACH other"));
        copied?;
        other.remove_moved(repository).map_err(at(step))
    }

    fn remove_moved(&mut self, repository: &str) -> rusqlite::Result<usize> {
        for table in ["events", "memory", "objects"] {
            let sql = format!("DELETE FROM main.{table} WHERE session_id IN ({MOVED})");
            self.connection.execute(&sql, params![repository])?;
        }
        self.connection.execute("DELETE FROM main.learnings WHERE repository = ?1", params![repository])?;
        let sql = format!("DELETE FROM main.sessions WHERE id IN ({MOVED})");
        let count = self.connection.execute(&sql, params![repository])?;
        self.connection.execute_batch("COMMIT")?;
        Ok(count)
    }
}

fn has_sessions(connection: &Connection, repository: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sessions WHERE repository = ?1)";
    connection.query_row(sql, params![repository], |row| row.get(0)).map_err(at("find a session"))
}

fn attach(connection: &Connection, path: &str, name: &str) -> Result<(), StoreError> {
    let sql = format!("ATTACH ?1 AS {name}");
    connection.execute(&sql, params![path]).map(drop).map_err(at("open"))
}
