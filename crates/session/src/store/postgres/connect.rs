//! Connections to a PostgreSQL server: the settings of a connection, the migrations, the errors.

use tokio_postgres::error::SqlState;

use super::address::Address;
use super::client::{BlockingClient, CallError};
use crate::store::StoreError;

/// The migrations in order: each brings a database to the next version.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
];

/// The number of the advisory lock: any number that no other program uses.
const MIGRATION_LOCK: i64 = 0x6675_6c6c_7365_6e64;

pub(crate) struct PostgresConnection {
    pub(crate) client: BlockingClient,
}

impl PostgresConnection {
    pub(crate) fn open(address: &Address) -> Result<Self, StoreError> {
        let config = address.resolved().map_err(|error| at("connect")(CallError::Setup(error)))?;
        let limit = address.options.call_timeout;
        let mut client = BlockingClient::connect(&config, &address.tls, limit).map_err(at("connect"))?;
        // The server gives up before the client does. It may be configured to acknowledge a commit before its disk has it,
        // which could lose acknowledged events.
        let limit_ms = limit.as_millis() * 9 / 10;
        let settings = format!(
            "SET statement_timeout = {limit_ms}; SET lock_timeout = {limit_ms};
             SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = 'warning';
             SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') = 'off'"
        );
        client.batch_execute(&settings).map_err(at("connect"))?;
        Ok(Self { client })
    }
}

fn known_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Checks that this program can work on the tables. It takes no lock. Returns `false` if they must be migrated first.
pub(crate) fn check_version(client: &mut BlockingClient) -> Result<bool, StoreError> {
    let step = "read its version";
    let exists = client.query_one("SELECT to_regclass('fullsend.migrations') IS NOT NULL", &[]);
    if !exists.map_err(at(step))?.try_get::<_, bool>(0).unwrap_or(false) {
        return Ok(false);
    }
    let known = known_version();
    let found = version(client)?;
    if found <= known {
        return Ok(found == known);
    }
    // A newer program migrated the store. This one may continue if that program allows it.
    let sql = "SELECT minimum FROM fullsend.compatibility";
    let minimum: i64 = client.query_one(sql, &[]).map_err(at(step))?.try_get(0).unwrap_or(i64::MAX);
    if minimum <= known { Ok(true) } else { Err(StoreError::Version { found, known }) }
}

fn version(client: &mut BlockingClient) -> Result<i64, StoreError> {
    let step = "read its version";
    let sql = "SELECT coalesce(max(version), 0) FROM fullsend.migrations";
    let row = client.query_one(sql, &[]).map_err(at(step))?;
    row.try_get(0).map_err(|error| at(step)(CallError::Server(error)))
}

/// Brings the tables to the version of this program. Needs the rights to create them.
pub(crate) fn migrate(client: &mut BlockingClient) -> Result<(), StoreError> {
    let step = "migrate its tables";
    let mut transaction = client.transaction().map_err(at(step))?;
    // The lock lets one worker migrate while others wait.
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).map_err(at(step))?;
    let preparation = "CREATE SCHEMA IF NOT EXISTS fullsend;
         CREATE TABLE IF NOT EXISTS fullsend.migrations (version bigint PRIMARY KEY)";
    transaction.batch_execute(preparation).map_err(at(step))?;
    let found = version(&mut transaction)?;
    let known = known_version();
    let done = usize::try_from(found).ok().filter(|done| *done <= MIGRATIONS.len());
    let done = done.ok_or(StoreError::Version { found, known })?;
    for migration in &MIGRATIONS[done..] {
        transaction.batch_execute(migration).map_err(at(step))?;
    }
    if found < known {
        transaction
            .execute("INSERT INTO fullsend.migrations (version) VALUES ($1)", &[&known])
            .map_err(at(step))?;
    }
    transaction.commit().map_err(at(step))
}

/// Maps an error of the server to what a caller can do about it.
pub(crate) fn at(step: &'static str) -> impl Fn(CallError) -> StoreError {
    const FULL: &[SqlState] = &[SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY];
    const BUSY: &[SqlState] = &[
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    const RIGHTS: &[SqlState] = &[
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
    ];
    move |error| match error.server().map(|server| server.code().clone()) {
        Some(code) if FULL.contains(&code) => StoreError::Full { step },
        Some(code) if BUSY.contains(&code) => StoreError::Busy { step },
        Some(code) if RIGHTS.contains(&code) => StoreError::Rights { step, why: error.to_string() },
        Some(code) if code == SqlState::DATA_CORRUPTED || code == SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt { session: None, what: format!("it failed to {step}: {error}") }
        }
        _ => StoreError::Unavailable { step, source: Box::new(error) },
    }
}
