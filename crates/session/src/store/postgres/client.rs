//! One connection to a PostgreSQL server, as plain calls with a time limit each. A connection that does not answer in time is
//! broken for good, so that no caller waits for a server or a network that hangs. All async code of this crate is here.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Row};
use uuid::Uuid;

use super::tls::{TlsFactory, TlsSettings};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    Server(tokio_postgres::Error),
    /// There was no answer in time. Whether the call took effect is not known.
    Timeout(Duration),
    /// The connection cannot be made.
    Setup(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => f.write_str(&describe(error)),
            Self::Timeout(time) => write!(f, "the server did not answer within {} ms", time.as_millis()),
            Self::Setup(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Server(error) => Some(error),
            Self::Timeout(_) | Self::Setup(_) => None,
        }
    }
}

/// The server's own message, or the cause of a broken connection: the library reports only "db error".
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", server.message(), server.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl CallError {
    pub(crate) fn server(&self) -> Option<&tokio_postgres::error::DbError> {
        match self {
            Self::Server(error) => error.as_db_error(),
            Self::Timeout(_) | Self::Setup(_) => None,
        }
    }
}

/// A value of a statement. Its type is known here, so that a statement needs no preparation: a pooler in transaction mode may
/// send the next message to another server.
pub(crate) trait SqlValue {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type);
}

macro_rules! sql_values {
    ($($value:ty => $type:ident),+ $(,)?) => {
        $(impl SqlValue for $value {
            fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
                (self, Type::$type)
            }
        })+
    };
}

sql_values! {
    i32 => INT4, i64 => INT8, bool => BOOL, &str => TEXT, String => TEXT, Uuid => UUID, Vec<u8> => BYTEA,
    Option<i64> => INT8, Option<&str> => TEXT, Option<String> => TEXT, Option<&String> => TEXT,
    Vec<i32> => INT4_ARRAY, Vec<i64> => INT8_ARRAY, Vec<bool> => BOOL_ARRAY,
    Vec<String> => TEXT_ARRAY, Vec<&String> => TEXT_ARRAY,
    Vec<Uuid> => UUID_ARRAY, &[Uuid] => UUID_ARRAY, Vec<Option<Uuid>> => UUID_ARRAY,
    Option<Vec<String>> => TEXT_ARRAY, Option<Vec<u8>> => BYTEA,
    Vec<Vec<u8>> => BYTEA_ARRAY, Vec<&[u8]> => BYTEA_ARRAY,
}

pub(crate) type Values<'a> = &'a [&'a dyn SqlValue];

fn typed<'a>(values: Values<'a>) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| value.typed()).collect()
}

pub(crate) struct BlockingClient {
    executor: Runtime,
    client: Client,
    notifications: UnboundedReceiver<String>,
    call_timeout: Duration,
    is_broken: bool,
}

impl BlockingClient {
    pub(crate) fn connect(config: &Config, tls: &TlsSettings, limit: Duration) -> Result<Self, CallError> {
        let executor = Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| CallError::Setup(error.to_string()))?;
        let tls = TlsFactory::new(tls).map_err(CallError::Setup)?;
        let connecting = async { timeout(limit, config.connect(tls)).await };
        let (client, mut connection) = executor
            .block_on(connecting)
            .map_err(|_| CallError::Timeout(limit))?
            .map_err(CallError::Server)?;
        let (sender, notifications) = unbounded_channel();
        executor.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message
                    && sender.send(notification.payload().to_owned()).is_err()
                {
                    break;
                }
            }
        });
        Ok(Self { executor, client, notifications, call_timeout: limit, is_broken: false })
    }

    /// Whether the connection can be used. It checks whether the connection was closed meanwhile.
    pub(crate) fn is_usable(&self) -> bool {
        let look = async { timeout(Duration::ZERO, std::future::pending::<()>()).await };
        drop(self.executor.block_on(look));
        !self.is_broken && !self.client.is_closed()
    }

    pub(crate) fn query(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, CallError> {
        let Self { executor, client, call_timeout, is_broken, .. } = self;
        call(executor, *call_timeout, is_broken, client.query_typed(sql, &typed(values)))
    }

    pub(crate) fn query_opt(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>, CallError> {
        let Self { executor, client, call_timeout, is_broken, .. } = self;
        call(executor, *call_timeout, is_broken, client.query_typed_opt(sql, &typed(values)))
    }

    pub(crate) fn query_one(&mut self, sql: &str, values: Values<'_>) -> Result<Row, CallError> {
        let Self { executor, client, call_timeout, is_broken, .. } = self;
        call(executor, *call_timeout, is_broken, client.query_typed_one(sql, &typed(values)))
    }

    pub(crate) fn execute(&mut self, sql: &str, values: Values<'_>) -> Result<u64, CallError> {
        let Self { executor, client, call_timeout, is_broken, .. } = self;
        call(executor, *call_timeout, is_broken, client.execute_typed(sql, &typed(values)))
    }

    pub(crate) fn batch_execute(&mut self, sql: &str) -> Result<(), CallError> {
        let Self { executor, client, call_timeout, is_broken, .. } = self;
        call(executor, *call_timeout, is_broken, client.batch_execute(sql))
    }

    /// Begins a transaction. It is rolled back unless it is committed.
    pub(crate) fn transaction(&mut self) -> Result<Transaction<'_>, CallError> {
        self.batch_execute("BEGIN")?;
        Ok(Transaction { client: self, is_over: false })
    }

    /// The payload of the next notification, if one arrives in time.
    pub(crate) fn notification(&mut self, limit: Duration) -> Result<Option<String>, CallError> {
        let Self { executor, notifications, is_broken, .. } = self;
        match executor.block_on(async { timeout(limit, notifications.recv()).await }) {
            Ok(Some(payload)) => Ok(Some(payload)),
            Ok(None) => {
                *is_broken = true;
                Err(CallError::Setup("the connection was closed".to_owned()))
            }
            Err(_) => Ok(None),
        }
    }
}

fn call<T>(
    executor: &Runtime,
    limit: Duration,
    is_broken: &mut bool,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, CallError> {
    match executor.block_on(async { timeout(limit, work).await }) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            // The connection is still usable after an error that the server reports.
            *is_broken |= error.as_db_error().is_none();
            Err(CallError::Server(error))
        }
        Err(_) => {
            *is_broken = true;
            Err(CallError::Timeout(limit))
        }
    }
}

pub(crate) struct Transaction<'a> {
    client: &'a mut BlockingClient,
    is_over: bool,
}

impl Transaction<'_> {
    pub(crate) fn commit(mut self) -> Result<(), CallError> {
        self.is_over = true;
        self.client.batch_execute("COMMIT")
    }
}

impl Deref for Transaction<'_> {
    type Target = BlockingClient;

    fn deref(&self) -> &BlockingClient {
        self.client
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut BlockingClient {
        self.client
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.client.is_broken && self.client.batch_execute("ROLLBACK").is_err() {
            self.client.is_broken = true;
        }
    }
}
