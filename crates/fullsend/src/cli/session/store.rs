//! Options that name the store and the session, and how errors of the session library become messages and exit codes.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::configuration::variable;
use super::super::exit::{Exit, Failure};
use session::{
    PostgresStore, SessionError, SessionId, SessionLimits, SessionRefusal, Sessions, SqliteStore, Store,
    StoreError, TimeSeed,
};

/// The store.
#[derive(Args, Debug, Clone)]
pub struct StoreOptions {
    /// Use this store: a file, or postgres://USER@HOST/DATABASE [default: FULLSEND_SESSION_STORE, else
    /// $XDG_STATE_HOME/fullsend/sessions.db]
    #[arg(long, value_name = "PATH|URL")]
    pub store: Option<String>,
}

/// The session and its store.
#[derive(Args, Debug, Clone)]
pub struct SessionOptions {
    /// The id that `session create` printed
    #[arg(value_name = "ID", value_parser = parse_session)]
    pub id: SessionId,
    #[command(flatten)]
    pub store: StoreOptions,
}

fn parse_session(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|_| "a session id has 36 characters; `fullsend session list` shows them".to_owned())
}

impl StoreOptions {
    /// Opens a connection. Each thread has its own.
    pub fn open(&self) -> Result<Sessions, Failure> {
        Ok(Sessions::new(self.connect()?, SessionLimits::default()))
    }

    fn connect(&self) -> Result<Box<dyn Store>, Failure> {
        let given = self.store.clone().or_else(|| variable("FULLSEND_SESSION_STORE"));
        if let Some(url) = given.as_ref().filter(|text| text.contains("://")) {
            return Ok(Box::new(PostgresStore::connect(url).map_err(|error| failure(error.into()))?));
        }
        let path = match given {
            Some(path) => PathBuf::from(path),
            None => state_directory()?.join("sessions.db"),
        };
        make_parent(&path)?;
        Ok(Box::new(SqliteStore::open(&path).map_err(|error| failure(error.into()))?))
    }
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

/// `$XDG_STATE_HOME/fullsend`.
pub fn state_directory() -> Result<PathBuf, Failure> {
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map(|state| state.join("fullsend")).ok_or_else(|| {
        Failure::new(Exit::Missing, "neither XDG_STATE_HOME nor HOME is set")
            .help("choose a store with --store")
    })
}

/// The store's time, with a random seed.
pub fn time_seed(sessions: &mut Sessions) -> Result<TimeSeed, Failure> {
    Ok(crate::wake::time_seed(sessions.now().map_err(failure)?))
}

/// Turns an error of the session library into an exit code. Nothing else does.
pub fn failure(error: SessionError) -> Failure {
    let message = error.to_string();
    match error {
        SessionError::NoSession(_) => Failure::new(Exit::Missing, message)
            .help("`fullsend session list` lists the sessions of this store; --store selects another store"),
        SessionError::Store(StoreError::Version { .. } | StoreError::Corrupt { .. }) => {
            Failure::new(Exit::Missing, message)
        }
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
