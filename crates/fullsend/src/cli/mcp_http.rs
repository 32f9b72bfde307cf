//! `fullsend mcp --http`: the same tools over streamable HTTP, for clients with the token.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::configuration::variable;
use super::exit::{Exit, Failure};
use super::serve::check_token;
use super::tool_server::ToolServer;
use crate::json_rpc::{self, RpcMessage};
use crate::mcp::{Reaction, react, versions};
use crate::serve::{AccessRules, AccessToken, Caller, HttpMessage, McpHttpService, Role, serve_mcp};

/// Holds the token that clients show.
const TOKEN_VARIABLE: &str = "FULLSEND_MCP_TOKEN";

const TICK: Duration = Duration::from_secs(3600);

/// Serves until a signal ends the process.
pub(super) fn serve(
    listen: SocketAddr,
    names: &[String],
    server: &Arc<ToolServer>,
    executor: &Runtime,
) -> Result<Exit, Failure> {
    let token = token(listen)?;
    executor.block_on(async {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Missing, format!("cannot listen on {listen}: {error}"))
                .help("name another address with --http")
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let caller = Caller { name: "client".to_owned(), role: Role::Operator };
        let tokens = vec![AccessToken::new(&token, caller)];
        let answering = Arc::clone(server);
        let cancelling = Arc::clone(server);
        let endpoint = McpHttpService {
            access: AccessRules::new(address, names, tokens),
            versions: versions(),
            answer: Box::new(move |message| answer(&answering, message)),
            hang_up: Box::new(move |message| hang_up(&cancelling, message)),
        };
        writeln!(std::io::stdout().lock(), "http://{address}/mcp\nAuthorization: Bearer {token}")?;
        std::io::stdout().lock().flush()?;
        let _serving = tokio::spawn(serve_mcp(listener, Arc::new(endpoint)));
        loop {
            tokio::time::sleep(TICK).await;
        }
    })
}

/// The token of the environment, or a new one where the address is loopback.
fn token(listen: SocketAddr) -> Result<String, Failure> {
    match variable(TOKEN_VARIABLE).filter(|token| !token.is_empty()) {
        Some(token) => check_token(TOKEN_VARIABLE, &token).map(|()| token),
        None if !listen.ip().is_loopback() => {
            let why = format!("{listen} can be reached from outside, and {TOKEN_VARIABLE} is not set");
            Err(Failure::new(Exit::Usage, why)
                .help("set it to a token that clients must show, or listen on 127.0.0.1"))
        }
        None => Ok(format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())),
    }
}

/// The key of a call: two clients may use the same id.
fn key(client: &str, id: &Json) -> String {
    format!("{client} {id}")
}

fn answer(server: &ToolServer, message: &HttpMessage) -> Option<Json> {
    match react(&message.bytes) {
        Reaction::Answer(answer) => Some(answer),
        Reaction::Nothing => None,
        Reaction::Cancel(id) => {
            server.cancel(&key(&message.client, &id));
            None
        }
        Reaction::Call(call) => {
            let key = key(&message.client, &call.id);
            match server.start(&key, &call) {
                Err(answer) => Some(answer),
                Ok(child) => {
                    if message.is_abandoned.load(Ordering::SeqCst) {
                        server.cancel(&key);
                    }
                    // A client that cancelled its call gets this answer instead of waiting.
                    Some(server.finish(&key, &call, child).unwrap_or_else(|| call.cancelled()))
                }
            }
        }
    }
}

fn hang_up(server: &ToolServer, message: &HttpMessage) {
    if let Ok(RpcMessage::Request { id, .. }) = json_rpc::parse(&message.bytes) {
        server.cancel(&key(&message.client, &id));
    }
}
