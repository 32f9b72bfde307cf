//! The loop over the HTTP/1.1 requests of one client connection. Each request is read, decided and sent by itself, the
//! tenth as strictly as the first.

use super::admission::AdmittedConnection;
use super::client::ClientConnection;
use super::decide::DecidedRequest;
use super::exchange::{AfterExchange, SentRequest, exchange};
use super::outgoing_check::{MessageCheck, watch};
use super::outgoing_request::{OutgoingBody, OutgoingRequest, outgoing_request};
use super::readings::check_body;
use super::record::ConnectionRecord;
use super::refusal::Refusal;
use super::response_mask::ResponseMask;
use super::route::{Recipient, Routing, route};
use super::upstream::UpstreamPool;
use super::websocket;
use crate::names::MODEL_HOST;
use std::sync::Arc;
use zeroize::Zeroizing;

/// What the connection does after one request.
enum Next {
    Request,
    Close,
    Websocket(Box<Upgrade>),
}

/// A websocket handshake that both sides agreed on.
struct Upgrade {
    connection: Arc<AdmittedConnection>,
    decided: DecidedRequest,
    record: ConnectionRecord,
}

/// Returns when one side ends.
pub(super) async fn serve(routing: &Routing, mut client: ClientConnection, mut pool: UpstreamPool) {
    loop {
        match serve_request(routing, &mut client, &mut pool).await {
            Next::Request => {}
            Next::Close => return,
            Next::Websocket(upgrade) => {
                let Some(upstream) = pool.into_upstream() else { return };
                let Upgrade { connection, decided, record } = *upgrade;
                return websocket::relay(&connection, client, upstream, &decided, record).await;
            }
        }
    }
}

async fn serve_request(routing: &Routing, client: &mut ClientConnection, pool: &mut UpstreamPool) -> Next {
    let limits = routing.proxy().config.limits;
    let bytes = match client.reader.read_head(limits.idle, limits.head_time).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Next::Close,
        Err(error) => {
            let refusal = Refusal::unreadable(error.to_string());
            client.refuse(&mut routing.new_record(), &refusal).await;
            return Next::Close;
        }
    };
    let mut record = routing.new_record();
    match pass(routing, &bytes, client, pool, &mut record).await {
        Ok((recipient, after)) => next(recipient, after, record),
        Err(refusal) => {
            client.refuse(&mut record, &refusal).await;
            Next::Close
        }
    }
}

/// Decides a request and, where it may pass, relays it and its response.
async fn pass(
    routing: &Routing,
    bytes: &[u8],
    client: &mut ClientConnection,
    pool: &mut UpstreamPool,
    record: &mut ConnectionRecord,
) -> Result<(Recipient, AfterExchange), Refusal> {
    let proxy = routing.proxy();
    let head = proxy.defences.parse_head(bytes).map_err(Refusal::head)?;
    let recipient = route(routing, &head, record).await?;
    let (outgoing, check, mask, upstream) = match &recipient {
        Recipient::Server { connection, decided } => {
            if connection.admitted.reads_requests() {
                check_body(&head)?;
            }
            let outgoing = outgoing_request(connection, &head, decided, client, record).await?;
            let watcher = watch(proxy.config.leak_watcher.as_ref(), &connection.destination);
            let mask = ResponseMask::new(connection);
            let check = MessageCheck::new("body", watcher).with_form(decided.form_check.clone());
            (outgoing, check, mask, pool.server(connection).await?)
        }
        Recipient::Gateway(target) => {
            let written = Zeroizing::new(head.write_upstream(MODEL_HOST, &target.path_and_query));
            let outgoing = OutgoingRequest { head: written, body: OutgoingBody::Relayed, _held: None };
            (outgoing, MessageCheck::nothing(), ResponseMask::default(), pool.gateway(target))
        }
    };
    let request = SentRequest { head: &head, outgoing: &outgoing, idle: proxy.config.limits.idle };
    let after = exchange(client, upstream, &request, check, mask, record).await?;
    Ok((recipient, after))
}

fn next(recipient: Recipient, after: AfterExchange, mut record: ConnectionRecord) -> Next {
    if let AfterExchange::Broken(reason) = after {
        record.broken(reason);
        return Next::Close;
    }
    match (recipient, after) {
        (Recipient::Server { connection, decided }, AfterExchange::Upgraded) => {
            Next::Websocket(Box::new(Upgrade { connection, decided, record }))
        }
        (Recipient::Server { .. }, AfterExchange::KeepAlive) => Next::Request,
        // The gateway emits its own events, and accepts no websockets.
        (Recipient::Gateway(_), AfterExchange::KeepAlive) => {
            record.discard();
            Next::Request
        }
        (Recipient::Gateway(_), _) => {
            record.discard();
            Next::Close
        }
        (Recipient::Server { .. }, _) => Next::Close,
    }
}
