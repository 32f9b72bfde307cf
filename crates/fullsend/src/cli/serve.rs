//! `fullsend serve`: the runs of this machine in the browser, and as an HTTP API.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;

use super::configuration::variable;
use super::exit::{Exit, Failure};
use super::session::wake_options::async_runtime;
use super::signals;
use crate::cancel::Cancel;
use crate::serve::{self, AccessRules, AccessToken, Server};

/// Holds the token that callers must show.
const TOKEN_VARIABLE: &str = "FULLSEND_SERVE_TOKEN";

const SHORTEST_TOKEN: usize = 16;

#[derive(Args, Debug)]
pub struct Arguments {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// A further name under which the server is reached, such as that of a proxy in front of it
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The directory of runs [default: $XDG_STATE_HOME/fullsend/runs]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.output_dir.clone().map_or_else(super::run::runs_directory, Ok)?;
    let token = token(arguments)?;
    let runtime = async_runtime()?;
    let cancel = Cancel::default();
    signals::watch(runtime.handle(), &cancel)?;
    runtime.block_on(async {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Missing, format!("cannot listen on {}: {error}", arguments.listen))
                .help("name another address with --listen")
        };
        let listener = TcpListener::bind(arguments.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let access = AccessRules::new(address, &arguments.host, AccessToken::new(&token));
        writeln!(std::io::stdout().lock(), "http://{address}/#token={token}")?;
        std::io::stdout().lock().flush()?;
        let serving = tokio::spawn(serve::serve(listener, Arc::new(Server::new(runs, access))));
        while !cancel.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        serving.abort();
        Ok(Exit::Done)
    })
}

/// The token of the environment, or a new one. Who is reached from outside must be given one.
fn token(arguments: &Arguments) -> Result<String, Failure> {
    match variable(TOKEN_VARIABLE).filter(|token| !token.is_empty()) {
        Some(token) => {
            let is_plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            if token.len() < SHORTEST_TOKEN || !is_plain {
                let why = format!(
                    "{TOKEN_VARIABLE} must have at least {SHORTEST_TOKEN} letters, digits, `-` or `_`"
                );
                return Err(Failure::new(Exit::Usage, why).help("`openssl rand -hex 32` makes one"));
            }
            Ok(token)
        }
        None if !arguments.listen.ip().is_loopback() => {
            let why =
                format!("{} can be reached from outside, and {TOKEN_VARIABLE} is not set", arguments.listen);
            Err(Failure::new(Exit::Usage, why)
                .help("set it to a token that callers must show, or listen on 127.0.0.1"))
        }
        None => Ok(format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())),
    }
}
