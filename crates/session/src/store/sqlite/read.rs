//! Finding sessions and reading events in SQLite.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::connect::{EVENT_COLUMNS, SESSION_COLUMNS, at};
use crate::log::event::SessionEvent;
use crate::log::id::SessionId;
use crate::log::seal::SealedEvent;
use crate::log::time::Timestamp;
use crate::store::rows::{self, SessionRow};
use crate::store::{ClaimFilter, FoundSession, ListFilter, Session, StoreError, UpdateTarget};

/// A page of a list. A condition is written as its index has it, and only if the filter needs it.
pub(crate) fn list_statement(filter: &ListFilter<'_>) -> String {
    let ListFilter { agent, repository, status, has_work } = filter;
    let mut sql = format!("SELECT {SESSION_COLUMNS}, id FROM sessions WHERE id > ?1");
    for (is_used, condition, unused) in [
        (agent.is_some(), "agent = ?3", "?3 IS NULL"),
        (repository.is_some(), "repository = ?4", "?4 IS NULL"),
        (status.is_some(), "CASE WHEN json_valid(state) THEN state ->> '$.status' END = ?5", "?5 IS NULL"),
        (*has_work, HAS_WORK, "TRUE"),
    ] {
        sql.push_str(" AND (");
        sql.push_str(if is_used { condition } else { unused });
        sql.push(')');
    }
    sql.push_str(" ORDER BY id LIMIT ?2");
    sql
}

/// As the index `sessions_work` has it.
const HAS_WORK: &str = "owner IS NOT NULL OR instr(state, '\"wakes\":[{') > 0
  OR (instr(state, '\"dead\":[') > 0 AND instr(state, '\"dead\":[]') = 0)";

pub(crate) fn find(
    connection: &Connection,
    target: UpdateTarget<'_>,
) -> Result<Option<FoundSession>, StoreError> {
    let (id, wanted) = match target {
        UpdateTarget::Session { id, events } => (id, events),
        UpdateTarget::Due { now, horizon_ms, filter } => {
            let session = find_due(connection, now, horizon_ms, filter)?;
            return Ok(session.map(|session| FoundSession { session, events: Vec::new() }));
        }
    };
    let Some(session) = find_session(connection, id)? else { return Ok(None) };
    let sql = format!("SELECT {EVENT_COLUMNS} FROM events WHERE session_id = ?1 AND id = ?2");
    let mut statement = connection.prepare_cached(&sql).map_err(at("find an event"))?;
    let mut events = Vec::new();
    for event in wanted {
        events.extend(read_events(&mut statement, params![id.0, event.0], id, usize::MAX)?);
    }
    Ok(Some(FoundSession { session, events }))
}

pub(crate) fn find_session(connection: &Connection, id: SessionId) -> Result<Option<Session>, StoreError> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(at("find a session"))?;
    let row = statement.query_row(params![id.0], read_session).optional().map_err(at("find a session"))?;
    row.map(SessionRow::decode).transpose()
}

/// The first due session that the filter accepts and that can be read. One that cannot be read is marked and skipped.
pub(crate) fn find_due(
    connection: &Connection,
    now: Timestamp,
    horizon_ms: u64,
    filter: &ClaimFilter,
) -> Result<Option<Session>, StoreError> {
    while let Some(id) = first_due(connection, now, horizon_ms, filter)? {
        match find_session(connection, id) {
            Err(StoreError::Corrupt { .. }) => mark_unreadable(connection, id)?,
            found => return found,
        }
    }
    Ok(None)
}

/// Whether any session is due, for any worker.
pub(crate) fn has_due(connection: &Connection, now: Timestamp, horizon_ms: u64) -> Result<bool, StoreError> {
    Ok(first_due(connection, now, horizon_ms, &ClaimFilter::default())?.is_some())
}

/// How many sessions are due, for any worker. Each part of the condition has an index.
pub(crate) fn count_due(connection: &Connection, now: Timestamp, horizon_ms: u64) -> Result<u64, StoreError> {
    let step = "count due sessions";
    let sql = "SELECT count(*) FROM sessions
               WHERE (again_ms <= ?1 OR again_ms > ?2 OR input_ms IS NOT NULL
                      OR high_ms <= ?1 OR normal_ms <= ?1 OR low_ms <= ?1)
                 AND (unreadable_by IS NULL OR unreadable_by < ?3)";
    let mut statement = connection.prepare_cached(sql).map_err(at(step))?;
    let values = params![now.0, now.plus_ms(horizon_ms).0, rows::state_version()];
    let count: i64 = statement.query_row(values, |row| row.get(0)).map_err(at(step))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

pub(crate) fn mark_unreadable(connection: &Connection, id: SessionId) -> Result<(), StoreError> {
    let step = "mark a session as unreadable";
    let sql = "UPDATE sessions SET unreadable_by = ?2 WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(at(step))?;
    statement.execute(params![id.0, rows::state_version()]).map_err(at(step))?;
    Ok(())
}

/// Searches the lanes in order. Inputs are due at any time. A lease or a back-off that ends too far ahead is over too.
fn first_due(
    connection: &Connection,
    now: Timestamp,
    horizon_ms: u64,
    filter: &ClaimFilter,
) -> Result<Option<SessionId>, StoreError> {
    let step = "find a due session";
    let lanes = [
        ("again_ms <= ?1", "again_ms", now.0),
        ("again_ms > ?1", "again_ms", now.plus_ms(horizon_ms).0),
        ("input_ms IS NOT NULL AND ?1 IS NOT NULL", "input_ms", now.0),
        ("high_ms <= ?1", "high_ms", now.0),
        ("normal_ms <= ?1", "normal_ms", now.0),
        ("low_ms <= ?1", "low_ms", now.0),
    ];
    let ClaimFilter { repository, repository_prefixes, agent, labels, skip } = filter;
    let prefixes = repository_prefixes.as_ref().map(rows::json).transpose()?;
    let labels = labels.as_ref().map(rows::json).transpose()?;
    let skipped: Vec<String> = skip.iter().map(|id| id.0.simple().to_string()).collect();
    let skipped = skipped.join(",");
    for (lane, order, bound) in lanes {
        let sql = format!(
            "SELECT id FROM sessions
             WHERE {lane} AND (unreadable_by IS NULL OR unreadable_by < ?2)
               AND (?3 IS NULL OR repository IN ('', ?3)) AND (?4 IS NULL OR agent = ?4)
               AND (?5 = '' OR instr(?5, lower(hex(id))) = 0)
               AND (?6 IS NULL OR labels = '[]' OR NOT EXISTS
                    (SELECT 1 FROM json_each(labels) WHERE value NOT IN (SELECT value FROM json_each(?6))))
               AND (?7 IS NULL OR EXISTS
                    (SELECT 1 FROM json_each(?7) WHERE substr(repository, 1, length(value)) = value))
             ORDER BY {order} LIMIT 1"
        );
        let mut statement = connection.prepare_cached(&sql).map_err(at(step))?;
        let row = params![bound, rows::state_version(), repository, agent, skipped, labels, prefixes];
        let found = statement.query_row(row, |row| row.get(0)).optional().map_err(at(step))?;
        if let Some(id) = found {
            return Ok(Some(SessionId(id)));
        }
    }
    Ok(None)
}

pub(crate) fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow { header: row.get(0)?, state: row.get(1)?, owner: row.get(2)?, held_until_ms: row.get(3)? })
}

/// Reads events in the order of the statement until their payloads exceed `bytes`.
pub(crate) fn read_events(
    statement: &mut CachedStatement<'_>,
    bounds: &[&dyn rusqlite::ToSql],
    session: SessionId,
    bytes: usize,
) -> Result<Vec<SessionEvent>, StoreError> {
    let mut found = statement.query(bounds).map_err(at("read events"))?;
    let mut events = Vec::new();
    let mut left = bytes;
    while let Some(row) = found.next().map_err(at("read events"))? {
        let sealed = read_event(row).map_err(at("read events"))?;
        match left.checked_sub(sealed.payload.len()) {
            Some(rest) => left = rest,
            None => break,
        }
        events.push(rows::open(session, &sealed)?);
    }
    Ok(events)
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<SealedEvent> {
    Ok(SealedEvent {
        seq: row.get(0)?,
        id: row.get(1)?,
        time_ms: row.get(2)?,
        wake_id: row.get(3)?,
        version: row.get(4)?,
        kind: row.get(5)?,
        is_conversation: row.get(6)?,
        payload: row.get(7)?,
        checksum: row.get(8)?,
    })
}
