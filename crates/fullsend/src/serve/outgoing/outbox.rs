//! The outbox: which events were reported, and the deliveries that wait or were given up. One transaction marks an event as
//! reported and queues its deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde_json::{Value as Json, json};

use super::webhook::{OutgoingWebhook, WebhookEventKind};
use crate::event::clock::Moment;

const SCHEMA: &str = "
CREATE TABLE reported (type TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (type, key)) STRICT, WITHOUT ROWID;
CREATE TABLE deliveries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  webhook TEXT NOT NULL,
  type TEXT NOT NULL,
  body TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  -- NULL: given up.
  due_ms INTEGER,
  status INTEGER,
  problem TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (webhook, due_ms) WHERE due_ms IS NOT NULL;
PRAGMA user_version = 1;
";
const VERSION: i64 = 1;

/// The key that marks that events of a kind were searched before. Events that existed at the first search are not
/// reported.
const BASELINE: &str = "";

/// How many given-up deliveries are listed; older ones are removed.
const MAX_DEAD: i64 = 1000;
/// How many deliveries wait for one webhook. Further ones are given up at once, so that one unavailable receiver does
/// not delay the others.
const MAX_WAITING: i64 = 10_000;
/// The longest wait for a delivery before the outbox is read again.
const MAX_WAIT: Duration = Duration::from_secs(60);
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const COLUMNS: &str = "number, id, webhook, type, body, created_ms, attempts, due_ms, status, problem";

#[derive(Debug)]
pub enum OutboxError {
    /// The file with the lock.
    Lock(std::io::Error),
    Version {
        found: i64,
    },
    Database {
        step: &'static str,
        source: rusqlite::Error,
    },
}

impl fmt::Display for OutboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => write!(f, "the outbox of webhooks cannot be locked: {error}"),
            Self::Version { found } => {
                write!(f, "the outbox of webhooks has version {found}, and this fullsend reads {VERSION}")
            }
            Self::Database { step, source } => write!(f, "the outbox of webhooks cannot {step}: {source}"),
        }
    }
}

impl std::error::Error for OutboxError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lock(error) => Some(error),
            Self::Database { source, .. } => Some(source),
            Self::Version { .. } => None,
        }
    }
}

fn at(step: &'static str) -> impl Fn(rusqlite::Error) -> OutboxError {
    move |source| OutboxError::Database { step, source }
}

/// One event for one webhook.
pub(super) struct QueuedDelivery {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) webhook: String,
    pub(super) kind: String,
    pub(super) body: String,
    pub(super) created_ms: i64,
    pub(super) attempts: u32,
    /// `None`: it was given up.
    pub(super) due_ms: Option<i64>,
    pub(super) status: Option<u16>,
    pub(super) problem: Option<String>,
}

/// How an attempt failed.
pub(super) struct FailedAttempt {
    pub(super) attempts: u32,
    /// `None`: it is given up.
    pub(super) due_ms: Option<i64>,
    pub(super) status: Option<u16>,
    pub(super) problem: String,
}

/// The deliveries of one webhook.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::serve) struct WebhookCounts {
    pub(in crate::serve) webhook: String,
    pub(in crate::serve) waiting: u64,
    pub(in crate::serve) dead: u64,
}

pub(super) struct Outbox {
    connection: Mutex<Connection>,
    /// A delivery was queued.
    queued: Condvar,
}

impl Outbox {
    pub(super) fn open(path: &Path) -> Result<Self, OutboxError> {
        let step = "be opened";
        let mut connection = Connection::open(path).map_err(at(step))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(at(step))?;
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
            .map_err(at(step))?;
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at(step))?;
        match transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(at(step))? {
            0 => transaction.execute_batch(SCHEMA).map_err(at(step))?,
            VERSION => {}
            found => return Err(OutboxError::Version { found }),
        }
        transaction.commit().map_err(at(step))?;
        Ok(Self { connection: Mutex::new(connection), queued: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys that were reported, or `None` if events of this kind were never searched.
    pub(super) fn reported(&self, kind: WebhookEventKind) -> Result<Option<BTreeSet<String>>, OutboxError> {
        let step = "be read";
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT key FROM reported WHERE type = ?1").map_err(at(step))?;
        let keys = statement.query_map([kind.word()], |row| row.get(0)).map_err(at(step))?;
        let mut keys: BTreeSet<String> = keys.collect::<Result<_, _>>().map_err(at(step))?;
        Ok(keys.remove(BASELINE).then_some(keys))
    }

    /// Records the events of the first search as known. None of them is reported.
    pub(super) fn begin(&self, kind: WebhookEventKind, keys: &BTreeSet<String>) -> Result<(), OutboxError> {
        let step = "be written";
        let mut connection = self.lock();
        let transaction = connection.transaction().map_err(at(step))?;
        for key in keys.iter().map(String::as_str).chain([BASELINE]) {
            let sql = "INSERT OR IGNORE INTO reported (type, key) VALUES (?1, ?2)";
            transaction
                .prepare_cached(sql)
                .and_then(|mut it| it.execute([kind.word(), key]))
                .map_err(at(step))?;
        }
        transaction.commit().map_err(at(step))
    }

    /// Queues one event for every webhook that wants it. An event that was reported is not queued again.
    pub(super) fn report(
        &self,
        kind: WebhookEventKind,
        key: &str,
        data: &Json,
        webhooks: &[Arc<OutgoingWebhook>],
    ) -> Result<(), OutboxError> {
        let step = "be written";
        let now = Moment::now();
        let body = json!({ "type": kind.word(), "timestamp": now.rfc3339(), "data": data }).to_string();
        let mut connection = self.lock();
        let transaction = connection.transaction().map_err(at(step))?;
        let marked = transaction
            .execute("INSERT OR IGNORE INTO reported (type, key) VALUES (?1, ?2)", [kind.word(), key])
            .map_err(at(step))?;
        if marked == 0 {
            return Ok(());
        }
        for webhook in webhooks.iter().filter(|webhook| webhook.events.contains(&kind)) {
            let id = format!("msg_{}", uuid::Uuid::now_v7().simple());
            let count = "SELECT count(*) FROM deliveries WHERE webhook = ?1 AND due_ms IS NOT NULL";
            let waiting: i64 =
                transaction.query_row(count, [&webhook.name], |row| row.get(0)).map_err(at(step))?;
            let due = Some(stored(now)).filter(|_| waiting < MAX_WAITING);
            let problem = due.is_none().then_some("too many deliveries wait for this webhook");
            let sql = "INSERT INTO deliveries (id, webhook, type, body, created_ms, due_ms, problem) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let row = params![id, webhook.name, kind.word(), body, stored(now), due, problem];
            transaction.execute(sql, row).map_err(at(step))?;
        }
        remove_oldest_dead(&transaction)?;
        transaction.commit().map_err(at(step))?;
        self.queued.notify_all();
        Ok(())
    }

    /// Forgets events that are gone: a dead letter that was retried may become one again.
    pub(super) fn forget(&self, kind: WebhookEventKind, keys: &[String]) -> Result<(), OutboxError> {
        let step = "be written";
        let mut connection = self.lock();
        let transaction = connection.transaction().map_err(at(step))?;
        for key in keys {
            let sql = "DELETE FROM reported WHERE type = ?1 AND key = ?2";
            transaction.execute(sql, [kind.word(), key]).map_err(at(step))?;
        }
        transaction.commit().map_err(at(step))
    }

    /// The next delivery of a webhook, as soon as it is due.
    pub(super) fn wait_for_due(&self, webhook: &str) -> Result<QueuedDelivery, OutboxError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM deliveries WHERE webhook = ?1 AND due_ms IS NOT NULL ORDER BY due_ms, number LIMIT 1"
        );
        let mut connection = self.lock();
        loop {
            let next =
                connection.query_row(&sql, [webhook], read_delivery).optional().map_err(at("be read"))?;
            let left = next.as_ref().and_then(|next| next.due_ms).map_or(MAX_WAIT, |due| {
                Duration::from_millis(u64::try_from(due - stored(Moment::now())).unwrap_or(0))
            });
            match next {
                Some(next) if left.is_zero() => return Ok(next),
                _ => {
                    let waited = self.queued.wait_timeout(connection, left.min(MAX_WAIT));
                    connection = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// The receiver took it.
    pub(super) fn remove(&self, number: i64) -> Result<(), OutboxError> {
        let removed = self.lock().execute("DELETE FROM deliveries WHERE number = ?1", [number]);
        removed.map(drop).map_err(at("be written"))
    }

    pub(super) fn fail(&self, number: i64, failed: &FailedAttempt) -> Result<(), OutboxError> {
        let step = "be written";
        let FailedAttempt { attempts, due_ms, status, problem } = failed;
        let connection = self.lock();
        let sql =
            "UPDATE deliveries SET attempts = ?2, due_ms = ?3, status = ?4, problem = ?5 WHERE number = ?1";
        connection.execute(sql, params![number, attempts, due_ms, status, problem]).map_err(at(step))?;
        remove_oldest_dead(&connection)
    }

    /// Gives up deliveries for webhooks that are no longer in the file.
    pub(super) fn give_up_others(&self, names: &[&str]) -> Result<(), OutboxError> {
        let step = "be written";
        let connection = self.lock();
        let mut statement = connection
            .prepare("SELECT DISTINCT webhook FROM deliveries WHERE due_ms IS NOT NULL")
            .map_err(at(step))?;
        let queued = statement.query_map([], |row| row.get(0)).map_err(at(step))?;
        let queued: Vec<String> = queued.collect::<Result<_, _>>().map_err(at(step))?;
        for webhook in queued.iter().filter(|webhook| !names.contains(&webhook.as_str())) {
            let sql = "UPDATE deliveries SET due_ms = NULL, problem = 'no webhook has this name any more' WHERE webhook = ?1";
            connection.execute(sql, [webhook]).map_err(at(step))?;
        }
        Ok(())
    }

    /// Deliveries after this number, lowest first: those that wait, or those that were given up.
    pub(super) fn list(
        &self,
        is_dead: bool,
        after: i64,
        limit: usize,
    ) -> Result<Vec<QueuedDelivery>, OutboxError> {
        let step = "be read";
        let state = if is_dead { "NULL" } else { "NOT NULL" };
        let sql = format!(
            "SELECT {COLUMNS} FROM deliveries WHERE due_ms IS {state} AND number > ?1 ORDER BY number LIMIT ?2"
        );
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&sql).map_err(at(step))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = statement.query_map([after, limit], read_delivery).map_err(at(step))?;
        found.collect::<Result<_, _>>().map_err(at(step))
    }

    /// Queues given-up deliveries of these webhooks again, from their first attempt: these, or all. Returns how many.
    pub(super) fn retry(&self, names: &[&str], ids: Option<&[String]>) -> Result<usize, OutboxError> {
        let step = "be written";
        let now = stored(Moment::now());
        let mut connection = self.lock();
        let transaction = connection.transaction().map_err(at(step))?;
        let sql = "UPDATE deliveries SET due_ms = ?1, attempts = 0 WHERE due_ms IS NULL AND webhook = ?2";
        let mut retried = 0;
        for name in names {
            match ids {
                None => retried += transaction.execute(sql, params![now, name]).map_err(at(step))?,
                Some(ids) => {
                    let one = format!("{sql} AND id = ?3");
                    for id in ids {
                        retried += transaction.execute(&one, params![now, name, id]).map_err(at(step))?;
                    }
                }
            }
        }
        transaction.commit().map_err(at(step))?;
        self.queued.notify_all();
        Ok(retried)
    }

    /// How many deliveries wait for each of these webhooks, and how many were given up.
    pub(super) fn counts(&self, names: &[&str]) -> Result<Vec<WebhookCounts>, OutboxError> {
        let step = "be read";
        let none = |name: &&str| {
            ((*name).to_owned(), WebhookCounts { webhook: (*name).to_owned(), waiting: 0, dead: 0 })
        };
        let mut counts: BTreeMap<String, WebhookCounts> = names.iter().map(none).collect();
        let connection = self.lock();
        let sql = "SELECT webhook, count(due_ms), count(*) - count(due_ms) FROM deliveries GROUP BY webhook";
        let mut statement = connection.prepare_cached(sql).map_err(at(step))?;
        let number =
            |row: &Row<'_>, column| row.get::<_, i64>(column).map(|count| u64::try_from(count).unwrap_or(0));
        let read = |row: &Row<'_>| {
            Ok(WebhookCounts { webhook: row.get(0)?, waiting: number(row, 1)?, dead: number(row, 2)? })
        };
        for found in statement.query_map([], read).map_err(at(step))? {
            let found = found.map_err(at(step))?;
            counts.insert(found.webhook.clone(), found);
        }
        Ok(counts.into_values().collect())
    }
}

fn remove_oldest_dead(connection: &Connection) -> Result<(), OutboxError> {
    let sql = "DELETE FROM deliveries WHERE due_ms IS NULL AND number <= \
               (SELECT number FROM deliveries WHERE due_ms IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?1)";
    connection.execute(sql, [MAX_DEAD]).map(drop).map_err(at("be written"))
}

fn stored(moment: Moment) -> i64 {
    i64::try_from(moment.millis()).unwrap_or(i64::MAX)
}

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<QueuedDelivery> {
    Ok(QueuedDelivery {
        number: row.get(0)?,
        id: row.get(1)?,
        webhook: row.get(2)?,
        kind: row.get(3)?,
        body: row.get(4)?,
        created_ms: row.get(5)?,
        attempts: row.get(6)?,
        due_ms: row.get(7)?,
        status: row.get(8)?,
        problem: row.get(9)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::WebAddress;

    fn webhook(name: &str, events: &[WebhookEventKind]) -> Arc<OutgoingWebhook> {
        Arc::new(OutgoingWebhook {
            name: name.to_owned(),
            address: WebAddress::parse("https://a.example/").unwrap(),
            secret: String::new(),
            events: events.to_vec(),
            timeout: Duration::from_secs(1),
        })
    }

    const KIND: WebhookEventKind = WebhookEventKind::RunFinished;

    #[test]
    fn an_event_is_queued_once_for_those_who_want_it_and_outlives_the_process() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("outbox.sqlite3");
        let outbox = Outbox::open(&path).unwrap();
        assert_eq!(outbox.reported(KIND).unwrap(), None);
        outbox.begin(KIND, &BTreeSet::from(["old".to_owned()])).unwrap();
        assert_eq!(outbox.reported(KIND).unwrap(), Some(BTreeSet::from(["old".to_owned()])));
        let all = [
            webhook("chat", &[WebhookEventKind::RunFinished]),
            webhook("other", &[WebhookEventKind::SessionDeadLetter]),
        ];
        for key in ["old", "new", "new"] {
            outbox.report(KIND, key, &json!({ "id": key }), &all).unwrap();
        }
        drop(outbox);
        let outbox = Outbox::open(&path).unwrap();
        let waiting = outbox.list(false, 0, 10).unwrap();
        assert_eq!(waiting.len(), 1);
        let next = outbox.wait_for_due("chat").unwrap();
        assert_eq!((next.id.as_str(), next.attempts), (waiting[0].id.as_str(), 0));
        assert!(
            next.body.contains(r#""type":"run.finished""#) && next.body.contains(r#""id":"new""#),
            "{}",
            next.body
        );

        let failed =
            FailedAttempt { attempts: 1, due_ms: None, status: Some(410), problem: "gone".to_owned() };
        outbox.fail(next.number, &failed).unwrap();
        let count = |waiting, dead| WebhookCounts { webhook: "chat".to_owned(), waiting, dead };
        assert_eq!(outbox.counts(&["chat"]).unwrap(), [count(0, 1)]);
        assert_eq!(outbox.retry(&["chat"], Some(&["another".to_owned()])).unwrap(), 0);
        assert_eq!(outbox.retry(&["renamed"], None).unwrap(), 0, "it has no sender");
        assert_eq!(outbox.retry(&["chat"], Some(std::slice::from_ref(&next.id))).unwrap(), 1);
        assert_eq!(outbox.counts(&["chat"]).unwrap(), [count(1, 0)]);
        outbox.give_up_others(&["chat"]).unwrap();
        assert_eq!(outbox.counts(&["chat"]).unwrap(), [count(1, 0)]);
        outbox.give_up_others(&["renamed"]).unwrap();
        assert_eq!(
            outbox.list(true, 0, 10).unwrap()[0].problem.as_deref(),
            Some("no webhook has this name any more")
        );
        outbox.remove(next.number).unwrap();
        assert_eq!(outbox.counts(&["chat"]).unwrap(), [count(0, 0)]);
        outbox.forget(KIND, &["new".to_owned()]).unwrap();
        outbox.report(KIND, "new", &json!({}), &all).unwrap();
        assert_eq!(outbox.counts(&["chat"]).unwrap(), [count(1, 0)], "what is forgotten is reported again");
    }

    #[test]
    fn given_up_deliveries_are_bounded() {
        let place = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(&place.path().join("outbox.sqlite3")).unwrap();
        outbox
            .lock()
            .execute_batch(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) \
                 INSERT INTO deliveries (id, webhook, type, body, created_ms) SELECT 'old' || i, 'chat', 't', 'b', 1 FROM n",
                MAX_DEAD + 5
            ))
            .unwrap();
        outbox.report(KIND, "new", &json!({}), &[webhook("chat", &[WebhookEventKind::RunFinished])]).unwrap();
        let next = outbox.wait_for_due("chat").unwrap();
        let failed = FailedAttempt { attempts: 9, due_ms: None, status: None, problem: "no".to_owned() };
        outbox.fail(next.number, &failed).unwrap();
        let dead = outbox.list(true, 0, 5000).unwrap();
        assert_eq!(dead.len(), usize::try_from(MAX_DEAD).unwrap());
        assert_eq!(dead.last().map(|last| last.number), Some(next.number));
    }

    #[test]
    fn a_receiver_that_is_down_keeps_nothing_from_the_others() {
        let place = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(&place.path().join("outbox.sqlite3")).unwrap();
        outbox
            .lock()
            .execute_batch(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_WAITING}) \
                 INSERT INTO deliveries (id, webhook, type, body, created_ms, due_ms) \
                 SELECT 'old' || i, 'down', 't', 'b', 1, 1 FROM n"
            ))
            .unwrap();
        let both = [webhook("chat", &[KIND]), webhook("down", &[KIND])];
        outbox.report(KIND, "new", &json!({}), &both).unwrap();
        assert_eq!(outbox.wait_for_due("chat").unwrap().kind, "run.finished");
        let dead = outbox.list(true, 0, 10).unwrap();
        assert_eq!(dead[0].problem.as_deref(), Some("too many deliveries wait for this webhook"));
        assert_eq!((dead.len(), dead[0].webhook.as_str()), (1, "down"));
    }
}
