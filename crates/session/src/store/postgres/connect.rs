//! Connections to a PostgreSQL server: the address, the settings of a connection, the migrations, the errors.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use postgres::config::Host;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, Statement};

use crate::store::StoreError;

/// The migrations in order: each brings a database to the next version.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql"), include_str!("schema_2.sql")];

/// The number of the advisory lock: any number that no other program uses.
const MIGRATION_LOCK: i64 = 0x6675_6c6c_7365_6e64;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const NETWORK_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection and its prepared statements.
pub(crate) struct PostgresConnection {
    pub(crate) client: Client,
    statements: HashMap<&'static str, Statement>,
    pub(crate) is_listening: bool,
}

impl PostgresConnection {
    pub(crate) fn open(config: &Config) -> Result<Self, StoreError> {
        let mut client = config.connect(NoTls).map_err(at("connect"))?;
        // A server may be configured to acknowledge a commit before its disk has it. That could lose acknowledged events.
        let settings = "SET statement_timeout = '60s'; SET lock_timeout = '10s';
             SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = 'warning';
             SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') = 'off'";
        client.batch_execute(settings).map_err(at("connect"))?;
        Ok(Self { client, statements: HashMap::new(), is_listening: false })
    }

    /// Prepares a statement once per connection.
    pub(crate) fn prepare(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).map_err(at("prepare a statement"))?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

/// Parses an address. It must name a user and an IP address or a socket: this static program resolves no host names.
pub(crate) fn parse(url: &str) -> Result<Config, StoreError> {
    let refuse =
        |what: &str| StoreError::Location { what: format!("the address of the session store {what}") };
    let mut config: Config = url.parse().map_err(|error| refuse(&format!("is not valid: {error}")))?;
    if config.get_user().is_none() {
        return Err(refuse("has no user; write postgres://USER@HOST/DATABASE"));
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(refuse("has no host; write postgres://USER@HOST/DATABASE"));
    }
    if config.get_hostaddrs().is_empty() {
        let is_plain = |host: &Host| match host {
            Host::Tcp(name) => name.parse::<IpAddr>().is_ok(),
            Host::Unix(_) => true,
        };
        if !config.get_hosts().iter().all(is_plain) {
            return Err(refuse("has a host name; add its IP address as ?hostaddr=ADDRESS"));
        }
    }
    config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(NETWORK_TIMEOUT).application_name("fullsend");
    Ok(config)
}

pub(crate) fn migrate(connection: &mut PostgresConnection) -> Result<(), StoreError> {
    let step = "migrate its tables";
    let mut transaction = connection.client.transaction().map_err(at(step))?;
    // The lock lets one worker migrate while others wait.
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).map_err(at(step))?;
    let preparation = "CREATE SCHEMA IF NOT EXISTS fullsend;
         CREATE TABLE IF NOT EXISTS fullsend.migrations (version bigint PRIMARY KEY)";
    transaction.batch_execute(preparation).map_err(at(step))?;
    let sql = "SELECT coalesce(max(version), 0) FROM fullsend.migrations";
    let found: i64 = transaction.query_one(sql, &[]).map_err(at(step))?.get(0);
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        // A newer program migrated the store. This one may go on if that program says so.
        let sql = "SELECT minimum FROM fullsend.compatibility";
        let minimum: i64 = transaction.query_one(sql, &[]).map_err(at(step))?.get(0);
        return if minimum <= known { Ok(()) } else { Err(StoreError::Version { found, known }) };
    }
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
pub(crate) fn at(step: &'static str) -> impl Fn(postgres::Error) -> StoreError {
    const FULL: &[SqlState] = &[SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY];
    const BUSY: &[SqlState] = &[
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    move |error| match error.code() {
        Some(code) if FULL.contains(code) => StoreError::Full { step },
        Some(code) if BUSY.contains(code) => StoreError::Busy { step },
        Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => {
            StoreError::Corrupt { session: None, what: format!("it failed to {step}: {error}") }
        }
        _ => StoreError::Unavailable { step, source: Box::new(error) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_resolver_and_no_guess() {
        for good in [
            "postgres://me@127.0.0.1/db",
            "postgres://me@[::1]:5433/db",
            "postgres://me@%2Frun%2Fpostgresql/db",
            "postgres://me@db.example.test/db?hostaddr=10.0.0.7",
            "host=/run/postgresql user=me dbname=db",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("postgres://127.0.0.1/db", "has no user"),
            ("postgres://me@/db", "has no host"),
            ("postgres://me@db.example.test/db", "has a host name"),
            ("postgres://me@localhost/db", "has a host name"),
            ("mysql://me@127.0.0.1/db", "is not valid"),
        ] {
            let error = parse(bad).err().unwrap().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn a_password_is_not_in_the_message() {
        let error = parse("postgres://me:hunter2@db.example.test/db").err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
