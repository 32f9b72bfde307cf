//! Where a campaign takes place: a file, or a server of its own behind a proxy.

use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::fixture::Directory;
use crate::proxy::Proxy;
use session::{PostgresOptions, PostgresStore, SessionLimits, Sessions, SqliteStore};

pub(crate) struct Place {
    directory: Directory,
    pub(crate) server: Option<Server>,
}

pub(crate) struct Server {
    pub(crate) cluster: Cluster,
    pub(crate) proxy: Proxy,
    pub(crate) database: String,
}

/// How workers and senders reach the store.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) store: String,
    pub(crate) journal: PathBuf,
}

impl Place {
    pub(crate) fn sqlite() -> Result<Self, String> {
        Ok(Self { directory: Directory::new(), server: None })
    }

    pub(crate) fn postgres() -> Result<Self, String> {
        let cluster = Cluster::with_clock()?;
        let database = cluster.database();
        let proxy = Proxy::start(cluster.directory());
        Ok(Self { directory: Directory::new(), server: Some(Server { cluster, proxy, database }) })
    }

    /// Through the proxy, where there is one.
    pub(crate) fn through(&self) -> Route {
        let store = match &self.server {
            Some(server) => server.proxy.url(&server.database),
            None => self.directory.database().display().to_string(),
        };
        Route { store, journal: self.journal() }
    }

    /// Past the proxy.
    pub(crate) fn direct(&self) -> Sessions {
        match &self.server {
            Some(server) => open(&server.database),
            None => open(&self.directory.database().display().to_string()),
        }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}

/// Every call ends long before a lease does.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) fn try_open(store: &str) -> Result<Sessions, String> {
    let limits = SessionLimits { retry_base_ms: 50, retry_cap_ms: 2_000, ..SessionLimits::default() };
    if store.contains("://") {
        let options = PostgresOptions { call_timeout: CALL_TIMEOUT, ..PostgresOptions::default() };
        let opened = PostgresStore::open(store, &options).map_err(|error| error.to_string())?;
        return Ok(Sessions::new(Box::new(opened), limits));
    }
    let opened = SqliteStore::open(&PathBuf::from(store)).map_err(|error| error.to_string())?;
    Ok(Sessions::new(Box::new(opened), limits))
}

fn open(store: &str) -> Sessions {
    try_open(store).unwrap()
}
