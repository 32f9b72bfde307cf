//! Writes one decision to PostgreSQL with one statement, so that a commit is one round trip and one flush.

use uuid::Uuid;

use super::client::{BlockingClient, CallError, SqlValue};
use super::connect::at;
use super::pool::CHANNEL;
use crate::log::event::SessionEvent;
use crate::log::header::SessionHeader;
use crate::log::id::SessionId;
use crate::log::learning::StoredLearning;
use crate::log::memory::MemoryFile;
use crate::log::seal::SealedEvent;
use crate::log::state::{DueTimes, SessionState};
use crate::log::time::Timestamp;
use crate::store::{Session, SessionChange, StoreError, due, rows};

/// The first part checks the revision: if it is not the one that the decision saw, nothing is written. The result has one row
/// if the write happened. Those who wait are notified if the write may start a wake or stop a run.
const WRITE: &str = "
    WITH held AS (
      UPDATE fullsend.sessions
      SET revision = revision + 1, unreadable_by = NULL, state = $3, owner = $4, held_until_ms = $5,
          again_ms = $6, input_ms = $7, high_ms = $8, normal_ms = $9, low_ms = $10
      WHERE id = $1 AND revision = $2
      RETURNING id
    ), new_events AS (
      INSERT INTO fullsend.events (session_id, seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum)
      SELECT held.id, new.*
      FROM held, unnest($11::bigint[], $12::uuid[], $13::bigint[], $14::uuid[], $15::integer[], $16::text[],
                        $17::boolean[], $18::text[], $19::bytea[]) AS new
    ), new_memory AS (
      INSERT INTO fullsend.memory (session_id, name, content)
      SELECT held.id, new.* FROM held, unnest($20::text[], $21::bytea[]) AS new
      ON CONFLICT (session_id, name) DO UPDATE SET content = excluded.content
    ), gone_memory AS (
      DELETE FROM fullsend.memory USING held WHERE session_id = held.id AND name = ANY($22::text[])
    )
    SELECT CASE WHEN $23::text IS NULL THEN NULL ELSE pg_notify($24, $23)::text END FROM held";

const INSERT_EVENTS: &str = "
    INSERT INTO fullsend.events (session_id, seq, id, time_ms, wake_id, version, type, is_conversation, payload, checksum)
    SELECT $1, new.*
    FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::uuid[], $6::integer[], $7::text[],
                $8::boolean[], $9::text[], $10::bytea[]) AS new";

/// Writes state, events and memory. `false` if another writer was faster, or the session already has one of the events.
pub(crate) fn write(
    client: &mut BlockingClient,
    before: &Session,
    revision: i64,
    change: &SessionChange,
) -> Result<bool, StoreError> {
    let SessionChange {
        state,
        holder,
        events,
        memory,
        deleted_memory,
        learnings: _,
        learnings_kept: _,
        children: _,
    } = change;
    let id = before.header.id;
    let DueTimes { again, input, high, normal, low } = due(state, holder.as_ref());
    let number = |time: Option<Timestamp>| time.map(|time| time.0);
    let owner = holder.as_ref().map(|holder| &holder.owner);
    let until = holder.as_ref().map(|holder| holder.until_ms.0);
    let Columns { seqs, ids, times, wakes, versions, kinds, conversations, payloads, checksums } =
        Columns::of(id, events)?;
    let names: Vec<&String> = memory.iter().map(|MemoryFile { name, .. }| name).collect();
    let contents: Vec<&[u8]> = memory.iter().map(|MemoryFile { content, .. }| content.as_bytes()).collect();
    let rows = client.query(
        WRITE,
        &[
            &id.0,
            &revision,
            &rows::state(&before.header, state)?,
            &owner,
            &until,
            &number(again),
            &number(input),
            &number(high),
            &number(normal),
            &number(low),
            &seqs,
            &ids,
            &times,
            &wakes,
            &versions,
            &kinds,
            &conversations,
            &payloads,
            &checksums,
            &names,
            &contents,
            deleted_memory,
            &notification(before, change),
            &CHANNEL,
        ],
    );
    match rows {
        Ok(rows) => Ok(!rows.is_empty()),
        Err(error) if is_known_event(&error) => Ok(false),
        Err(error) => Err(at("commit")(error)),
    }
}

/// How far ahead a wake is notified. Workers look again within that time anyway.
const NOTIFIED_AHEAD_MS: u64 = 30_000;

/// The content of a notification: a session that may be due now or soon, or an interrupt of a running one.
fn notification(before: &Session, change: &SessionChange) -> Option<String> {
    let SessionChange { state, holder, events, .. } = change;
    if state.interrupts.len() > before.state.interrupts.len() {
        return Some(before.header.id.to_string());
    }
    let written_at = events.last()?.time_ms;
    if holder.is_some() {
        return None;
    }
    let soon = written_at.plus_ms(NOTIFIED_AHEAD_MS);
    let first = |times: DueTimes| {
        let DueTimes { again, input, high, normal, low } = times;
        let input = input.map(|_| Timestamp(0));
        [again, input, high, normal, low].into_iter().flatten().min()
    };
    let new = first(due(state, None)).filter(|at| *at <= soon)?;
    let is_new = first(due(&before.state, before.holder.as_ref())).is_none_or(|old| new < old);
    is_new.then(String::new)
}

fn is_known_event(error: &CallError) -> bool {
    error.server().is_some_and(|error| error.constraint() == Some("events_id"))
}

pub(crate) fn insert_events(
    client: &mut BlockingClient,
    id: SessionId,
    events: &[SessionEvent],
) -> Result<(), StoreError> {
    let Columns { seqs, ids, times, wakes, versions, kinds, conversations, payloads, checksums } =
        Columns::of(id, events)?;
    let row: [&dyn SqlValue; 10] =
        [&id.0, &seqs, &ids, &times, &wakes, &versions, &kinds, &conversations, &payloads, &checksums];
    client.execute(INSERT_EVENTS, &row).map_err(at("write events"))?;
    Ok(())
}

pub(crate) fn insert_learnings(
    client: &mut BlockingClient,
    header: &SessionHeader,
    learnings: &[StoredLearning],
    kept: usize,
) -> Result<(), StoreError> {
    let step = "write learnings";
    let sql = "INSERT INTO fullsend.learnings (repository, agent, key, learning) VALUES ($1, $2, $3, $4)
               ON CONFLICT DO NOTHING";
    let repository = header.repository.as_deref().unwrap_or_default();
    for learning in learnings {
        let key = learning.learning.key().0.to_vec();
        client.execute(sql, &[&repository, &header.agent, &key, &rows::json(learning)?]).map_err(at(step))?;
    }
    let sql = "DELETE FROM fullsend.learnings WHERE number IN
               (SELECT number FROM fullsend.learnings WHERE repository = $1 AND agent = $2
                ORDER BY number DESC LIMIT 100 OFFSET $3)";
    client.execute(sql, &[&repository, &header.agent, &rows::count(kept)]).map_err(at(step))?;
    Ok(())
}

pub(crate) fn insert_session(
    client: &mut BlockingClient,
    header: &SessionHeader,
) -> Result<bool, StoreError> {
    let sql =
        "INSERT INTO fullsend.sessions (id, agent, repository, header, state, labels) VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT DO NOTHING";
    let state = rows::state(header, &SessionState::default())?;
    let repository = header.repository.as_deref().unwrap_or_default();
    let row: [&dyn SqlValue; 6] =
        [&header.id.0, &header.agent, &repository, &rows::json(header)?, &state, &header.labels];
    Ok(client.execute(sql, &row).map_err(at("create a session"))? == 1)
}

/// Events as one array per column.
#[derive(Default)]
struct Columns {
    seqs: Vec<i64>,
    ids: Vec<Uuid>,
    times: Vec<i64>,
    wakes: Vec<Option<Uuid>>,
    versions: Vec<i32>,
    kinds: Vec<String>,
    conversations: Vec<bool>,
    payloads: Vec<String>,
    checksums: Vec<Vec<u8>>,
}

impl Columns {
    fn of(session: SessionId, events: &[SessionEvent]) -> Result<Self, StoreError> {
        let mut columns = Self::default();
        for event in events {
            let SealedEvent { seq, id, time_ms, wake_id, version, kind, is_conversation, payload, checksum } =
                rows::seal(session, event)?;
            columns.seqs.push(seq);
            columns.ids.push(id);
            columns.times.push(time_ms);
            columns.wakes.push(wake_id);
            columns.versions.push(version);
            columns.kinds.push(kind);
            columns.conversations.push(is_conversation);
            columns.payloads.push(payload);
            columns.checksums.push(checksum);
        }
        Ok(columns)
    }
}
