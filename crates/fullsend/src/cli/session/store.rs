//! Which store, which session, and how the library's errors become messages and exit codes.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::configuration::variable;
use super::super::exit::{Exit, Failure};
use session::{
    PostgresStore, SessionError, SessionId, SessionLimits, SessionRefusal, Sessions, SqliteStore, Store,
    StoreError, TimeSeed,
};

/// Where sessions are kept.
#[derive(Args, Debug, Clone)]
pub struct StoreArguments {
    /// A file, or postgres://USER@HOST/DATABASE [default: FULLSEND_SESSION_STORE, else
    /// $XDG_STATE_HOME/fullsend/sessions.db]
    #[arg(long, value_name = "PATH|URL")]
    pub store: Option<String>,
}

/// Which session, and where it is kept.
#[derive(Args, Debug, Clone)]
pub struct SessionArguments {
    /// The session, as `session create` printed it
    #[arg(value_name = "ID", value_parser = parse_session)]
    pub id: SessionId,
    #[command(flatten)]
    pub place: StoreArguments,
}

fn parse_session(text: &str) -> Result<SessionId, String> {
    text.parse()
        .map_err(|_| "a session's id has 36 characters; `fullsend session list` shows them".to_owned())
}

impl StoreArguments {
    /// A connection of its own: each thread has one.
    pub fn open(&self) -> Result<Sessions, Failure> {
        Ok(Sessions::new(self.store()?, SessionLimits::default()))
    }

    fn store(&self) -> Result<Box<dyn Store>, Failure> {
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

/// The store holds what was said to agents: only its owner may look.
fn make_parent(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| {
        Failure::new(Exit::Missing, format!("{} cannot be made: {error}", parent.display()))
            .help("name another place with --store")
    })
}

/// `$XDG_STATE_HOME/fullsend`.
pub fn state_directory() -> Result<PathBuf, Failure> {
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map(|state| state.join("fullsend")).ok_or_else(|| {
        Failure::new(Exit::Missing, "neither XDG_STATE_HOME nor HOME is set")
            .help("name a store with --store")
    })
}

/// The store's time, and randomness of the operating system's.
pub fn moment(sessions: &mut Sessions) -> Result<TimeSeed, Failure> {
    Ok(crate::wake::seed(sessions.now().map_err(failure)?))
}

/// The one place where an error of the library becomes an exit code.
pub fn failure(error: SessionError) -> Failure {
    let message = error.to_string();
    match error {
        SessionError::NoSession(_) => Failure::new(Exit::Missing, message)
            .help("`fullsend session list` shows those of this store; --store names another"),
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
            .help("somebody runs it now: `fullsend session watch` follows it, `interrupt` stops it"),
        SessionRefusal::NoSuchRequest { .. } => {
            Failure::new(Exit::Usage, message).help("`fullsend session show` lists the open requests")
        }
        _ => Failure::new(Exit::Usage, message),
    }
}

/// The text itself, or for `-` what standard input holds, within the bound of one event.
pub fn text(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let most = SessionLimits::default().input_bytes;
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(Exit::Missing, format!("standard input cannot be read: {error}")))?;
    if bytes.len() > most {
        return Err(Failure::new(Exit::Usage, format!("standard input has more than {most} bytes"))
            .help("put it into a file of the repository or a resource, and say where it is"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(Exit::Usage, "standard input is not UTF-8"))
}
