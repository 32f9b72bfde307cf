//! Where a campaign takes place: a file, or a server of its own behind a proxy, behind a pooler, or with TLS.

use std::path::PathBuf;
use std::time::Duration;

use crate::certificates::certificates;
use crate::cluster::{Cluster, Pooler};
use crate::fixture::Directory;
use crate::proxy::Proxy;
use session::{PostgresOptions, PostgresStore, SessionLimits, Sessions, SqliteStore};

pub(crate) struct Place {
    directory: Directory,
    pub(crate) server: Option<Server>,
}

pub(crate) struct Server {
    pub(crate) cluster: Cluster,
    pub(crate) between: Between,
    pub(crate) database: String,
}

/// What is between the workers and the server.
pub(crate) enum Between {
    Proxy(Proxy),
    /// In transaction mode. The value keeps it alive.
    Pooler(Pooler),
    /// The parameters of a connection with TLS, and its port.
    Tls(String, u16),
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
        let proxy = Proxy::start(cluster.directory());
        Ok(Self::with(Directory::new(), cluster, Between::Proxy(proxy)))
    }

    pub(crate) fn pooler() -> Result<Self, String> {
        let cluster = Cluster::with_clock()?;
        let directory = Directory::new();
        let pooler = cluster.pooler(&directory)?;
        Ok(Self::with(directory, cluster, Between::Pooler(pooler)))
    }

    pub(crate) fn tls() -> Result<Self, String> {
        let directory = Directory::new();
        let files = certificates(&directory);
        let (cluster, port) = Cluster::with_tls(&files)?;
        let shown = |file: &str| files.join(file).display().to_string().replace('/', "%2F");
        let parameters = format!(
            "sslmode=verify-full&hostaddr=127.0.0.1&sslrootcert={}&sslcert={}&sslkey={}",
            shown("ca.pem"),
            shown("client.pem"),
            shown("client.key")
        );
        Ok(Self::with(directory, cluster, Between::Tls(parameters, port)))
    }

    fn with(directory: Directory, cluster: Cluster, between: Between) -> Self {
        let database = cluster.database();
        Self { directory, server: Some(Server { cluster, between, database }) }
    }

    /// Through what is between, where there is something.
    pub(crate) fn through(&self) -> Route {
        let store = match &self.server {
            Some(server) => server.url(),
            None => self.directory.database().display().to_string(),
        };
        Route { store, journal: self.journal() }
    }

    /// Straight to the store.
    pub(crate) fn direct(&self) -> Sessions {
        match &self.server {
            Some(server) => open(&server.database),
            None => open(&self.directory.database().display().to_string()),
        }
    }

    pub(crate) fn proxy(&self) -> Option<&Proxy> {
        match self.server.as_ref().map(|server| &server.between) {
            Some(Between::Proxy(proxy)) => Some(proxy),
            _ => None,
        }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}

impl Server {
    /// Whether its clock can be moved.
    pub(crate) fn has_clock(&self) -> bool {
        !matches!(self.between, Between::Tls(..))
    }

    fn url(&self) -> String {
        match &self.between {
            Between::Proxy(proxy) => proxy.url(&self.database),
            Between::Pooler(pooler) => pooler.url(&self.database),
            Between::Tls(parameters, port) => {
                let (_, name) = self.database.rsplit_once('/').unwrap();
                format!("postgres://fullsend@localhost:{port}/{name}?{parameters}")
            }
        }
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
