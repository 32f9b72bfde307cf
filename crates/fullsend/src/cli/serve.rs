//! `fullsend serve`: the runs and sessions of this machine in the browser, and as an HTTP API.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use session::{RemoveTerms, SessionId, Sessions};
use tokio::net::TcpListener;

use super::configuration::{ConfigurationOptions, variable};
use super::executor;
use super::exit::{Exit, Failure};
use super::serve_runs::RunStarter;
use super::session::bundle;
use super::session::create::NewSession;
use super::session::default_store::state_directory;
use super::session::store::StoreOptions;
use super::{serve_runs, serve_webhooks, signals, trigger};
use crate::cancel::Cancel;
use crate::fetch::HostNetwork;
use crate::serve::{
    self, AccessRules, AccessToken, Caller, OutgoingWebhook, OutgoingWebhooks, Role, ServeBackend,
    ServeState, Server,
};

/// Holds the token of an operator.
const TOKEN_VARIABLE: &str = "FULLSEND_SERVE_TOKEN";

const SHORTEST_TOKEN: usize = 16;
const LONGEST_NAME: usize = 64;

const TICK: Duration = Duration::from_millis(100);

/// How long the server waits for the runs that it started.
const MAX_ENDING: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
pub struct Arguments {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// Also accept requests for this host name, such as that of a reverse proxy in front of the server
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Accept the tokens in this file. Each line is `NAME viewer TOKEN` or `NAME operator TOKEN`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Run at most this many runs at the same time for callers of the API
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    max_runs: usize,
    /// Accept and send the webhooks in this file
    #[arg(long, value_name = "FILE")]
    webhooks: Option<PathBuf>,
    /// The directory of runs [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    layers: ConfigurationOptions,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::run::runs_directory, Ok)?;
    let own = own_token(arguments)?;
    let mut tokens = arguments.tokens.as_deref().map(read_tokens).transpose()?.unwrap_or_default();
    let operator = Caller { name: "operator".to_owned(), role: Role::Operator };
    tokens.extend(own.as_ref().map(|token| AccessToken::new(token, operator)));
    let directory = state_directory()?.join("serve");
    make_private(&directory)?;
    serve_runs::sweep(&directory);
    let webhooks = arguments.webhooks.as_deref().map(serve_webhooks::read).transpose()?.unwrap_or_default();
    let mut withheld = vec![TOKEN_VARIABLE.to_owned()];
    withheld.extend(webhooks.variables);
    let starter = RunStarter {
        layers: arguments.layers.clone(),
        runs: runs.clone(),
        directory: directory.clone(),
        withheld,
    };
    let backend = backend(arguments, &runs, starter)?;
    let outgoing = open_outgoing(arguments, &runs, &directory, webhooks.outgoing, webhooks.network)?;
    let max_runs = arguments.max_runs;
    let state = ServeState { runs, directory, max_runs, webhooks: webhooks.incoming, outgoing };
    let executor = executor::start(2)?;
    let cancel = Cancel::default();
    signals::watch(executor.handle(), &cancel)?;
    executor.block_on(async {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Missing, format!("cannot listen on {}: {error}", arguments.listen))
                .help("name another address with --listen")
        };
        let listener = TcpListener::bind(arguments.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let access = AccessRules::new(address, &arguments.host, tokens);
        let server = Arc::new(Server::new(state, access, backend));
        let reporting = Arc::clone(&server);
        // Events from now on are reported.
        let started = tokio::task::spawn_blocking(move || serve::start_outgoing(&reporting)).await;
        started.map_err(|error| Failure::new(Exit::Missing, error.to_string()))?;
        // Who listens for others set the token and knows it, and standard output is often a log that others read.
        let shown = own.filter(|_| address.ip().is_loopback());
        let fragment = shown.map(|token| format!("#token={token}")).unwrap_or_default();
        writeln!(std::io::stdout().lock(), "http://{address}/{fragment}")?;
        std::io::stdout().lock().flush()?;
        let serving = tokio::spawn(serve::serve(listener, Arc::clone(&server)));
        while !cancel.is_cancelled() {
            tokio::time::sleep(TICK).await;
        }
        serving.abort();
        end_runs(&server, &cancel).await;
        Ok(Exit::Done)
    })
}

/// Without webhooks to send there is no outbox.
fn open_outgoing(
    arguments: &Arguments,
    runs: &Path,
    directory: &Path,
    webhooks: Vec<OutgoingWebhook>,
    network: Option<HostNetwork>,
) -> Result<Option<OutgoingWebhooks>, Failure> {
    let Some(network) = network else { return Ok(None) };
    // Servers of other runs or another store have an outbox of their own.
    let store = arguments.store.of(&arguments.layers).describe_location()?;
    let runs = std::path::absolute(runs).unwrap_or_else(|_| runs.to_owned());
    let source = format!("{}\0{store}", runs.display());
    let opened = OutgoingWebhooks::open(directory, &source, webhooks, network);
    opened.map(Some).map_err(|error| Failure::new(Exit::Missing, error.to_string()))
}

/// The runs that callers started shut down with the server. After a second signal the server does not wait for them.
async fn end_runs(server: &Server, cancel: &Cancel) {
    let starts = server.starts();
    starts.close();
    let deadline = tokio::time::Instant::now() + MAX_ENDING;
    while starts.count() > 0 && !cancel.is_urgent() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(TICK).await;
        starts.close();
    }
}

/// The token of the environment, or a new one where the address is loopback and no file has tokens.
fn own_token(arguments: &Arguments) -> Result<Option<String>, Failure> {
    match variable(TOKEN_VARIABLE).filter(|token| !token.is_empty()) {
        Some(token) => {
            check_token(TOKEN_VARIABLE, &token)?;
            Ok(Some(token))
        }
        None if arguments.tokens.is_some() => Ok(None),
        None if !arguments.listen.ip().is_loopback() => {
            let why =
                format!("{} can be reached from outside, and {TOKEN_VARIABLE} is not set", arguments.listen);
            Err(Failure::new(Exit::Usage, why)
                .help("set it to a token that callers must show, or listen on 127.0.0.1"))
        }
        None => Ok(Some(format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple()))),
    }
}

pub(super) fn check_token(place: &str, token: &str) -> Result<(), Failure> {
    let is_plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if token.len() >= SHORTEST_TOKEN && is_plain {
        return Ok(());
    }
    let why = format!("{place} must have at least {SHORTEST_TOKEN} letters, digits, `-` or `_`");
    Err(Failure::new(Exit::Usage, why).help("`openssl rand -hex 32` makes one"))
}

/// Lines of a name, a role and a token. Empty lines and those that begin with `#` say nothing.
fn read_tokens(file: &Path) -> Result<Vec<AccessToken>, Failure> {
    let shown = file.display();
    let unreadable =
        |error: std::io::Error| Failure::new(Exit::Missing, format!("cannot read {shown}: {error}"));
    let mode = std::fs::metadata(file).map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        let why = format!("{shown} holds tokens, and other users may read it");
        return Err(Failure::new(Exit::Usage, why).help(format!("chmod 600 {shown}")));
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(index, line)| parse_token(&format!("{shown}:{}", index + 1), line)).collect()
}

fn parse_token(place: &str, line: &str) -> Result<AccessToken, Failure> {
    let wrong = || {
        Failure::new(Exit::Usage, format!("{place}: this is not a token for `serve`"))
            .help("write a name, `viewer` or `operator`, and the token, such as: alice operator TOKEN")
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, role, token] = words[..] else { return Err(wrong()) };
    let role = Role::parse(role).filter(|_| name.len() <= LONGEST_NAME).ok_or_else(wrong)?;
    check_token(&format!("{place}: the token"), token)?;
    Ok(AccessToken::new(token, Caller { name: name.to_owned(), role }))
}

fn backend(arguments: &Arguments, runs: &Path, starter: RunStarter) -> Result<ServeBackend, Failure> {
    let words = |failure: Failure| failure.message;
    let store = arguments.store.of(&arguments.layers);
    let layers = arguments.layers.clone();
    let exported_runs = runs.to_owned();
    let archived_runs = runs.to_owned();
    let imported_layers = arguments.layers.clone();
    let triggered_layers = arguments.layers.clone();
    let exports = state_directory()?.join("exports");
    let archive = state_directory()?.join("archive");
    Ok(ServeBackend {
        open_sessions: Box::new(move || store.open().map_err(words)),
        create_session: Box::new(move |body, sessions| {
            let new = NewSession {
                agent: body.agent.clone(),
                environment: body.environment.clone(),
                reference: body.reference.clone(),
                labels: Vec::new(),
                resources: Vec::new(),
                id: body.id,
            };
            new.create(sessions, &layers).map_err(words)
        }),
        export_session: Box::new(move |sessions, id| {
            make_private(&exports).map_err(words)?;
            let place = exports.join(uuid::Uuid::new_v4().to_string());
            bundle::export_to(sessions, id, &exported_runs, &place, false).map_err(words)?;
            Ok(place)
        }),
        archive_session: Box::new(move |sessions, id| {
            archive_session(sessions, id, &archived_runs, &archive).map_err(words)
        }),
        import_terms: Box::new(move || bundle::import_terms(&imported_layers).map_err(words)),
        save_attachments: Box::new(move |id, attachments| {
            bundle::save_imported(id, attachments).map_err(words)
        }),
        start_run: Box::new(move |start| starter.start(start)),
        evaluate_triggers: Box::new(move |event| {
            let mut opened = triggered_layers.open().map_err(words)?;
            Ok(trigger::evaluate(&mut opened, event, None))
        }),
    })
}

/// Makes a directory that only its owner can read.
fn make_private(directory: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| Failure::new(Exit::Missing, format!("cannot make {}: {error}", directory.display())))
}

/// Exports a session to the archive's directory, terminates it and removes it.
fn archive_session(
    sessions: &mut Sessions,
    id: SessionId,
    runs: &Path,
    archive: &Path,
) -> Result<String, Failure> {
    make_private(archive)?;
    let file = archive.join(format!("{id}.bundle"));
    bundle::export_to(sessions, id, runs, &file, true)?;
    sessions.remove(id, RemoveTerms::Terminated).map_err(super::session::store::failure)?;
    Ok(file.display().to_string())
}
