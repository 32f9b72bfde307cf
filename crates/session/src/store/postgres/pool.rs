//! The connections of one process to one server. Each call takes one and gives it back, so that a process with many threads
//! needs few. One of them receives notifications for all threads; calls use it too while no thread waits, so that an idle worker
//! has one connection.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::address::{Address, PostgresOptions};
use super::client::CallError;
use super::connect::{PostgresConnection, at, check_version, migrate};
use crate::store::StoreError;

/// The most connections of one process. A call holds one only while it talks to the server.
const MAX_CONNECTIONS: usize = 8;

/// How long an unused connection is kept.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// How long a thread waits before it looks whether it must receive notifications itself.
const HANDOVER: Duration = Duration::from_millis(250);

/// How long a notification to oneself may take. Behind a pooler in transaction mode none arrives.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a waiting thread looks by itself where no notifications arrive.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

const MAX_REMEMBERED: usize = 1_000;

pub(crate) const CHANNEL: &str = "fullsend_sessions";

/// A payload that matches for every waiting thread: notifications may have been missed.
const ALL: &str = "*";

pub(crate) struct Pool {
    address: Address,
    connections: Mutex<Connections>,
    freed: Condvar,
    /// The connection that receives notifications. The thread that holds it receives for all.
    listener: Mutex<Option<PostgresConnection>>,
    received: Mutex<Notifications>,
    arrived: Condvar,
}

#[derive(Default)]
struct Connections {
    /// With the time when each was given back.
    idle: Vec<(PostgresConnection, Instant)>,
    open: usize,
    is_checked: bool,
}

/// The last notifications, numbered from 1.
struct Notifications {
    payloads: VecDeque<String>,
    last: u64,
    /// Whether notifications arrive at all.
    works: bool,
}

static POOLS: Mutex<Vec<(String, Weak<Pool>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// The pool of this process for an address.
    pub(crate) fn of(url: &str, options: &PostgresOptions) -> Result<Arc<Self>, StoreError> {
        let key = format!("{} {url}", options.call_timeout.as_millis());
        let mut pools = lock(&POOLS);
        pools.retain(|(_, pool)| pool.strong_count() > 0);
        let known = pools.iter().find(|(known, _)| *known == key).and_then(|(_, pool)| pool.upgrade());
        if let Some(pool) = known {
            return Ok(pool);
        }
        let pool = Arc::new(Self {
            address: Address::parse(url, options)?,
            connections: Mutex::default(),
            freed: Condvar::new(),
            listener: Mutex::new(None),
            received: Mutex::new(Notifications { payloads: VecDeque::new(), last: 0, works: true }),
            arrived: Condvar::new(),
        });
        pools.push((key, Arc::downgrade(&pool)));
        Ok(pool)
    }

    /// Checks the version of the tables once per process, and migrates them if that is needed and allowed.
    pub(crate) fn check(self: &Arc<Self>) -> Result<(), StoreError> {
        if lock(&self.connections).is_checked {
            return Ok(());
        }
        let mut connection = self.take()?;
        if !check_version(&mut connection.client)? {
            if !self.address.options.migrate {
                return Err(StoreError::NotMigrated);
            }
            migrate(&mut connection.client).map_err(|error| match error {
                // A large table takes longer than a call may.
                StoreError::Rights { .. } | StoreError::Busy { .. } => StoreError::NotMigrated,
                other => other,
            })?;
        }
        lock(&self.connections).is_checked = true;
        Ok(())
    }

    /// A connection that probably works. A failed call is not repeated here: the caller knows whether it may be.
    pub(crate) fn take(self: &Arc<Self>) -> Result<PooledConnection, StoreError> {
        let deadline = Instant::now() + self.address.options.call_timeout;
        let mut connections = lock(&self.connections);
        loop {
            if let Some((connection, _)) = connections.idle.pop() {
                if connection.client.is_usable() {
                    return Ok(self.checked_out(connection));
                }
                connections.open -= 1;
            } else if let Some(connection) = self.borrow_listener() {
                let mut lent = self.checked_out(connection);
                lent.is_listener = true;
                return Ok(lent);
            } else if connections.open < MAX_CONNECTIONS {
                connections.open += 1;
                break;
            } else {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(StoreError::Busy { step: "get a connection" });
                }
                connections =
                    self.freed.wait_timeout(connections, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        drop(connections);
        match PostgresConnection::open(&self.address) {
            Ok(connection) => Ok(self.checked_out(connection)),
            Err(error) => {
                lock(&self.connections).open -= 1;
                self.freed.notify_one();
                Err(error)
            }
        }
    }

    fn checked_out(self: &Arc<Self>, connection: PostgresConnection) -> PooledConnection {
        PooledConnection { pool: Arc::clone(self), connection: Some(connection), is_listener: false }
    }

    /// The connection that receives notifications, if no thread waits for them now.
    fn borrow_listener(&self) -> Option<PostgresConnection> {
        let connection = self.listener.try_lock().ok()?.take()?;
        // A broken one is dropped, and the next thread that waits makes another.
        connection.client.is_usable().then_some(connection)
    }

    /// Closes connections that have not been used for a while.
    fn close_idle(&self) {
        let mut connections = lock(&self.connections);
        let before = connections.idle.len();
        connections.idle.retain(|(_, since)| since.elapsed() < IDLE_LIMIT);
        connections.open -= before - connections.idle.len();
    }

    /// A connection to receive notifications: one that is idle, or a new one.
    fn open_listener(&self) -> Result<PostgresConnection, StoreError> {
        let mut connections = lock(&self.connections);
        if let Some((connection, _)) = connections.idle.pop() {
            connections.open -= 1;
            if connection.client.is_usable() {
                return Ok(connection);
            }
        }
        drop(connections);
        PostgresConnection::open(&self.address)
    }

    /// The number of the last notification so far.
    pub(crate) fn last_notification(&self) -> u64 {
        lock(&self.received).last
    }

    /// Waits for a matching notification after number `seen`. Returns whether one arrived, or may have been missed.
    pub(crate) fn wait(
        &self,
        seen: &mut u64,
        fits: &dyn Fn(&str) -> bool,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let end = Instant::now() + timeout;
        loop {
            let received = lock(&self.received);
            if received.take(seen, fits) {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if !received.works {
                drop(received);
                std::thread::sleep(left.min(POLL_INTERVAL));
                return Ok(left >= POLL_INTERVAL);
            }
            drop(received);
            match self.listener.try_lock() {
                Ok(mut listener) => self.receive(&mut listener, left)?,
                Err(TryLockError::Poisoned(poisoned)) => self.receive(&mut poisoned.into_inner(), left)?,
                Err(TryLockError::WouldBlock) => {
                    let received = lock(&self.received);
                    drop(self.arrived.wait_timeout(received, left.min(HANDOVER)));
                }
            }
        }
    }

    /// Receives notifications for all threads, for a while.
    fn receive(&self, listener: &mut Option<PostgresConnection>, left: Duration) -> Result<(), StoreError> {
        if listener.is_none() {
            let mut connection = self.open_listener()?;
            let works = self.listen(&mut connection).map_err(at("wait"))?;
            // The store may have changed before, so every thread looks again.
            let mut received = lock(&self.received);
            received.works = works;
            received.push(ALL.to_owned());
            if works {
                *listener = Some(connection);
            }
            self.arrived.notify_all();
            return Ok(());
        }
        self.close_idle();
        let Some(connection) = listener.as_mut() else { return Ok(()) };
        let first = match connection.client.notification(left.min(HANDOVER)) {
            Ok(first) => first,
            Err(error) => {
                *listener = None;
                return Err(at("wait")(error));
            }
        };
        let Some(first) = first else { return Ok(()) };
        let mut received = lock(&self.received);
        received.push(first);
        // One search serves all notifications that have arrived.
        while let Ok(Some(payload)) = connection.client.notification(Duration::ZERO) {
            received.push(payload);
        }
        self.arrived.notify_all();
        Ok(())
    }

    /// Listens, and finds out whether notifications arrive.
    fn listen(&self, connection: &mut PostgresConnection) -> Result<bool, CallError> {
        let client = &mut connection.client;
        client.batch_execute(&format!("LISTEN {CHANNEL}"))?;
        let probe = format!("probe {:p} {}", self, std::process::id());
        client.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &probe])?;
        let end = Instant::now() + PROBE_TIMEOUT;
        while Instant::now() < end {
            match client.notification(end.saturating_duration_since(Instant::now()))? {
                Some(payload) if payload == probe => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }
}

impl Notifications {
    fn push(&mut self, payload: String) {
        self.payloads.push_back(payload);
        self.last += 1;
        if self.payloads.len() > MAX_REMEMBERED {
            self.payloads.pop_front();
        }
    }

    /// Whether a notification after number `seen` matches. Marks all as seen.
    fn take(&self, seen: &mut u64, fits: &dyn Fn(&str) -> bool) -> bool {
        let new = usize::try_from(self.last - *seen).unwrap_or(usize::MAX);
        *seen = self.last;
        let missed = new > self.payloads.len();
        missed || self.payloads.iter().rev().take(new).any(|payload| payload == ALL || fits(payload))
    }
}

/// A connection that goes back to its pool.
pub(crate) struct PooledConnection {
    pool: Arc<Pool>,
    connection: Option<PostgresConnection>,
    /// Whether it returns to receiving notifications.
    is_listener: bool,
}

impl Deref for PooledConnection {
    type Target = PostgresConnection;

    #[expect(clippy::expect_used, reason = "only a dropped one is empty")]
    fn deref(&self) -> &PostgresConnection {
        self.connection.as_ref().expect("the connection is here until it is dropped")
    }
}

impl DerefMut for PooledConnection {
    #[expect(clippy::expect_used, reason = "only a dropped one is empty")]
    fn deref_mut(&mut self) -> &mut PostgresConnection {
        self.connection.as_mut().expect("the connection is here until it is dropped")
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if self.is_listener {
            // If another thread listens meanwhile, this connection is no longer needed.
            if let Ok(mut listener) = self.pool.listener.try_lock()
                && listener.is_none()
                && connection.client.is_usable()
            {
                *listener = Some(connection);
            }
            return;
        }
        let mut connections = lock(&self.pool.connections);
        if connection.client.is_usable() {
            connections.idle.push((connection, Instant::now()));
        } else {
            // The other connections are older than the fault, too.
            connections.open -= 1 + connections.idle.len();
            connections.idle.clear();
        }
        drop(connections);
        self.pool.freed.notify_one();
    }
}
