//! Writes what a change of one session does to others, inside the transaction of that change. A child locks its own row first
//! and then that of its parent, never the other way round.

use super::client::BlockingClient;
use super::connect::at;
use super::decode::{column, read_event, read_session};
use super::queries::FIND_LOCKED;
use super::write::{insert_session, write};
use crate::decide::children::{ChildEffects, ChildResult, SpawnedSession};
use crate::log::state::SessionState;
use crate::store::{Session, SessionChange, StoreError};

pub(crate) fn write_children(client: &mut BlockingClient, effects: &ChildEffects) -> Result<(), StoreError> {
    let ChildEffects { spawned, result } = effects;
    for SpawnedSession { header, state, events } in spawned {
        insert_session(client, header)?;
        let empty = Session { header: header.clone(), state: SessionState::default(), holder: None };
        let change = SessionChange { events: events.clone(), ..SessionChange::of(state.clone(), None) };
        write(client, &empty, 0, &change)?;
    }
    result.as_ref().map_or(Ok(()), |result| tell_parent(client, result))
}

fn tell_parent(client: &mut BlockingClient, result: &ChildResult) -> Result<(), StoreError> {
    let wanted = vec![result.input.id.0];
    let rows = client.query(FIND_LOCKED, &[&result.parent.0, &wanted]).map_err(at("find a session"))?;
    let Some(first) = rows.first() else { return Ok(()) };
    let session = match read_session(first) {
        // A parent that cannot be read does not stop its child.
        Err(StoreError::Corrupt { .. }) => return Ok(()),
        session => session?,
    };
    let is_known = !matches!(first.try_get::<_, Option<i64>>(5), Ok(None));
    let known = if is_known { vec![read_event(first, 5, result.parent)?] } else { Vec::new() };
    let draft = result.draft(&session.state, &known);
    if let Some(change) = draft.and_then(|draft| SessionChange::from_draft(draft, session.holder.clone())) {
        write(client, &session, column(first, 4)?, &change)?;
    }
    Ok(())
}
