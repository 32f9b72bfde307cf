//! Writes one decision to SQLite, inside the transaction of the caller.

use rusqlite::{Connection, params};

use super::connect::{EVENT_COLUMNS, StoreProbe, at};
use super::read::find;
use crate::decide::children::{ChildEffects, SpawnedSession};
use crate::log::event::SessionEvent;
use crate::log::header::SessionHeader;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seal::SealedEvent;
use crate::log::state::{DueTimes, SessionState};
use crate::log::time::Timestamp;
use crate::store::{FoundSession, SessionChange, StoreError, UpdateTarget, due, rows};

pub(crate) fn insert_session(connection: &Connection, header: &SessionHeader) -> Result<bool, StoreError> {
    let sql =
        "INSERT INTO sessions (id, agent, repository, header, state, labels) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT DO NOTHING";
    let mut statement = connection.prepare_cached(sql).map_err(at("create a session"))?;
    let repository = header.repository.as_deref().unwrap_or_default();
    let row = params![
        header.id.0,
        header.agent,
        repository,
        rows::json(header)?,
        rows::state(header, &SessionState::default())?,
        rows::json(&header.labels)?
    ];
    Ok(statement.execute(row).map_err(at("create a session"))? == 1)
}

pub(crate) fn write(
    connection: &Connection,
    header: &SessionHeader,
    change: &SessionChange,
    probe: StoreProbe,
) -> Result<(), StoreError> {
    let SessionChange { state, holder, events, memory, deleted_memory, learnings, learnings_kept, children } =
        change;
    let id = header.id;
    let sql = "UPDATE sessions SET state = ?2, owner = ?3, held_until_ms = ?4, again_ms = ?5, input_ms = ?6,
               high_ms = ?7, normal_ms = ?8, low_ms = ?9,
               unreadable_by = NULL WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(at("write the state"))?;
    let DueTimes { again, input, high, normal, low } = due(state, holder.as_ref());
    let owner = holder.as_ref().map(|holder| &holder.owner);
    let until = holder.as_ref().map(|holder| holder.until_ms);
    let number = |time: Option<Timestamp>| time.map(|time| time.0);
    let row = params![
        id.0,
        rows::state(header, state)?,
        owner,
        number(until),
        number(again),
        number(input),
        number(high),
        number(normal),
        number(low)
    ];
    statement.execute(row).map_err(at("write the state"))?;
    probe("state");
    for event in events {
        insert_event(connection, id, event)?;
    }
    probe("events");
    for MemoryFile { name, content } in memory {
        let sql = "INSERT INTO memory (session_id, name, content) VALUES (?1, ?2, ?3)
                   ON CONFLICT (session_id, name) DO UPDATE SET content = excluded.content";
        let mut statement = connection.prepare_cached(sql).map_err(at("write memory files"))?;
        statement.execute(params![id.0, name, content.as_bytes()]).map_err(at("write memory files"))?;
    }
    for name in deleted_memory {
        let sql = "DELETE FROM memory WHERE session_id = ?1 AND name = ?2";
        let mut statement = connection.prepare_cached(sql).map_err(at("delete memory files"))?;
        statement.execute(params![id.0, name]).map_err(at("delete memory files"))?;
    }
    probe("memory");
    for learning in learnings {
        insert_learning(connection, header, learning, *learnings_kept)?;
    }
    write_children(connection, children, probe)
}

/// Writes what a change does to other sessions.
fn write_children(
    connection: &Connection,
    effects: &ChildEffects,
    probe: StoreProbe,
) -> Result<(), StoreError> {
    let ChildEffects { spawned, result } = effects;
    for SpawnedSession { header, state, events } in spawned {
        insert_session(connection, header)?;
        let change = SessionChange { events: events.clone(), ..SessionChange::of(state.clone(), None) };
        write(connection, header, &change, probe)?;
    }
    let Some(result) = result else { return Ok(()) };
    let target = UpdateTarget::Session { id: result.parent, events: &[result.input.id] };
    let parent = match find(connection, target) {
        // A parent that cannot be read does not stop its child.
        Err(StoreError::Corrupt { .. }) => None,
        found => found?,
    };
    let Some(FoundSession { session, events }) = parent else { return Ok(()) };
    let change = result.draft(&session.state, &events);
    match change.and_then(|draft| SessionChange::from_draft(draft, session.holder)) {
        Some(change) => write(connection, &session.header, &change, probe),
        None => Ok(()),
    }
}

pub(crate) fn insert_event(
    connection: &Connection,
    session: SessionId,
    event: &SessionEvent,
) -> Result<(), StoreError> {
    let sql =
        format!("INSERT INTO events (session_id, {EVENT_COLUMNS}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)");
    let mut statement = connection.prepare_cached(&sql).map_err(at("write events"))?;
    let SealedEvent { seq, id, time_ms, wake_id, version, kind, is_conversation, payload, checksum } =
        rows::seal(session, event)?;
    let row =
        params![session.0, seq, id, time_ms, wake_id, version, kind, is_conversation, payload, checksum];
    statement.execute(row).map_err(at("write events"))?;
    Ok(())
}

fn insert_learning(
    connection: &Connection,
    header: &SessionHeader,
    learning: &StoredLearning,
    kept: usize,
) -> Result<(), StoreError> {
    let step = "write learnings";
    let sql = "INSERT INTO learnings (repository, agent, key, learning) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT DO NOTHING";
    let mut statement = connection.prepare_cached(sql).map_err(at(step))?;
    let key = learning.learning.key();
    let repository = header.repository.as_deref().unwrap_or_default();
    statement.execute(params![repository, header.agent, key.0, rows::json(learning)?]).map_err(at(step))?;
    let sql = "DELETE FROM learnings WHERE number IN
               (SELECT number FROM learnings WHERE repository = ?1 AND agent = ?2
                ORDER BY number DESC LIMIT 10 OFFSET ?3)";
    let mut statement = connection.prepare_cached(sql).map_err(at(step))?;
    statement.execute(params![repository, header.agent, rows::count(kept)]).map_err(at(step))?;
    Ok(())
}
