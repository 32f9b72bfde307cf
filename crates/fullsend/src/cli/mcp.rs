//! `fullsend mcp`: serves fullsend as tools to an MCP client, over standard input and output or HTTP. Each call is a command of
//! this program, so it has the same checks, record and exit code.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::exit::{Exit, Failure};
use super::json_lines::{self, next_message, send};
use super::tool_server::ToolServer;
use super::{executor, mcp_http, signals};
use crate::cancel::Cancel;
use crate::mcp::{Reaction, react};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The repository, or a directory in it [default: the current directory]
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Serve over HTTP on this address instead, such as 127.0.0.1:7172; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Also accept requests for this host name, such as that of a reverse proxy in front of the server
    #[arg(long, value_name = "NAME", requires = "http")]
    host: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let directory = arguments.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let directory = directory.canonicalize().map_err(|error| {
        Failure::new(Exit::Missing, format!("cannot use {}: {error}", directory.display()))
    })?;
    let server = Arc::new(ToolServer::new(directory));
    let executor = executor::start(1)?;
    let cancel = Cancel::default();
    signals::watch(executor.handle(), &cancel)?;
    let stopped = Arc::clone(&server);
    let asked = Arc::clone(&server);
    json_lines::end_on_signal(cancel, move || stopped.cancel_all(), move || asked.is_idle())?;
    if let Some(listen) = arguments.http {
        return mcp_http::serve(listen, &arguments.host, &server, &executor);
    }
    let mut messages = std::io::stdin().lock();
    std::thread::scope(|scope| {
        let served = loop {
            match next_message(&mut messages) {
                Ok(Some(message)) => match react(&message) {
                    Reaction::Answer(answer) => send(&answer),
                    Reaction::Cancel(id) => server.cancel(&id.to_string()),
                    Reaction::Nothing => {}
                    Reaction::Call(call) => {
                        let server = &server;
                        let key = call.id.to_string();
                        match server.start(&key, &call) {
                            Ok(started) => {
                                scope.spawn(move || {
                                    server.finish(&key, &call, started).iter().for_each(send);
                                });
                            }
                            Err(answer) => send(&answer),
                        }
                    }
                },
                Ok(None) => break Ok(Exit::Done),
                Err(failure) => break Err(failure),
            }
        };
        // The client has gone: its calls end in order.
        server.cancel_all();
        served
    })
}
