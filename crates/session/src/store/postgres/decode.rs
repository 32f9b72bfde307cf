//! How rows of PostgreSQL are read.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::log::event::SessionEvent;
use crate::log::id::SessionId;
use crate::log::seal::SealedEvent;
use crate::store::rows::{self, SessionRow};
use crate::store::{Session, StoreError};

pub(crate) fn read_session(row: &Row) -> Result<Session, StoreError> {
    session_row(row)?.decode()
}

pub(crate) fn session_row(row: &Row) -> Result<SessionRow, StoreError> {
    Ok(SessionRow {
        header: column(row, 0)?,
        state: column(row, 1)?,
        owner: column(row, 2)?,
        held_until_ms: column(row, 3)?,
    })
}

/// A column of a row. A value of another type is damage.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| StoreError::Corrupt { session: None, what: error.to_string() })
}

pub(crate) fn read_event(row: &Row, first: usize, session: SessionId) -> Result<SessionEvent, StoreError> {
    let sealed = SealedEvent {
        seq: column(row, first)?,
        id: column(row, first + 1)?,
        time_ms: column(row, first + 2)?,
        wake_id: column(row, first + 3)?,
        version: column(row, first + 4)?,
        kind: column(row, first + 5)?,
        is_conversation: column(row, first + 6)?,
        payload: column(row, first + 7)?,
        checksum: column(row, first + 8)?,
    };
    rows::open(session, &sealed)
}
