//! Options that name the store and the session, and how errors of the session library become messages and exit codes.

use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use egress::resolver::{Resolve, SystemResolver};

use super::super::configuration::{ConfigurationOptions, variable};
use super::super::exit::{Exit, Failure};
use super::super::write_stderr;
use super::default_store::{self, DefaultStore};
use crate::objects;
use session::{
    PostgresOptions, PostgresStore, SessionError, SessionId, SessionLimits, SessionRefusal, Sessions,
    SharedObjects, SqliteStore, Store, StoreError, TimeSeed,
};

/// The store.
#[derive(Args, Debug, Clone, Default)]
pub struct StoreOptions {
    /// Use this store: a file, or postgres://USER@HOST/DATABASE [default: FULLSEND_SESSION_STORE, else a file for each
    /// repository below $XDG_STATE_HOME/fullsend]
    #[arg(long, value_name = "PATH|URL")]
    pub store: Option<String>,
    /// Keep conversations and bundles of runs in this directory, or in s3://BUCKET/PREFIX, which all workers share [default:
    /// FULLSEND_SESSION_OBJECTS, else the store]
    #[arg(long, value_name = "DIR|URL")]
    objects: Option<String>,
    #[arg(skip)]
    opened_objects: OpenedObjects,
    /// Whose default store it is, if not that of the current directory.
    #[arg(skip)]
    configuration: ConfigurationOptions,
}

/// The session and its store.
#[derive(Args, Debug, Clone)]
pub struct SessionOptions {
    /// The id that `session create` printed, or six or more characters of its start or end
    #[arg(value_name = "ID", value_parser = parse_session)]
    pub id: String,
    #[command(flatten)]
    pub store: StoreOptions,
}

/// How many characters of an id name a session.
const SHORT_ID: usize = 6;

fn parse_session(text: &str) -> Result<String, String> {
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == '-';
    if (SHORT_ID..=36).contains(&text.len()) && text.chars().all(is_digit) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("a session id has 36 characters; `fullsend session list` shows them".to_owned())
}

impl SessionOptions {
    /// Opens the store and finds the session that the id names.
    pub fn open(&self) -> Result<(Sessions, SessionId), Failure> {
        let (_, sessions, id) = self.locate()?;
        Ok((sessions, id))
    }

    /// The session that the id names, and its store: that of this repository, or another default store.
    pub fn locate(&self) -> Result<(StoreOptions, Sessions, SessionId), Failure> {
        let location = self.store.location()?;
        let StoreLocation::Default(default) = location else {
            let mut sessions = self.store.open()?;
            let id = self.id.parse().map_or_else(|_| self.find(&mut sessions), |id| Ok(Some(id)))?;
            return id.map(|id| (self.store.clone(), sessions, id)).ok_or_else(|| self.missing());
        };
        let others = default_store::all().into_iter().filter(|path| *path != default.path);
        let others = others.map(|path| StoreOptions {
            store: Some(path.to_string_lossy().into_owned()),
            ..self.store.clone()
        });
        let own = std::iter::once(self.store.clone());
        for store in own.chain(others) {
            let mut sessions = store.open()?;
            if let Some(id) = self.find(&mut sessions)? {
                return Ok((store, sessions, id));
            }
        }
        Err(self.missing())
    }

    fn find(&self, sessions: &mut Sessions) -> Result<Option<SessionId>, Failure> {
        if let Ok(id) = self.id.parse() {
            let is_missing = matches!(sessions.session(id), Err(SessionError::NoSession(_)));
            return Ok((!is_missing).then_some(id));
        }
        let found = sessions.find_ids(&self.id, 2).map_err(failure)?;
        match found[..] {
            [id] => Ok(Some(id)),
            [] => Ok(None),
            _ => Err(Failure::new(
                Exit::Usage,
                format!("more than one session id starts or ends with {}", self.id),
            )
            .help("ids differ most at their end; write more of it")),
        }
    }

    fn missing(&self) -> Failure {
        Failure::new(Exit::Missing, format!("there is no session {}", self.id))
            .help("`fullsend session list` lists the sessions of this store; --store selects another store")
    }
}

/// Sessions of the default store, if it is a file that exists: a shell that completes a word asks no server.
pub fn known_ids(most: usize) -> Vec<String> {
    let options = StoreOptions::default();
    let is_there = match options.location() {
        Ok(StoreLocation::File(path)) => path.is_file(),
        Ok(StoreLocation::Default(default)) => default.path.is_file(),
        Ok(StoreLocation::Server(_)) | Err(_) => false,
    };
    let opened = if is_there { options.open().ok() } else { None };
    let found = opened.and_then(|mut sessions| sessions.find_ids("", most).ok());
    found.unwrap_or_default().iter().map(ToString::to_string).collect()
}

impl StoreOptions {
    /// The same options for the repository that a command names.
    pub fn of(&self, configuration: &ConfigurationOptions) -> Self {
        Self { configuration: configuration.clone(), ..self.clone() }
    }

    /// Opens the store. Each thread has its own.
    pub fn open(&self) -> Result<Sessions, Failure> {
        self.open_within(CALL_TIMEOUT)
    }

    /// Opens the store for calls that end in this time at the latest.
    pub fn open_within(&self, call_timeout: Duration) -> Result<Sessions, Failure> {
        let store: Box<dyn Store> = match self.location()? {
            StoreLocation::Server(url) => {
                let opened = PostgresStore::open(&url, &postgres_options(call_timeout));
                Box::new(opened.map_err(|error| failure(error.into()))?)
            }
            StoreLocation::File(path) => Box::new(open_file(&path)?),
            StoreLocation::Default(default) => {
                let mut store = open_file(&default.path)?;
                if let Err(problem) = default.adopt_from_shared(&mut store) {
                    write_stderr(&format!(
                        "warning: sessions of this repository were not moved: {problem}\n"
                    ));
                }
                Box::new(store)
            }
        };
        let sessions = Sessions::new(store, SessionLimits::default());
        Ok(match self.objects(call_timeout)? {
            Some(objects) => sessions.with_objects(objects),
            None => sessions,
        })
    }

    /// The object store, if one is named.
    fn objects(&self, call_timeout: Duration) -> Result<Option<SharedObjects>, Failure> {
        let Some(address) = self.objects.clone().or_else(|| variable("FULLSEND_SESSION_OBJECTS")) else {
            return Ok(None);
        };
        self.opened_objects.get(&address, call_timeout).map(Some)
    }

    /// Writes, reads and removes an object, if an object store is named. Returns its address.
    pub fn probe_objects(&self) -> Result<Option<String>, Failure> {
        let Some(objects) = self.objects(CALL_TIMEOUT)? else { return Ok(None) };
        let mut seed = crate::wake::time_seed(session::Timestamp(0));
        let probed = objects::probe(objects.store.as_ref(), SessionId::generate(&mut seed));
        probed.map_err(|why| unusable_objects(&why))?;
        Ok(self.objects.clone().or_else(|| variable("FULLSEND_SESSION_OBJECTS")))
    }

    /// Brings the tables of the store to the version of this program.
    pub fn migrate(&self) -> Result<(), Failure> {
        match self.location()? {
            StoreLocation::Server(url) => {
                let options = postgres_options(MIGRATION_TIMEOUT);
                PostgresStore::migrate(&url, &options).map_err(|error| failure(error.into()))
            }
            StoreLocation::File(_) | StoreLocation::Default(_) => self.open().map(drop),
        }
    }

    /// The identity of the store, which does not depend on the current directory or the password.
    pub fn describe_location(&self) -> Result<String, Failure> {
        let whole = |path: &Path| std::path::absolute(path).map_or_else(|_| path.into(), PathBuf::from);
        Ok(match self.location()? {
            StoreLocation::Server(url) => without_credentials(&url),
            StoreLocation::File(path) => whole(&path).display().to_string(),
            StoreLocation::Default(default) => whole(&default.path).display().to_string(),
        })
    }

    fn location(&self) -> Result<StoreLocation, Failure> {
        let given = self.store.clone().or_else(|| variable("FULLSEND_SESSION_STORE"));
        Ok(match given {
            Some(url) if url.contains("://") => StoreLocation::Server(url),
            Some(path) => StoreLocation::File(PathBuf::from(path)),
            None => StoreLocation::Default(DefaultStore::of(&self.configuration)?),
        })
    }
}

/// The object store of this process: all its connections share one, with its key and its state during an outage.
#[derive(Clone, Default)]
struct OpenedObjects(Arc<OnceLock<SharedObjects>>);

impl fmt::Debug for OpenedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenedObjects")
    }
}

impl OpenedObjects {
    fn get(&self, address: &str, call_timeout: Duration) -> Result<SharedObjects, Failure> {
        if let Some(opened) = self.0.get() {
            return Ok(opened.clone());
        }
        let store = objects::open(address, &variable, call_timeout).map_err(|why| unusable_objects(&why))?;
        let warn = Arc::new(|message: &str| write_stderr(&format!("warning: {message}\n")));
        Ok(self.0.get_or_init(|| SharedObjects { store, warn }).clone())
    }
}

fn unusable_objects(why: &str) -> Failure {
    Failure::new(Exit::Missing, format!("the object store of sessions cannot be used: {why}"))
        .help("--objects or FULLSEND_SESSION_OBJECTS names it: a directory, or s3://BUCKET/PREFIX")
}

/// The address of a server without its user, its password and its options.
fn without_credentials(url: &str) -> String {
    let address = url.split('?').next().unwrap_or_default();
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    // The last `@` ends the user: a password may hold a slash or another `@`.
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{place}")
}

enum StoreLocation {
    Server(String),
    File(PathBuf),
    /// The file of a repository.
    Default(DefaultStore),
}

fn open_file(path: &Path) -> Result<SqliteStore, Failure> {
    make_parent(path)?;
    SqliteStore::open(path).map_err(|error| failure(error.into()))
}

/// How long one call of a command may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one step of a migration may take. It may rewrite a large table.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(3_600);

fn postgres_options(call_timeout: Duration) -> PostgresOptions {
    PostgresOptions { call_timeout, variable, resolve: resolve_host, migrate: true }
}

/// The addresses of a host name. This static program cannot use the resolver of the C library.
fn resolve_host(name: &str) -> Result<Vec<IpAddr>, String> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|error| error.to_string())?;
    executor.block_on(SystemResolver::load().resolve(name)).map_err(|error| error.to_string())
}

/// Makes a directory that only its owner can read: the store holds messages.
fn make_parent(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| {
        Failure::new(Exit::Missing, format!("cannot create {}: {error}", parent.display()))
            .help("choose another store with --store")
    })
}

/// The store's time, with a random seed.
pub fn time_seed(sessions: &mut Sessions) -> Result<TimeSeed, Failure> {
    Ok(crate::wake::time_seed(sessions.now().map_err(failure)?))
}

/// The only function that turns an error of the session library into an exit code.
pub fn failure(error: SessionError) -> Failure {
    let message = error.to_string();
    match error {
        SessionError::NoSession(_) => Failure::new(Exit::Missing, message)
            .help("`fullsend session list` lists the sessions of this store; --store selects another store"),
        SessionError::Store(StoreError::Version { .. } | StoreError::Corrupt { .. }) => {
            Failure::new(Exit::Missing, message)
        }
        SessionError::Store(StoreError::NotMigrated) => Failure::new(Exit::Missing, message),
        SessionError::Store(StoreError::Location { .. }) => Failure::new(Exit::Missing, message)
            .help("--store takes a file, or postgres://USER@HOST/DATABASE"),
        SessionError::Store(_) => Failure::new(Exit::Missing, message),
        SessionError::Refused(refusal) => refused(&refusal, message),
    }
}

fn refused(refusal: &SessionRefusal, message: String) -> Failure {
    match refusal {
        SessionRefusal::Blocked { .. } => Failure::new(Exit::Paused, message)
            .help("answer with `fullsend session tool-result` or `fullsend session confirm`"),
        SessionRefusal::Leased { .. } => Failure::new(Exit::Missing, message)
            .help("a worker runs it now: `fullsend session watch` follows it, `fullsend session interrupt` stops it"),
        SessionRefusal::NoSuchRequest { .. } => {
            Failure::new(Exit::Usage, message).help("`fullsend session show` lists the open requests")
        }
        _ => Failure::new(Exit::Usage, message),
    }
}

/// The argument, or standard input for `-`, within the size limit of one event.
pub fn text(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let limit = SessionLimits::default().input_bytes;
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Exit::Missing, format!("cannot read standard input: {error}")))?;
    if bytes.len() > limit {
        return Err(Failure::new(Exit::Usage, format!("standard input has more than {limit} bytes"))
            .help("put it into a file of the repository or a resource, and send its path"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(Exit::Usage, "standard input is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn a_store_is_the_same_after_a_change_of_its_password() {
        for url in
            ["postgres://host/db", "postgres://me@host/db", "postgres://me:a/b@c@host/db?sslmode=require"]
        {
            assert_eq!(without_credentials(url), "postgres://host/db");
        }
    }
}
